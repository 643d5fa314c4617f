"""What holds for all tests of the project."""

from __future__ import annotations

import re
import signal
import socket
import time
from collections.abc import Iterator

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


@pytest.fixture(autouse=True)
def _node_port_of_this_machine(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hold the node port of the test's group against test runs in other processes of this machine.

    The UDP port of the same number is the lock: node ports are TCP, and the system releases it when a run is killed.
    """
    marks = (mark.args[0] for mark in request.node.iter_markers("xdist_group") if mark.args)
    found = next((match for mark in marks if (match := re.fullmatch(r"node port (\d+)", mark))), None)
    if found is None:
        yield
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as lock:
        while True:
            try:
                lock.bind(("127.0.0.1", int(found[1])))
                break
            except OSError:
                time.sleep(0.1)  # until the other run has finished its test
        yield
