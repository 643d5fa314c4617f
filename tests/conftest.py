"""What holds for all tests of the project."""

from __future__ import annotations

import os
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


class GroupsIgnored(Exception):
    """pytest-xdist distributes tests without regard to their groups, as it does under a newer pytest than it knows."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Stop before tests of one group run side by side: they would fight over node ports and files."""
    in_worker = "PYTEST_XDIST_WORKER" in os.environ and session.config.getoption("loadgroup", default=False)
    grouped = [each for each in session.items if each.get_closest_marker("xdist_group")]
    if in_worker and any("@" not in each.nodeid for each in grouped):
        raise GroupsIgnored("install a pytest as `make setup` does")
