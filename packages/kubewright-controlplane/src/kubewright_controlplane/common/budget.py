"""The sockets that connections of users may take. The API server in the same process needs file descriptors, too."""

from __future__ import annotations

import resource
from typing import Final

from kubewright._runtime.log import get_logger

_MOST: Final = 4_000
"""A TCP connection uses two sockets, each with about 200 KiB of buffers if both sides are busy."""


class SocketBudget:
    """The sockets that one part of the control plane may take for all of its users together."""

    def __init__(self, part: str, full: str, share: int) -> None:
        """`part` names the log, in which `full` appears. The part uses a `share`-th of the file descriptors at most."""
        self._log = get_logger(part)
        self._full = full
        self._share = share
        self._used = 0
        self._is_full = False

    def take(self, count: int) -> bool:
        """Take `count` sockets. Returns False, and logs a warning, if too few are left."""
        limit = _limit(self._share)
        if self._used + count > limit:
            if not self._is_full:
                way_out = "raise the limit of open files (ulimit -n)"
                self._log.warning(self._full, sockets=limit, way_out=way_out)
            self._is_full = True
            return False
        self._used += count
        return True

    def free(self, count: int) -> None:
        """Return `count` sockets."""
        self._used -= count
        self._is_full = False


def _limit(share: int) -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else min(_MOST, soft // share)
