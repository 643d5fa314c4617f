"""Finds reconciles that change the same field again and again, and names the field.

Two patterns are distinguished from normal work:

A fight. This controller writes a value, another puts back what was there, and the controller writes the same value
again: the same field, the same value, `FIGHTS` times in a row within `WINDOW`. The other is found in managedFields.

A loop of its own. A reconcile writes an object that was written just before, the event of that write is all that asks
for the next reconcile, and that writes it again: `FLIPS` times in a row where the values recur, `MOVES` times where
they are new each time (a time, a counter).

Not taken for either: a status that follows other objects (its values differ from one write to the next, and others'
events ask for the reconciles); work in steps that makes, deletes or first writes an object in each; a value that is
renewed at intervals. An object that one side deletes and the other creates again is
found by `kubewright.controllers._hotloop.existence`.
Not found: a loop among more than `_RECENT` objects at a time.

What it costs: a count for each write. Versions are compared only of objects that were written `_SUSPICIOUS` times
lately, and of those that showed no sign of it only a few in every `_RESPITE`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any, Final

import msgspec

from kubewright._runtime.clock import Clock
from kubewright.cache._entry import ObjectKey
from kubewright.controllers._hotloop.difference import Path, difference, managers_of, shown
from kubewright.controllers._hotloop.existence import Existence
from kubewright.controllers._types import MAX_CAUSES, Attempt
from kubewright.machinery.json import JSONObject
from kubewright.models import Object, codec

FIGHTS: Final = 4
"""Values put back and written again, in a row."""
FLIPS: Final = 6
"""Writes in a row that only the write before asked for, with values that were there before."""
MOVES: Final = 30
"""The same with values that are new each time."""
WINDOW: Final = timedelta(minutes=10)
"""The longest time between two such writes."""

_SUSPICIOUS: Final = 3
_RESPITE: Final = 20
_RECENT: Final = 1024
"""Objects whose writes are counted."""
_OWN: Final = 512
"""Versions that are known to be this controller's."""
_REPORTED_AGAIN: Final = 3600.0
"""Seconds after which a loop that continues is reported again."""
_SHOWN: Final = 80
"""Characters of a value."""


class Shape(Enum):
    """The pattern of a hot loop. The values are the log messages."""

    UNDONE = "Hot loop: writes of a reconcile undone by another client"
    OWN = "Hot loop: reconcile triggered only by its own writes"
    DELETED = "Hot loop: objects created by a reconcile deleted by another client"
    CREATED = "Hot loop: objects deleted by a reconcile created by another client"


@dataclass(frozen=True, slots=True)
class HotLoop:
    """What keeps changing."""

    shape: Shape
    object: str
    """`Deployment default/web`."""
    field: str = ""
    """`spec.replicas`; empty where it is the object itself."""
    values: tuple[str, str] = ("", "")
    """The last two values of it, as JSON: what was found, and what this controller made of it."""
    managers: tuple[str, ...] = ()
    """Who else owned the field before this controller's last write; empty when it is a loop of its own."""


class _Write:
    """One write that was looked at."""

    __slots__ = ("at", "attempt", "changes", "document", "uid", "version")

    def __init__(self, at: float, attempt: Attempt | None, obj: Object, before: JSONObject) -> None:
        self.at = at
        self.attempt = attempt
        self.uid = obj.metadata.uid
        self.version = obj.metadata.resource_version
        self.document = codec.document(obj)
        self.changes = difference(before, self.document)


class Suspect:
    """An object that is written often."""

    __slots__ = ("fights", "flips", "key", "last", "moves", "seen")

    def __init__(self, key: ObjectKey) -> None:
        self.key = key
        self.last: _Write | None = None
        self.clear()

    def clear(self) -> None:
        self.fights = self.flips = self.moves = 0
        self.seen: set[tuple[Path, bytes]] = set()
        """Values that this controller wrote."""

    @property
    def is_at_stake(self) -> bool:
        """The next write may be the one that is reported, so managedFields are needed."""
        return self.fights == FIGHTS - 1

    @property
    def is_found(self) -> bool:
        return self.fights >= FIGHTS or self.flips >= FLIPS or self.moves >= MOVES


