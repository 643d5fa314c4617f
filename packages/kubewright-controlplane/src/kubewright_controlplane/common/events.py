"""Writes the Events of the control plane's controllers in the form of kube-controller-manager's: core/v1, and each
controller under its own name.

Guarantees
    Recording neither waits nor fails: an Event is kept in memory, and one task writes all in order.
    A repeated Event increases the count of the first one. Ten or more Events about one object with one reason, which
    differ only in their messages, become one Event "(combined from similar events): ...".
    Each component reports at most 25 Events about an object at once, and then one every five minutes. Others are
    dropped.
    Memory is bounded: what was written is forgotten when `_REMEMBERED` others were seen after it.
Not guaranteed
    That an Event is written: an Event that the server rejects is logged and dropped.

Follows client-go's tools/record.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from kubewright._runtime.log import get_logger
from kubewright.apis.core.v1 import Event, EventSource, Pod
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.client._client import Client
from kubewright.client._patch import MergePatch
from kubewright.client._rest import reference_to
from kubewright.controllers import Controller, EventRecord, EventRecorder
from kubewright.controllers._reconcile import ALREADY_OWNED, RECONCILE_FAILED, RECONCILE_SUCCEEDED
from kubewright.machinery import time
from kubewright.machinery.errors import APIError, KubewrightError, NotFound

V = TypeVar("V")

_REMEMBERED: Final = 4096
_BACKLOG: Final = 10_000
_SIMILAR: Final = 10
"""From this number of messages on, similar Events are combined."""
_SIMILAR_SECONDS: Final = 600.0
_BURST: Final = 25
_REFILL_SECONDS: Final = 300.0
_MAX_MESSAGE: Final = 1024
_MAX_BASE: Final = 236
"""The longest first part of a name, in bytes."""
_KUBELET: Final = "kubelet"
_COMBINED: Final = "(combined from similar events): "
_OF_THE_SDK: Final = frozenset({ALREADY_OWNED, RECONCILE_FAILED, RECONCILE_SUCCEEDED})
"""Events that operators report, but not the controllers of Kubernetes."""

_COMPONENTS: Final[Mapping[str, str]] = {
    "disruption-controller": "controllermanager",
    "endpoints-controller": "endpoint-controller",
    "endpointslice-controller": "endpoint-slice-controller",
    "endpointslice-mirroring-controller": "endpoint-slice-mirroring-controller",
    "ephemeral-volume-controller": "ephemeral_volume",
    "horizontal-pod-autoscaler-controller": "horizontal-pod-autoscaler",
    "node-lifecycle-controller": "node-controller",
    "persistentvolume-binder-controller": "persistentvolume-controller",
    "replicationcontroller-controller": "replication-controller",
    "resourceclaim-controller": "resource_claim",
}
"""The names under which controllers report, where they differ from the names by which they are switched off."""

_log = get_logger("kubewright.controlplane.events")


class _Group(NamedTuple):
    """Equal for similar Events."""

    component: str
    uid: str
    type: str
    reason: str


class _Key(NamedTuple):
    """Equal for Events that are counted together. Combined Events have no message."""

    group: _Group
    message: str | None


@dataclass(slots=True)
class _Tokens:
    left: float
    at: float


@dataclass(slots=True)
class _Similar:
    at: float
    messages: set[str] = field(default_factory=set[str])


@dataclass(slots=True)
class _Written:
    name: str = ""
    """Name of the Event on the server; empty before it is written."""
    count: int = 0


class _Pending(NamedTuple):
    key: _Key
    event: Event


class _Recent(Generic[V]):
    """A dictionary that forgets what was used least recently."""

    def __init__(self) -> None:
        self._values: OrderedDict[tuple[object, ...], V] = OrderedDict()

    def get(self, key: tuple[object, ...], default: V) -> V:
        """Return the value of `key`, which is `default` from now on if there is none."""
        value = self._values.setdefault(key, default)
        self._values.move_to_end(key)
        if len(self._values) > _REMEMBERED:
            self._values.popitem(last=False)
        return value


class ControlPlaneEvents:
    """Writes the Events of all controllers. `run` writes until it is cancelled."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._clock = client.clock
        self._backlog: deque[_Pending] = deque()
        self._arrived = asyncio.Event()
        self._written: _Recent[_Written] = _Recent()
        self._similar: _Recent[_Similar] = _Recent()
        self._tokens: _Recent[_Tokens] = _Recent()

    def of(self, component: str) -> EventRecorder:
        """Return the recorder of a component."""
        return _ComponentRecorder(self, component)

    def reporting(self, controllers: Iterable[Controller[Any]]) -> list[Controller[Any]]:
        """Return the controllers with recorders of their own, except those that have one."""
        return [
            each if each.recorder else replace(each, recorder=self.of(_COMPONENTS.get(each.name, each.name)))
            for each in controllers
        ]

    async def run(self) -> None:
        """Write the recorded Events until cancelled."""
        while True:
            await self._arrived.wait()
            while self._backlog:
                await self._write(self._backlog.popleft())
            self._arrived.clear()

    def record(self, component: str, event: EventRecord) -> None:
        """Put an Event into the backlog, unless there were too many about its object."""
        now = asyncio.get_running_loop().time()
        uid = event.regarding.metadata.uid
        group = _Group(component, uid, event.type, event.reason)
        combined = self._is_one_of_many(group, event.note, now)
        if not self._takes_token(component, uid, now) or len(self._backlog) >= _BACKLOG:
            return
        key = _Key(group, None if combined else event.note)
        message = _COMBINED + event.note if combined else event.note
        self._backlog.append(_Pending(key, _event(component, event, message, self._clock.now())))
        self._arrived.set()

    def _is_one_of_many(self, group: _Group, message: str, now: float) -> bool:
        similar = self._similar.get(group, _Similar(now))
        if now - similar.at > _SIMILAR_SECONDS:
            similar.messages.clear()
        similar.at = now
        similar.messages.add(message)
        if len(similar.messages) < _SIMILAR:
            return False
        similar.messages.pop()
        return True

    def _takes_token(self, component: str, uid: str, now: float) -> bool:
        tokens = self._tokens.get((component, uid), _Tokens(_BURST, now))
        tokens.left = min(_BURST, tokens.left + (now - tokens.at) / _REFILL_SECONDS)
        tokens.at = now
        if tokens.left < 1:
            return False
        tokens.left -= 1
        return True

    async def _write(self, pending: _Pending) -> None:
        written = self._written.get(pending.key, _Written())
        try:
            if not (written.name and await self._count(written, pending)):
                created = await self._client.create(pending.event)
                written.name, written.count = created.metadata.name, 1
        except KubewrightError as error:
            level = logging.DEBUG if _namespace_is_gone(error) else logging.WARNING
            _log.log(level, "Event not written", reason=pending.event.reason, error=str(error))

    async def _count(self, written: _Written, pending: _Pending) -> bool:
        """Increase the count of an Event. Returns False if it is no longer on the server."""
        event, count = pending.event, written.count + 1
        seen = time.format(event.last_timestamp) if event.last_timestamp else None
        change = {"count": count, "lastTimestamp": seen, "message": event.message}
        try:
            await self._client.patch(Event, MergePatch(change), name=written.name, namespace=event.metadata.namespace)
        except NotFound:  # the server deletes Events after an hour
            return False
        written.count = count
        return True


