"""Finds fights over whether an object exists: one makes it, another deletes it, and again.

Found by the uids of the objects of one name: this controller creates an object that another client deletes, and
creates it again; or it deletes one that another client creates again. `ROUNDS` times in a row, each within `BRIEF`
seconds of the one before, is a fight.

Not taken for one: an object that this controller both makes and deletes (a Job for each run); one that goes with its
owner, and comes with the next one; one that is deleted by hand now and then.
Not found: fights over objects with generated names, which are different ones each time.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from kubewright._runtime.clock import Clock
from kubewright.cache._entry import ObjectKey
from kubewright.models import Object

ROUNDS: Final = 5
BRIEF: Final = 10.0
_REMEMBERED: Final = 1024
"""Names, and as many again that came before them."""


_Name: TypeAlias = tuple[type[Object], str, str]
"""Kind, namespace or nothing, name."""


class _Life(NamedTuple):
    """What this controller did with one object under a name."""

    uid: str
    at: float
    made: bool = False
    deleted: bool = False
    owners: tuple[str, ...] = ()
    """Their uids: with another owner it is another matter."""
    round: int = 0
    """How often in a row the same had been done to other objects of that name before."""

    def repeats(self, last: _Life) -> bool:
        """Return whether the same was done to `last`, just before."""
        same = (self.made, self.deleted, self.owners) == (last.made, last.deleted, last.owners)
        return same and self.at - last.at <= BRIEF


class Existence:
    """The objects that one controller has lately made or deleted."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lives: dict[_Name, _Life] = {}
        self._older: dict[_Name, _Life] = {}

    def written(self, obj: Object) -> bool:
        """Note that the controller wrote `obj`. Returns whether this is a fight."""
        meta = obj.metadata
        if len(meta.managed_fields) != 1:
            return False  # another client has written to it before
        name = (type(obj), meta.namespace, meta.name)
        last = self._last(name)
        if last is not None and last.uid == meta.uid:
            return False
        owners = tuple(each.uid for each in meta.owner_references)
        return self._begin(name, last, _Life(meta.uid, self._clock.monotonic(), made=True, owners=owners))

    def deleted(self, kind: type[Object], key: ObjectKey, uid: str) -> bool:
        """Note that the controller deleted an object. Returns whether this is a fight."""
        name = (kind, key.namespace or "", key.name)
        last = self._last(name)
        if last is not None and last.uid == uid:
            self._lives[name] = last._replace(deleted=True)
            return False
        return self._begin(name, last, _Life(uid, self._clock.monotonic(), deleted=True))

    def _last(self, name: _Name) -> _Life | None:
        return self._lives.get(name) or self._older.get(name)

    def _begin(self, name: _Name, last: _Life | None, life: _Life) -> bool:
        """Another object has come under a name."""
        if last is not None and life.repeats(last):
            life = life._replace(round=last.round + 1)
        found = life.round >= ROUNDS
        if len(self._lives) >= _REMEMBERED:
            self._older, self._lives = self._lives, {}
        self._lives[name] = life._replace(round=0) if found else life
        return found
