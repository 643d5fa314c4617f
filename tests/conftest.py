"""Settings of all tests."""

from __future__ import annotations

import os
import signal

import pytest

from kubewright.testing._plugin import target_of


def pytest_configure() -> None:
    """Make commands under test react to Ctrl-C and to a closed terminal, also if the tests were started by nohup or in
    the background. Child processes inherit ignored signals, but no handlers.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On another control plane than the embedded one, run only the tests that use the control plane."""
    if target_of(config) == "embedded":
        return
    meets = [
        bool({"kubewright_config", "kubewright_target"} & set(getattr(item, "fixturenames", ()))) for item in items
    ]
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
