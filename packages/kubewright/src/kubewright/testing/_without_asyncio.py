"""In place of pytest-asyncio, where it is not installed: synchronous tests need only the plugin's other fixtures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def fixture(function: Callable[..., Any]) -> Any:
    """Replace an asynchronous fixture by one that fails and says what to install."""
    name = function.__name__

    def missing() -> None:
        pytest.fail(
            f"the fixture {name} needs pytest-asyncio, which is not installed; "
            "install it with: pip install pytest-asyncio",
            pytrace=False,
        )

    return pytest.fixture(name=name)(missing)
