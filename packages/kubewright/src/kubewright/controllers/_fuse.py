"""A fuse against mass deletion: it limits the deletes in a period, then stops all deletes until a user confirms them.

With a selector that matches too much, or an empty answer by mistake, a reconciler can delete in a second what takes a
day to restore. A controller with `delete_fuse=DeleteFuse(limit=20)` stops at the twenty-first.

Expected flow
    Deletes and evictions through the context's client are counted before they are sent, including those of objects that
    no longer exist. A delete above `limit` within `window` is not sent and blows the fuse. This and all further deletes
    of the controller raise DeletesStopped, which ends their reconcile like a TerminalError and is logged in full once.
    Other work continues.
To confirm
    For one object: add the annotation `kubewright.dev/allow-deletes: "true"`. The object is reconciled immediately, and
    its deletes are sent uncounted as long as it has the annotation.
    For all objects: start the program with `--allow-mass-deletion`, which disables fuses for that run.
Not guaranteed
    A memory across restarts: a new process has an intact fuse and allows `limit` deletes.
    An exact count for `delete_all_of`: objects may be added between the count and the deletion.
"""

from __future__ import annotations

from collections import deque
from datetime import timedelta
from typing import Final

import msgspec

from kubewright._runtime.clock import Clock
from kubewright.machinery.errors import ConfigError, TerminalError
from kubewright.machinery.time import Seconds, seconds

ALLOW_DELETES: Final = "kubewright.dev/allow-deletes"
"""Annotation of an object whose reconcile may delete without a limit, if the value is `"true"`."""


class DeletesStopped(TerminalError):
    """A delete was not sent, because the controller's fuse has blown. The message says how to confirm deletes."""


class DeleteFuse(msgspec.Struct, frozen=True):
    """The number of deletes that one controller may send in a period. Raises ConfigError for a limit below one."""

    limit: int
    window: Seconds = timedelta(minutes=1)

    def __post_init__(self) -> None:
        if self.limit < 1 or seconds(self.window) <= 0:
            raise ConfigError(f"DeleteFuse(limit={self.limit}, window={self.window}): both must be above zero")


class Fuse:
    """The fuse of one running controller."""

    def __init__(self, settings: DeleteFuse, controller: str, clock: Clock) -> None:
        self.blown = False
        self._settings = settings
        self._controller = controller
        self._clock = clock
        self._passed: deque[float] = deque()
        """The times of the last deletes, at most `limit`."""

    def pass_through(self, what: str, count: int = 1) -> None:
        """Allow `count` deletes of `what`. Raises DeletesStopped above the limit, or if the fuse has blown."""
        limit, window = self._settings.limit, seconds(self._settings.window)
        now = self._clock.monotonic()
        while self._passed and now - self._passed[0] >= window:
            self._passed.popleft()
        if self.blown or len(self._passed) + count > limit:
            self.blown = True
            raise DeletesStopped(
                f"{what} not deleted: controller {self._controller} asked for more than {limit} deletes within "
                f"{window:g} s, and deletes nothing more. If they are meant, put the annotation {ALLOW_DELETES}: "
                f'"true" on the object that is reconciled, or start again with --allow-mass-deletion'
            )
        self._passed.extend([now] * count)
