"""The sockets that the proxy may use. The API server runs in the same process, and needs file descriptors too."""

from __future__ import annotations

import resource
from typing import Final

from kubewright._runtime.log import get_logger

_SHARE: Final = 4
"""The proxy uses at most this part of the file descriptors."""
_MOST: Final = 4_000
"""A TCP connection uses two sockets, each with about 200 KiB of buffers if both sides are busy."""
_log = get_logger("kubewright.proxy")


class SocketBudget:
    """The sockets of all connections and UDP flows that the proxy carries."""

    def __init__(self) -> None:
        self._used = 0
        self._is_full = False

    def take(self, count: int) -> bool:
        """Take `count` sockets. Returns False, and logs a warning, if too few are left."""
        limit = _limit()
        if self._used + count > limit:
            if not self._is_full:
                _log.warning("Proxy is full", sockets=limit, way_out="raise the limit of open files (ulimit -n)")
            self._is_full = True
            return False
        self._used += count
        return True

    def free(self, count: int) -> None:
        """Return `count` sockets."""
        self._used -= count
        self._is_full = False


def _limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else min(_MOST, soft // _SHARE)
