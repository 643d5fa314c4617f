"""Ports of this machine, which all that runs on it shares."""

from __future__ import annotations

import random
import re
import socket
from pathlib import Path

import pytest


def on_its_node_port(text: Path) -> pytest.MarkDecorator:
    """For a test that runs what the file says, which names its node port: no other with the same one runs beside it."""
    port = re.search(r"\b3[0-2]\d{3}\b", text.read_text())
    return pytest.mark.xdist_group(f"node port {port[0]}" if port else text.parent.name)


def free_port() -> int:
    """One that nobody listens on, and none of those that connections get: it is free for longer than a moment."""
    while True:
        port = random.randrange(20_000, 30_000)
        if is_free(port):
            return port


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
