"""Finds fights over the existence of an object: one client creates it and another deletes it, repeatedly.

A fight is found by the uids of objects with the same name: this controller creates an object that another client
deletes, or deletes an object that another client creates, `ROUNDS` times in a row, each within `BRIEF` seconds of the
previous time.

Not reported: an object that this controller both creates and deletes (a Job for each run), an object that is deleted
and created together with its owner, and an object that a user deletes now and then.
Not found: fights over objects with generated names, which differ each time.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from kubewright._runtime.clock import Clock
from kubewright.cache._entry import ObjectKey
from kubewright.models import Object

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
    """The objects that one controller has recently created or deleted."""

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
