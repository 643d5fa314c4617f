"""Free ports of this machine."""

from __future__ import annotations

import random
import socket


def free_port() -> int:
    """Return a port on which no program listens, outside the range of outgoing connections. It is not reserved."""
    while True:
        port = random.randrange(20_000, 30_000)
        if is_free(port):
            return port


def is_free(port: int) -> bool:
    """Return whether no program listens on a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
