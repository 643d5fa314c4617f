"""Finds reconciles that change the same field or object again and again, and names it.

Two patterns are distinguished from normal work:

A fight: this controller writes a value, another client restores the old value, and the controller writes the same value
again, `FIGHTS` times in a row within `WINDOW`. The other client is identified by managedFields.

A self-triggered loop: a reconcile writes an object, only the event of that write triggers the next reconcile, and that
reconcile writes the object again. It is reported after `FLIPS` writes in a row if the values recur, or after `MOVES`
writes if the values are new each time (a time, a counter).

Not reported: a status that follows other objects (its values change, and events of other objects trigger the
reconciles), work in steps that create, delete or first write an object, and a value that is renewed at intervals.
`Existence` finds objects that one client deletes and another creates again.
Not found: a loop among more than `_RECENT` objects at a time.

The cost is a counter for each write. Versions are compared only for objects with `_SUSPICIOUS` recent writes. Of those
without a sign of a loop, only a few are compared in every `_RESPITE`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from datetime import timedelta
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias, cast

import msgspec

from kubewright._runtime.clock import Clock
from kubewright.cache._entry import ObjectKey
from kubewright.controllers._reconcile import MAX_CAUSES, Attempt
from kubewright.machinery.json import JSONObject, equal, is_array, is_object
from kubewright.models import Object, codec

FIGHTS: Final = 4
"""Number of restored and rewritten values in a row."""
FLIPS: Final = 6
"""Number of self-triggered writes in a row whose values recur."""
MOVES: Final = 30
"""Number of self-triggered writes in a row whose values are new."""
WINDOW: Final = timedelta(minutes=10)
"""The longest time between two such writes."""

_SUSPICIOUS: Final = 3
_RESPITE: Final = 20
_RECENT: Final = 1024
"""The maximum number of objects whose writes are counted."""
_OWN: Final = 512
"""The number of remembered resource versions that this controller wrote."""
_REPORTED_AGAIN: Final = 3600.0
"""Seconds after which a loop that continues is reported again."""
_SHOWN: Final = 80
"""The maximum number of characters of a value in a message."""


class Shape(Enum):
    """The pattern of a hot loop. The values are the log messages."""

    UNDONE = "Hot loop: writes of a reconcile undone by another client"
    OWN = "Hot loop: reconcile triggered only by its own writes"
    DELETED = "Hot loop: objects created by a reconcile deleted by another client"
    CREATED = "Hot loop: objects deleted by a reconcile created by another client"


class HotLoop(msgspec.Struct, frozen=True):
    """A hot loop: the field or object that keeps changing."""

    shape: Shape
    object: str
    """`Deployment default/web`."""
    field: str = ""
    """`spec.replicas`; empty for the object itself."""
    values: tuple[str, str] = ("", "")
    """The last two values as JSON: before and after the write of this controller."""
    managers: tuple[str, ...] = ()
    """The other owners of the field before this controller's last write; empty for a self-triggered loop."""


class _Write:
    """One write that was compared."""

    __slots__ = ("at", "attempt", "changes", "document", "uid", "version")

    def __init__(self, at: float, attempt: Attempt | None, obj: Object, before: JSONObject) -> None:
        self.at = at
        self.attempt = attempt
        self.uid = obj.metadata.uid
        self.version = obj.metadata.resource_version
        self.document = codec.document(obj)
        self.changes = difference(before, self.document)


class FrequentObject:
    """An object that is written frequently, and its recent writes."""

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
    def needs_managers(self) -> bool:
        """Whether the next write may be reported, so that its managedFields are needed."""
        return self.fights == FIGHTS - 1

    @property
    def is_found(self) -> bool:
        return self.fights >= FIGHTS or self.flips >= FLIPS or self.moves >= MOVES


