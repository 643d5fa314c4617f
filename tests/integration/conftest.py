"""Tests on a fixed node port do not run side by side with those of another test run on the same machine."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator

import pytest


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
