"""Unit tests run in virtual time, and end within two minutes even if they hang."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from kubewright.testing import VirtualClock, VirtualTimeLoop

_HERE = Path(__file__).parent

# How fast a machine is says nothing about the code. A failure in new examples says nothing about the change under test.
settings.register_profile(
    "same examples", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile("new examples", settings.get_profile("same examples"), derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same examples"))


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"virtual": VirtualTimeLoop}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(120))


@pytest.fixture
def clock() -> VirtualClock:
    """The virtual clock of the test."""
    return VirtualClock()
