"""What holds for all tests of the project."""

from __future__ import annotations

import signal

import pytest


def pytest_configure() -> None:
    """Commands under test heed Ctrl-C and a closed terminal also where the tests were started to ignore both, in the
    background or by nohup: children inherit what is ignored, but no handler.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On another control plane than the embedded one run only the tests that meet it: the others have been seen to
    hold, and would say the same again."""
    if config.getoption("--target") == "embedded":
        return
    meets = [bool({"control_plane", "target"} & set(getattr(item, "fixturenames", ()))) for item in items]
    config.hook.pytest_deselected(items=[item for item, does in zip(items, meets, strict=True) if not does])
    items[:] = [item for item, does in zip(items, meets, strict=True) if does]
