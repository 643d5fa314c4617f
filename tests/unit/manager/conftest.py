"""A manager's parts against a small server, on a clock that the tests move."""

import pytest

from .smallserver import SmallServer


@pytest.fixture
def server() -> SmallServer:
    return SmallServer()