class HotLoops:
    """Finds the hot loops of one controller."""

    def __init__(self, clock: Clock, report: Callable[[HotLoop, bool], None]) -> None:
        """`report` is called for each loop that is found, and again while it continues; its second argument is
        whether the loop is new.
        """
        self._clock = clock
        self._report = report
        self._counts: dict[str, int] = {}
        self._older: dict[str, int] = {}
        self._frequent: dict[str, FrequentObject] = {}
        self._own: deque[int] = deque(maxlen=_OWN)
        self._reported_at: dict[tuple[str, str], float] = {}
        self._existence = Existence(clock)

    def written(self, obj: Object) -> None:
        """Note that this controller wrote an object, which is now `obj`."""
        if self._existence.written(obj):
            key = ObjectKey(obj.metadata.namespace, obj.metadata.name)
            self._report_existence(Shape.DELETED, obj.__api__.kind, key)

    def deleted(self, kind: type[Object], key: ObjectKey, uid: str) -> None:
        """Note that this controller deleted the object."""
        if self._existence.deleted(kind, key, uid):
            self._report_existence(Shape.CREATED, kind.__api__.kind, key)

    def _report_existence(self, shape: Shape, kind: str, key: ObjectKey) -> None:
        loop = HotLoop(shape, f"{kind} {key}")
        self._report(loop, self._is_new(loop.object, ""))

    def frequent(self, path: str) -> FrequentObject | None:
        """Return the object at `path` if its state before the next write is needed."""
        return self._frequent.get(path)

    def wrote(self, path: str, obj: Object, attempt: Attempt | None) -> None:
        """Note that the object at `path` was written and is now `obj`."""
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
            self._frequent[path] = FrequentObject(ObjectKey(obj.metadata.namespace, obj.metadata.name))

    def compare(self, path: str, before: JSONObject, obj: Object, attempt: Attempt | None) -> None:
        """Compare a frequently written object with `before`, its document before the write."""
        frequent = self._frequent.get(path)
        if frequent is None:
            return
        write = _Write(self._clock.monotonic(), attempt, obj, before)
        if not write.changes:
            return
        last, frequent.last = frequent.last, write
        if last is None:
            return
        if last.uid != write.uid or write.at - last.at > WINDOW.total_seconds():
            frequent.clear()
            return
        field = self._undone(frequent, last, write) or self._changed_again(frequent, last, write, before)
        if field is None:
            self._stop_comparing(path)
        elif frequent.is_found:
            self._report_field(path, obj, field, write, before, fight=frequent.fights >= FIGHTS)

    def _undone(self, frequent: FrequentObject, last: _Write, write: _Write) -> Path | None:
        """Return a field that this write sets to the same value as the previous write: another client restored it."""
        for path, (_, value) in write.changes.items():
            if path in last.changes and last.changes[path][1] == value:
                frequent.fights += 1
                return path
        frequent.fights = 0
        return None

    def _changed_again(self, frequent: FrequentObject, last: _Write, write: _Write, before: JSONObject) -> Path | None:
        """Return a field that is changed again, with no other event since its previous change."""
        field = next((path for path in write.changes if path in last.changes), None)
        undisturbed = before.get("metadata", {}).get("resourceVersion") == last.version
        if field is None or not undisturbed or not self._caused_by_itself(write) or not self._caused_by_itself(last):
            return None
        value = (field, msgspec.json.encode(write.changes[field][1]))
        if value in frequent.seen:
            frequent.flips += 1
        else:
            frequent.flips = 0
            frequent.seen.add(value)
        frequent.moves += 1
        return field

    def _caused_by_itself(self, write: _Write) -> bool:
        attempt = write.attempt
        if attempt is None or attempt.progressed or not 0 < len(attempt.causes) < MAX_CAUSES:
            return False
        return all(version in self._own for _, _, _, version in attempt.causes)

    def _stop_comparing(self, path: str) -> None:
        del self._frequent[path]
        self._counts[path] = _SUSPICIOUS - _RESPITE

    def _report_field(
        self, path: str, obj: Object, field: Path, write: _Write, before: JSONObject, *, fight: bool
    ) -> None:
        key = self._frequent[path].key
        self._stop_comparing(path)
        name = shown(field)
        found, made = write.changes[field]
        hidden = obj.kind == "Secret"
        loop = HotLoop(
            Shape.UNDONE if fight else Shape.OWN,
            object=f"{obj.kind} {key}",
            field=name,
            values=("(secret)", "(secret)") if hidden else (_value_text(found), _value_text(made)),
            managers=tuple(managers_of(before, field)) if fight else (),
        )
        self._report(loop, self._is_new(path, name))

    def _is_new(self, what: str, field: str) -> bool:
        now, known = self._clock.monotonic(), self._reported_at.get((what, field))
        if known is not None and now - known <= _REPORTED_AGAIN:
            return False
        if len(self._reported_at) >= _RECENT:
            self._reported_at.clear()
        self._reported_at[what, field] = now
        return True

    def _forget(self) -> None:
        """Forget objects that were not written since the last call."""
        self._older, self._counts = self._counts, {}
        self._frequent = {path: each for path, each in self._frequent.items() if path in self._older}


