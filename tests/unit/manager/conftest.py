"""A manager's parts against a small server, in virtual time."""

import pytest

from .smallserver import SmallServer


@pytest.fixture
def server() -> SmallServer:
    return SmallServer()