class _ComponentRecorder(EventRecorder):
    """Records Events under the name of a component."""

    def __init__(self, events: ControlPlaneEvents, component: str) -> None:
        self._events = events
        self._component = component

    def record(self, event: EventRecord, /) -> None:
        if event.reason not in _OF_THE_SDK:
            self._events.record(self._component, event)


def _event(component: str, event: EventRecord, message: str, now: datetime) -> Event:
    about = event.regarding.metadata
    host = event.regarding.spec.node_name if component == _KUBELET and isinstance(event.regarding, Pod) else None
    return Event(
        metadata=ObjectMeta(
            name=f"{about.name[:_MAX_BASE]}.{uuid.uuid4().hex[:16]}", namespace=about.namespace or "default"
        ),
        involved_object=reference_to(event.regarding),
        related=reference_to(event.related) if event.related is not None else None,
        type=event.type,
        reason=event.reason,
        message=message.encode()[:_MAX_MESSAGE].decode("utf-8", "ignore"),
        source=EventSource(component=component, host=host),
        reporting_component=component,
        reporting_instance=host or "",
        count=1,
        first_timestamp=now,
        last_timestamp=now,
    )


def _namespace_is_gone(error: KubewrightError) -> bool:
    return isinstance(error, NotFound) or (isinstance(error, APIError) and error.namespace_is_ending)
