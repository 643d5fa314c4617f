"""The entries of `managedFields`: who owns what, since when.

Entries are one for each manager, operation, API version and subresource; an applier has one whatever its version.
At most ten managers that update are told apart; the oldest beyond them become `ancient-changes`.

Follows k8s.io/apimachinery/pkg/util/managedfields/internal (managedfields.go, capmanagers.go).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from kubewright.machinery.json import JSONArray, JSONObject, is_array, is_object
from kubewright_controlplane.schema.fieldset import FieldSet

_MAX_UPDATERS: Final = 10
_OLD_UPDATES: Final = "ancient-changes"


@dataclass(frozen=True, slots=True)
class Owner:
    """What tells one entry from another."""

    manager: str
    operation: Literal["Apply", "Update"]
    api_version: str
    """Empty for an applier."""
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """What an owner owns."""

    fields: FieldSet
    api_version: str
    time: str | None


class Managers:
    """All the owners of one object. Changed in place."""

    def __init__(self, entries: dict[Owner, Entry] | None = None) -> None:
        self.entries: dict[Owner, Entry] = entries if entries is not None else {}

    @classmethod
    def decode(cls, managed_fields: Any, *, is_stored: bool = False) -> Managers:
        """Decode `metadata.managedFields`. Raises ValueError for an invalid entry.

        Field sets that the server has stored (`is_stored`) are sorted, and are written again as they are.
        """
        managers = cls()
        for each in managed_fields or ():
            operation = each.get("operation")
            if operation not in ("Apply", "Update"):
                raise ValueError("operation must be `Apply` or `Update`")
            if not each.get("apiVersion"):
                raise ValueError("apiVersion must not be empty")
            if each.get("fieldsType") != "FieldsV1":
                raise ValueError(f'invalid fieldsType "{each.get("fieldsType", "")}"')
            fields = each.get("fieldsV1")
            version = each["apiVersion"]
            owner = Owner(
                each.get("manager", ""), operation, "" if operation == "Apply" else version, each.get("subresource", "")
            )
            fieldset = FieldSet.from_fields_v1(fields if is_object(fields) else {}, is_sorted=is_stored)
            managers.entries[owner] = Entry(fieldset, version, each.get("time"))
        return managers

    @classmethod
    def of_update(cls, old: JSONObject | None, new: JSONObject, subresource: str) -> Managers:
        """What a plain write starts from: the entries in its body, or the stored ones where it has none that are good.

        A body with an empty list, or one empty entry, asks for them to be forgotten. A subresource cannot set them.
        """
        stored = old["metadata"].get("managedFields") if old is not None else None
        given = new["metadata"].get("managedFields")
        if not subresource and (given == [] or given == [{}]):
            return cls()
        candidates = (stored,) if subresource else (given, stored)
        for candidate in candidates:
            try:
                managers = cls.decode(candidate if is_array(candidate) else (), is_stored=candidate is stored)
            except (ValueError, AttributeError):
                continue
            if managers.entries:
                return managers
        return cls()

    def others(self, owner: Owner | None) -> Iterator[tuple[Owner, Entry]]:
        """The entries of everybody else, which may be changed meanwhile."""
        return ((other, entry) for other, entry in list(self.entries.items()) if other != owner)

    def set(self, owner: Owner, entry: Entry) -> None:
        """Give `owner` this entry; one without fields is none."""
        if entry.fields:
            self.entries[owner] = entry
        else:
            self.entries.pop(owner, None)

    def take_away(self, fields: FieldSet, *, keep: Owner | None = None) -> None:
        """Nobody but `keep` owns `fields` any more."""
        if fields:
            for owner, entry in self.others(keep):
                rest = entry.fields - fields
                if rest != entry.fields:
                    self.set(owner, replace(entry, fields=rest))

    def cap(self) -> None:
        """Put the oldest updates together, so that no more than ten stay apart."""
        updaters = sorted(
            (owner for owner in self.entries if owner.operation == "Update"),
            key=lambda owner: (self.entries[owner].time or "", owner.manager, owner.api_version, owner.subresource),
        )
        surplus = len(updaters) - _MAX_UPDATERS
        first_of_version: dict[str, Owner] = {}
        for owner in updaters:
            if surplus <= 0:
                break
            entry = self.entries[owner]
            bucket = Owner(_OLD_UPDATES, "Update", entry.api_version)
            first = first_of_version.setdefault(entry.api_version, owner)
            if first is owner:
                continue
            if bucket not in self.entries:
                self.entries[bucket] = self.entries.pop(first)
            merged = entry.fields | self.entries[bucket].fields
            del self.entries[owner]
            self.entries[bucket] = Entry(merged, entry.api_version, entry.time)
            surplus -= 1

    def encode(self) -> JSONArray:
        """As `metadata.managedFields` has it."""
        ordered = sorted(
            self.entries.items(),
            key=lambda each: (
                each[0].operation,
                each[1].time or "",
                each[0].manager,
                each[1].api_version,
                each[0].subresource,
            ),
        )
        return [_encoded(owner, entry) for owner, entry in ordered]


def _encoded(owner: Owner, entry: Entry) -> JSONObject:
    out: JSONObject = {"manager": owner.manager, "operation": owner.operation, "apiVersion": entry.api_version}
    if entry.time is not None:
        out["time"] = entry.time
    out["fieldsType"] = "FieldsV1"
    out["fieldsV1"] = entry.fields.to_fields_v1()
    if owner.subresource:
        out["subresource"] = owner.subresource
    return out
