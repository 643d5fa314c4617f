"""A fuse against mass deletion: it allows a number of deletes in a time, then none until a user confirms them.

A selector that matches too much, an empty answer taken for an empty world: what a reconciler then deletes in a second
takes a day to bring back. A controller with `delete_fuse=DeleteFuse(limit=20)` stops at the twenty-first.

Expected flow
    Deletes and evictions through the context's client are counted before they are sent, also those of objects that no
    longer exist. The one above `limit` within `window` is not sent and blows the fuse: it and all further ones of that
    controller raise DeletesStopped, which ends their reconcile as a TerminalError does and is logged once in full.
    Other work continues.
To confirm
    For one object: `kubewright.dev/allow-deletes: "true"` among its annotations; its reconcile comes at once, and its
    deletes pass uncounted for as long as the annotation is there.
    For all: start the program with `--allow-mass-deletion`; fuses are off for that run.
Not guaranteed
    That a process that is started again remembers: it starts with a fuse that is whole, and passes `limit` deletes.
    `delete_all_of` counts as many as there are when it is asked for; between the count and the deletion more may come.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from kubewright._runtime.clock import Clock
from kubewright.machinery.errors import ConfigError, TerminalError
from kubewright.machinery.time import Seconds, seconds

ALLOW_DELETES: Final = "kubewright.dev/allow-deletes"
"""The annotation of an object whose reconcile may delete as much as it wants, when it is `"true"`."""


class DeletesStopped(TerminalError):
    """A delete was not sent, because the controller's fuse has blown. The message says how to confirm deletes."""


@dataclass(frozen=True, slots=True)
class DeleteFuse:
    """How many deletes one controller may send in a time. Raises ConfigError for a limit below one."""

    limit: int
    window: Seconds = timedelta(minutes=1)

    def __post_init__(self) -> None:
        if self.limit < 1 or seconds(self.window) <= 0:
            raise ConfigError(f"DeleteFuse(limit={self.limit}, window={self.window}): both must be above zero")


class Fuse:
    """The fuse of one controller that runs."""

    def __init__(self, settings: DeleteFuse, controller: str, clock: Clock) -> None:
        self.blown = False
        self._settings = settings
        self._controller = controller
        self._clock = clock
        self._passed: deque[float] = deque()
        """When the last deletes were sent; no more than `limit`."""

    def pass_through(self, what: str, count: int = 1) -> None:
        """Let `count` deletes of `what` pass. Raises DeletesStopped when that is too many, or the fuse has blown."""
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
