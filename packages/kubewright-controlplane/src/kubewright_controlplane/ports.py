"""Ports of this machine, which all that runs on it shares."""

from __future__ import annotations

import random
import socket


def free_port() -> int:
    """One that nobody listens on, and none of those that connections get: it is free until it is listened on."""
    while True:
        port = random.randrange(20_000, 30_000)
        if is_free(port):
            return port


def is_free(port: int) -> bool:
    """Whether nobody listens on it."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
