"""Unit tests run in virtual time, and end within 30 seconds even if they hang."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from kubewright.testing import VirtualClock, VirtualTimeLoop

_HERE = Path(__file__).parent

settings.register_profile("no time", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no time")  # how fast a machine is says nothing about the code


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