class HotLoops:
    """What one controller writes, and whether it comes back."""

    def __init__(self, clock: Clock, report: Callable[[HotLoop, bool], None]) -> None:
        """`report` is called for each loop that is found, and again while it continues; its second argument is
        whether the loop is new.
        """
        self._clock = clock
        self._report = report
        self._counts: dict[str, int] = {}
        self._older: dict[str, int] = {}
        self._suspects: dict[str, Suspect] = {}
        self._own: deque[int] = deque(maxlen=_OWN)
        self._told: dict[tuple[str, str], float] = {}
        self._existence = Existence(clock)

    def written(self, obj: Object) -> None:
        """An object was written by this controller, and is `obj` now."""
        if self._existence.written(obj):
            key = ObjectKey(obj.metadata.namespace or None, obj.metadata.name)
            self._report_existence(Shape.DELETED, obj.__api__.kind, key)

    def deleted(self, kind: type[Object], key: ObjectKey, uid: str) -> None:
        """The object was deleted by this controller."""
        if self._existence.deleted(kind, key, uid):
            self._report_existence(Shape.CREATED, kind.__api__.kind, key)

    def _report_existence(self, shape: Shape, kind: str, key: ObjectKey) -> None:
        loop = HotLoop(shape, f"{kind} {key}")
        self._report(loop, self._is_news(loop.object, ""))

    def suspect(self, path: str) -> Suspect | None:
        """Return the object at `path`, when its state before the next write is wanted."""
        return self._suspects.get(path)

    def wrote(self, path: str, obj: Object, attempt: Attempt | None) -> None:
        """The object at `path` was written, and is `obj` now."""
        self._own.append(int(obj.metadata.resource_version or 0))
        count = self._counts.get(path)
        if count is None:
            count = self._older.pop(path, 0)
            if count == 0 and attempt is not None:
                attempt.progressed = True
            if len(self._counts) >= _RECENT:
                self._forget()
        self._counts[path] = count + 1
        if count + 1 == _SUSPICIOUS:
            self._suspects[path] = Suspect(ObjectKey(obj.metadata.namespace or None, obj.metadata.name))

    def compare(self, path: str, before: JSONObject, obj: Object, attempt: Attempt | None) -> None:
        """Look at what the write of a suspect changed. `before` is its document until then."""
        suspect = self._suspects.get(path)
        if suspect is None:
            return
        write = _Write(self._clock.monotonic(), attempt, obj, before)
        if not write.changes:
            return
        last, suspect.last = suspect.last, write
        if last is None:
            return
        if last.uid != write.uid or write.at - last.at > WINDOW.total_seconds():
            suspect.clear()
            return
        field = self._undone(suspect, last, write) or self._own_doing(suspect, last, write, before)
        if field is None:
            self._clear_suspicion(path)
        elif suspect.is_found:
            self._tell(path, obj, field, write, before, fight=suspect.fights >= FIGHTS)

    def _undone(self, suspect: Suspect, last: _Write, write: _Write) -> Path | None:
        """Return a field that was set to the same value as by the write before: another client had changed it back."""
        for path, (_, value) in write.changes.items():
            if path in last.changes and last.changes[path][1] == value:
                suspect.fights += 1
                return path
        suspect.fights = 0
        return None

    def _own_doing(self, suspect: Suspect, last: _Write, write: _Write, before: JSONObject) -> Path | None:
        """Return a field that is changed again, and nothing else has happened since it was changed before."""
        field = next((path for path in write.changes if path in last.changes), None)
        undisturbed = before.get("metadata", {}).get("resourceVersion") == last.version
        if field is None or not undisturbed or not self._caused_by_itself(write) or not self._caused_by_itself(last):
            return None
        value = (field, msgspec.json.encode(write.changes[field][1]))
        if value in suspect.seen:
            suspect.flips += 1
        else:
            suspect.flips = 0
            suspect.seen.add(value)
        suspect.moves += 1
        return field

    def _caused_by_itself(self, write: _Write) -> bool:
        attempt = write.attempt
        if attempt is None or attempt.progressed or not 0 < len(attempt.causes) < MAX_CAUSES:
            return False
        return all(version in self._own for _, _, _, version in attempt.causes)

    def _clear_suspicion(self, path: str) -> None:
        del self._suspects[path]
        self._counts[path] = _SUSPICIOUS - _RESPITE

    def _tell(self, path: str, obj: Object, field: Path, write: _Write, before: JSONObject, *, fight: bool) -> None:
        key = self._suspects[path].key
        self._clear_suspicion(path)
        name = shown(field)
        found, made = write.changes[field]
        hidden = obj.kind == "Secret"
        loop = HotLoop(
            Shape.UNDONE if fight else Shape.OWN,
            object=f"{obj.kind} {key}",
            field=name,
            values=("(secret)", "(secret)") if hidden else (_shown(found), _shown(made)),
            managers=tuple(managers_of(before, field)) if fight else (),
        )
        self._report(loop, self._is_news(path, name))

    def _is_news(self, what: str, field: str) -> bool:
        now, known = self._clock.monotonic(), self._told.get((what, field))
        if known is not None and now - known <= _REPORTED_AGAIN:
            return False
        if len(self._told) >= _RECENT:
            self._told.clear()
        self._told[what, field] = now
        return True

    def _forget(self) -> None:
        """Of objects that were not written since the last time this happened."""
        self._older, self._counts = self._counts, {}
        self._suspects = {path: each for path, each in self._suspects.items() if path in self._older}


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