def _value_text(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


Path: TypeAlias = tuple[str | int, ...]
"""Keys and list indexes from the root of a document to a field."""

_OF_THE_SERVER: Final = frozenset({"managedFields", "resourceVersion", "generation"})
"""Fields of metadata that change with every write."""

_ABSENT: Final = None


def difference(before: JSONObject, after: JSONObject) -> dict[Path, tuple[Any, Any]]:
    """Return each changed field with its value in `before` and in `after`; None for an absent field.

    Fields that change with every write are ignored. Lists of different lengths differ as a whole.
    """
    return {path: values for path, *values in _differences((), before, after)}  # type: ignore[misc]


def _differences(path: Path, before: Any, after: Any) -> Iterator[tuple[Path, Any, Any]]:
    if is_object(before) and is_object(after):
        skipped = _OF_THE_SERVER if path == ("metadata",) else ()
        for key in {**before, **after}:
            if key not in skipped:
                yield from _differences((*path, key), before.get(key, _ABSENT), after.get(key, _ABSENT))
    elif is_array(before) and is_array(after) and len(before) == len(after):
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _differences((*path, place), old, new)
    elif not equal(before, after):
        yield path, before, after


def shown(path: Path) -> str:
    """Return a path as text: `spec.template.spec.containers[0].image`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


def managers_of(document: JSONObject, path: Path) -> list[str]:
    """Return the field managers that own the field at `path`, by the document's managedFields.

    Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
    """
    entries: list[JSONObject] = document.get("metadata", {}).get("managedFields") or []
    found = [entry.get("manager", "") for entry in entries if _owns(entry.get("fieldsV1") or {}, document, path)]
    return list(dict.fromkeys(filter(None, found)))


def _owns(owned: JSONObject, live: Any, path: Path) -> bool:
    for step in path:
        if isinstance(step, int):
            live = live[step] if is_array(live) and step < len(live) else None
            below = next((fields for name, fields in owned.items() if _names(name, live)), None)
        else:
            live = live.get(step) if is_object(live) else None
            below = owned.get(f"f:{step}")
        if below is None:
            return False
        if not below:  # a field that is owned as a whole, including its content
            return True
        owned = cast("JSONObject", below)
    return True


def _names(name: str, item: object) -> bool:
    """Return whether the key of a FieldsV1 tree names this item of a list."""
    if name.startswith("k:"):
        keys: JSONObject = msgspec.json.decode(name[2:])
        return is_object(item) and all(item.get(key) == value for key, value in keys.items())
    return name.startswith("v:") and equal(msgspec.json.decode(name[2:]), item)


ROUNDS: Final = 5
BRIEF: Final = 10.0
_REMEMBERED: Final = 1024
"""The number of tracked names. As many older names are tracked, too."""


_Name: TypeAlias = tuple[type[Object], str, str]
"""Kind, namespace (empty for cluster-scoped kinds) and name."""


class _Action(NamedTuple):
    """The last action of this controller on an object of a name."""

    uid: str
    at: float
    made: bool = False
    deleted: bool = False
    owners: tuple[str, ...] = ()
    """The uids of the owners. Actions for another owner are not counted."""
    round: int = 0
    """How often in a row the same action was done to earlier objects of that name."""

    def repeats(self, last: _Action) -> bool:
        """Return whether `last` is the same action, shortly before."""
        same = (self.made, self.deleted, self.owners) == (last.made, last.deleted, last.owners)
        return same and self.at - last.at <= BRIEF


class Existence:
    """The objects that one controller has recently created or deleted, to find fights over their existence.

    A fight is found by the uids of objects with the same name: this controller creates an object that another client
    deletes, or deletes an object that another client creates, `ROUNDS` times in a row, each within `BRIEF` seconds of
    the previous time.

    Not reported: an object that this controller both creates and deletes (a Job for each run), an object that is
    deleted and created together with its owner, and an object that a user deletes now and then.
    Not found: fights over objects with generated names, which differ each time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._actions: dict[_Name, _Action] = {}
        self._older: dict[_Name, _Action] = {}

    def written(self, obj: Object) -> bool:
        """Note that the controller wrote `obj`. Returns whether this is a fight."""
        meta = obj.metadata
        if len(meta.managed_fields) != 1:
            return False  # another client wrote it earlier
        name = (type(obj), meta.namespace, meta.name)
        last = self._last(name)
        if last is not None and last.uid == meta.uid:
            return False
        owners = tuple(each.uid for each in meta.owner_references)
        return self._begin(name, last, _Action(meta.uid, self._clock.monotonic(), made=True, owners=owners))

    def deleted(self, kind: type[Object], key: ObjectKey, uid: str) -> bool:
        """Note that the controller deleted an object. Returns whether this is a fight."""
        name = (kind, key.namespace or "", key.name)
        last = self._last(name)
        if last is not None and last.uid == uid:
            self._actions[name] = last._replace(deleted=True)
            return False
        return self._begin(name, last, _Action(uid, self._clock.monotonic(), deleted=True))

    def _last(self, name: _Name) -> _Action | None:
        return self._actions.get(name) or self._older.get(name)

    def _begin(self, name: _Name, last: _Action | None, action: _Action) -> bool:
        """Note that another object of a name exists."""
        if last is not None and action.repeats(last):
            action = action._replace(round=last.round + 1)
        found = action.round >= ROUNDS
        if len(self._actions) >= _REMEMBERED:
            self._older, self._actions = self._actions, {}
        self._actions[name] = action._replace(round=0) if found else action
        return found
