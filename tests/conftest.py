"""Settings of all tests."""

from __future__ import annotations

import gc
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import pytest

from kubewright.testing._plugin import target_of

ROOT: Final = Path(__file__).parents[1]
SAMPLE: Final = "webserver-operator"
SHORT: Final = ("hostile", "conformance", "unit")
"""Folders of tests that take a short time."""


def pytest_configure() -> None:
    """Make commands under test react to Ctrl-C and to a closed terminal, also if the tests were started by nohup or in
    the background. Child processes inherit ignored signals, but no handlers.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Let each worker start with other files, so that in a new checkout the workers share the compilation of files.

    Collect without garbage collection: it would look again and again at thousands of tests that stay.
    """
    if not session.config.pluginmanager.hasplugin("dsession"):  # which only distributes tests
        gc.disable()
    arguments = session.config.args
    if "PYTEST_XDIST_WORKER" not in os.environ or not all(Path(each).is_dir() for each in arguments):
        return
    omitted = session.config.getini("norecursedirs")
    files = [str(path) for each in arguments for path in sorted(Path(each).rglob("test_*.py"))]
    files = [each for each in files if not any(fnmatch(part, name) for part in Path(each).parts for name in omitted)]
    number, count = int(os.environ["PYTEST_XDIST_WORKER"][2:]), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    start = len(files) * number // count
    session.config.args = files[start:] + files[:start]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Start with the tests that take long, so that all workers finish at the same time.

    Of the same end-to-end test in each example, only one is not long. On another control plane than the embedded one,
    run only the tests that use the control plane.
    """
    for item in items:
        if item.path.name == "test_e2e.py" and SAMPLE not in item.path.parts:
            item.add_marker("long")
    items.sort(key=lambda item: (duration(item.path), item.path))
    if target_of(config) == "embedded":
        return
    meets = [
        bool({"kubewright_config", "kubewright_target"} & set(getattr(item, "fixturenames", ()))) for item in items
    ]
    config.hook.pytest_deselected(items=[item for item, does in zip(items, meets, strict=True) if not does])
    items[:] = [item for item, does in zip(items, meets, strict=True) if does]


def duration(path: Path) -> int:
    """Return the place of a file in the order of durations: most unit tests take milliseconds."""
    folders = path.relative_to(ROOT).parts[:-1]
    return next((place for place, name in enumerate(SHORT, 1) if name in folders), 0)


class GroupsIgnored(Exception):
    """pytest-xdist distributes tests without regard to their groups, as it does under a newer pytest than it knows."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Stop before tests of one group run side by side: they would fight over node ports and files."""
    in_worker = "PYTEST_XDIST_WORKER" in os.environ and session.config.getoption("loadgroup", default=False)
    grouped = [each for each in session.items if each.get_closest_marker("xdist_group")]
    if in_worker and any("@" not in each.nodeid for each in grouped):
        raise GroupsIgnored("install a pytest as `make setup` does")
    spare_garbage_collector()


def spare_garbage_collector() -> None:
    """Leave out of each collection what all tests share: modules, schemas and the tests themselves."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture
def refusing_address() -> Iterator[str]:
    """An address of this machine that refuses connections, and that no other program can take meanwhile."""
    with socket.socket() as bound:  # but not listening
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.fixture(autouse=True)
def _node_port_of_this_machine(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hold the node port of the test's group against test runs in other processes on this machine.

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
