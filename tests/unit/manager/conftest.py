"""A manager's parts against a small server, on a clock that the tests move."""

import pytest

from kubewright.testing import VirtualClock

from .smallserver import SmallServer


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def server() -> SmallServer:
    return SmallServer()
