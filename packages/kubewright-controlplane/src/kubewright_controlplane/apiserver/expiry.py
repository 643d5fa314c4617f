"""Events live for an hour after they were last written: they are news, and would fill the server otherwise.

Follows kube-apiserver's --event-ttl.
"""

from __future__ import annotations

from collections import deque

from kubewright._runtime.clock import Clock, Timer
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.storage.events import Event

LIFETIME_SECONDS = 3600.0
_LOOK_EVERY_SECONDS = 60.0
_EVENTS = "events"


class EventExpiry:
    """Removes the Events whose time has come. After a restart their hour begins anew."""

    def __init__(self, resources: ResourceSet, clock: Clock) -> None:
        self._resources = resources
        self._clock = clock
        self._written: deque[tuple[float, str, int]] = deque()
        """When, which key, and the revision that the entry had: another one was written later."""
        self._timer: Timer | None = None

    def start(self) -> None:
        self._resources.observe(_EVENTS, self._note)
        self._look()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _note(self, event: Event) -> None:
        if event.type != "DELETED":
            self._written.append((self._clock.monotonic(), event.entry.key, event.revision))

    def _look(self) -> None:
        registry = self._resources.registry(_EVENTS)
        oldest = self._clock.monotonic() - LIFETIME_SECONDS
        while self._written and self._written[0][0] <= oldest:
            _, key, revision = self._written.popleft()
            entry = self._resources.store.get(_EVENTS, key)
            if entry is not None and entry.revision == revision:
                registry.remove(self._resources.decode(entry.data))
        self._timer = self._clock.call_later(_LOOK_EVERY_SECONDS, self._look)
