"""Leaves out the reconciles that would only see the controller's own writes, for controllers with `one_pass=True`.

The author of such a controller promises that a successful reconcile leaves nothing to do after its own writes. An event
then leads to no reconcile if all of this is true:

    a watch reported it as one change; an event of a list may stand for several changes
    its resource version is that of a write by a reconcile of the same object
    that reconcile succeeded
    the answer to the write had exactly what was sent; see `kubewright.controllers._answers`

Any other event leads to a reconcile, also if it arrives together with such an event. If the answer to a write was lost,
or the process ended, nobody knows the resource version of the write, so its event leads to a reconcile.

An event often arrives before the answer to the write that caused it. Events that arrive during a reconcile of their
object therefore wait until it ends. They cannot lead to a reconcile earlier.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

from kubewright.cache._copy import KindCopy
from kubewright.cache._entry import Event, ObjectKey, key_of
from kubewright.cache._informer import Informer, copy_of
from kubewright.client._write import Answer, WriteCall, Writer
from kubewright.controllers._answers import is_as_sent
from kubewright.controllers._reconcile import CURRENT, Attempt, Request
from kubewright.models import Object

T = TypeVar("T", bound=Object)

Version: TypeAlias = tuple[type[Object], ObjectKey, int]
"""One version of an object in the cache: the kind of its informer, its key, and its resource version."""

Ask: TypeAlias = Callable[[Request, Event[Any]], None]
"""Requests a reconcile because of an event."""

_MOST_WAITING: Final = 64
"""The number of events that wait for the end of one reconcile. The next event requests another reconcile at once."""

_MANY_EXPECTED: Final = 1024
"""The number of expected events from which on they are checked for events that never come."""


class OwnEvents:
    """Knows which events of one controller only report its own writes."""

    def __init__(self) -> None:
        self._waiting: dict[Request, list[tuple[Version, Ask, Event[Any]]]] = {}
        """The objects that are being reconciled, and the events that wait for the end of their reconcile."""
        self._copies: dict[type[Object], KindCopy[Any]] = {}
        """The copies that the controller listens to, by the kind of their informer."""
        self._followed: dict[type[Object], list[KindCopy[Any]]] = {}
        """Cached results of `followed`, until a copy is added."""
        self._expected: dict[Version, Request] = {}
        """The versions whose events have not arrived yet, and the objects whose reconciles wrote them."""
        self._sweep_at = _MANY_EXPECTED

    def listen(self, informer: Informer[Any]) -> None:
        """Follow the writes to the kind of an informer whose events the controller receives."""
        self._copies[informer.kind] = copy_of(informer)
        self._followed.clear()

    def followed(self, kind: type[Object]) -> list[KindCopy[Any]]:
        """Return the copies of the resource of `kind` that the controller listens to."""
        found = self._followed.get(kind)
        if found is None:
            resource = kind.__api__.group, kind.__api__.plural
            found = [
                copy for each, copy in self._copies.items() if (each.__api__.group, each.__api__.plural) == resource
            ]
            self._followed[kind] = found
        return found

    def begin(self, attempt: Attempt) -> None:
        """Note that a reconcile begins."""
        self._waiting[attempt.request] = []
        attempt.written = set()

    def end(self, attempt: Attempt) -> None:
        """Note that a reconcile ended, and decide about the events that waited for its end."""
        written, attempt.written = attempt.written or set(), None
        for version, ask, event in self._waiting.pop(attempt.request):
            if attempt.succeeded and version in written:
                written.discard(version)
            else:
                ask(attempt.request, event)
        if attempt.succeeded and written:
            self._expect(written, attempt.request)

    def _expect(self, written: set[Version], request: Request) -> None:
        for version in written:
            if not self._has_reached(version):
                self._expected[version] = request
        if len(self._expected) >= self._sweep_at:
            self._expected = {each: of for each, of in self._expected.items() if not self._has_reached(each)}
            self._sweep_at = max(_MANY_EXPECTED, 2 * len(self._expected))

    def _has_reached(self, version: Version) -> bool:
        """Return whether the cache has all changes up to a version. Its event is not expected any more then.

        A list may replace several events, and a field selector of the cache may leave the object out.
        """
        kind, key, number = version
        return self._copies[kind].store.version_of(key.namespace) >= number

    def writer_of(self, kind: type[Object], event: Event[Any]) -> Request | None:
        """Return the object whose successful reconcile caused this event, and nothing else did; None if unknown."""
        if not self._expected:
            return None
        if not event.watched:
            # A list may replace the expected events. Its server may have been restored from a backup.
            self._expected.clear()
        return self._expected.pop((kind, event.key, event.new.resource_version), None) if event.new else None

    def waits(self, request: Request, kind: type[Object], event: Event[Any], ask: Ask) -> bool:
        """Keep an event until the reconcile of `request` that runs now ends. Returns False if the event need not wait.

        At the end, `ask` is called unless the reconcile caused the event.
        """
        waiting = self._waiting.get(request)
        if waiting is None or event.new is None or not event.watched or len(waiting) >= _MOST_WAITING:
            return False
        waiting.append(((kind, event.key, event.new.resource_version), ask, event))
        return True

    @property
    def expected(self) -> int:
        """The number of versions whose events have not arrived yet."""
        return len(self._expected)


class FollowOwnWrites:
    """Notes the version of each write whose answer has exactly what was sent."""

    def __init__(self, writer: Writer, own: OwnEvents) -> None:
        self._writer = writer
        self._own = own

    async def write(self, call: WriteCall[T], /) -> Answer[T]:
        attempt, copies = CURRENT.get(), self._own.followed(call.kind)
        if attempt is None or not copies or call.dry_run or call.answer_kind is not call.kind:
            return await self._writer(call)
        changes_fields = call.verb == "apply" or call.verb == "update"
        before = copies[0].latest(key_of(call.namespace, call.name)) if changes_fields else None
        answer = await self._writer(call)
        if attempt.written is not None and is_as_sent(call, before, answer):
            meta = answer.decode().metadata
            key, version = key_of(meta.namespace, meta.name), int(meta.resource_version or 0)
            for copy in copies:
                if copy.concerns(key, meta.labels):
                    attempt.written.add((copy.kind, key, version))
        return answer
