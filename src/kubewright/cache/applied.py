"""What was last applied to each object, so that saying the same again needs no request while it still holds."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeAlias

import msgspec

from kubewright.cache.entry import Entry, ObjectKey
from kubewright.machinery.json import JSONObject, equal, is_array, is_object

Applier: TypeAlias = tuple[str, str | None]
"""Field manager and subresource: each says its own part of an object."""


@dataclass(frozen=True, slots=True)
class _Applied:
    digest: bytes
    uid: str
    version: int


class LastApplied:
    """The last configuration that this process applied to each object of a kind."""

    def __init__(self) -> None:
        self._applied: dict[ObjectKey, dict[Applier, _Applied]] = {}

    def remember(self, key: ObjectKey, applier: Applier, configuration: bytes, uid: str, version: int) -> None:
        """Applying `configuration` made the object what it is at `version`."""
        self._applied.setdefault(key, {})[applier] = _Applied(_digest(configuration), uid, version)

    def forget(self, key: ObjectKey) -> None:
        """The object is gone."""
        self._applied.pop(key, None)

    def holds(self, entry: Entry[Any], applier: Applier, configuration: bytes) -> bool:
        """Whether applying `configuration` would leave the object of `entry` as it is.

        So it is when it is the last that was applied, which settles who owns what, and when nobody has changed the
        object since, or all that it says is still there."""
        last = self._applied.get(entry.key, {}).get(applier)
        if last is None or last.uid != entry.uid or last.digest != _digest(configuration):
            return False
        return last.version == entry.resource_version or _says(entry.data, configuration)


def _digest(configuration: bytes) -> bytes:
    return blake2b(configuration, digest_size=16).digest()


def _says(data: bytes, configuration: bytes) -> bool:
    wanted = msgspec.json.decode(configuration, type=JSONObject)
    for header in ("apiVersion", "kind"):  # items of a list come without
        wanted.pop(header, None)
    return _covers(msgspec.json.decode(data), wanted)


def _covers(live: object, wanted: object) -> bool:
    """Whether `live` has all that `wanted` says. Lists are compared place by place: one that was reordered does not."""
    if is_object(wanted):
        return is_object(live) and all(key in live and _covers(live[key], wanted[key]) for key in wanted)
    if is_array(wanted):
        return is_array(live) and len(live) == len(wanted) and all(map(_covers, live, wanted))
    return equal(live, wanted)
