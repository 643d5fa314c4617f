"""Unit tests run in virtual time, and end within 30 seconds even if they hang."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from kubewright.testing import VirtualClock, VirtualTimeLoop

_HERE = Path(__file__).parent


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"virtual": VirtualTimeLoop}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(30))


@pytest.fixture
def clock() -> VirtualClock:
    """The virtual clock of the test."""
    return VirtualClock()
