"""The ports of Pods, and those that their processes open.

They are the same where this user may open them. Ports below 1024 are for root alone on many machines; there a process
opens another in place of such a one, and is told which by its environment (`KUBEWRIGHT_PORT_80`). Whoever speaks to a
Pod on behalf of the cluster goes there: probes, node ports, `kubectl port-forward`.
"""

from __future__ import annotations

import socket
from functools import cache
from typing import Final

from kubewright_controlplane.kubelet.addresses import LOOPBACK

_SHIFT: Final = 10_000
"""Port 80 is 10080 where it can't be had."""


@cache
def port_of_process(port: int) -> int:
    """The port that a process opens for a Pod's `port`."""
    return port if _may_open(port) else port + _SHIFT


def _may_open(port: int) -> bool:
    """Whether this user has the right to; another program may have the port all the same."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((LOOPBACK, port))
        except PermissionError:
            return False
        except OSError:
            return True
    return True
