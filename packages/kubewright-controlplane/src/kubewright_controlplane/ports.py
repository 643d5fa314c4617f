"""Ports of this machine, and the addresses and ports of processes that stand for Pods."""

from __future__ import annotations

import random
import socket
from functools import cache
from ipaddress import IPv4Network
from typing import Final

POD_NETWORK: Final = IPv4Network("10.244.0.0/16")
"""The addresses of simulated Pods. Nothing listens there."""
LOOPBACK: Final = "127.0.0.1"
"""The address of every process, on systems where 127.0.0.0/8 is not configured as a whole."""
LOOPBACK_PODS: Final = IPv4Network("127.64.0.0/10")
"""The addresses of Pods that run as processes of an embedded control plane."""
LOOPBACK_SERVICES: Final = IPv4Network("127.128.0.0/10")
"""The cluster IPs of Services of an embedded control plane whose Pods may run as processes."""
_PORT_SHIFT: Final = 10_000
"""Port 80 is 10080 for a user that may not open port 80."""


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


@cache
def process_port(pod_port: int) -> int:
    """Return the port that a process opens for a port of its Pod.

    It is the same port if this user may open it. Otherwise the process gets another one in its environment
    (`KUBEWRIGHT_PORT_80`), and probes, node ports and `kubectl port-forward` connect there.
    """
    return pod_port if _may_open(pod_port) else pod_port + _PORT_SHIFT


def _may_open(port: int) -> bool:
    """Return whether this user has the permission. Another program may still hold the port."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((LOOPBACK, port))
        except PermissionError:
            return False
        except OSError:
            return True
    return True
