"""`metadata.managedFields`: who owns which field, after plain writes and server-side apply.

`update` records which fields a write changed, and who wrote. `apply` merges a manager's configuration into the object:
it sets the fields in the configuration, and removes the fields that an earlier configuration had and that nobody else
owns. If another manager owns a field and its value would change, that is a conflict unless forced.

There is one entry for each manager, operation, API version and subresource; an applier has one entry for all versions.
At most ten managers that update have their own entry. Older ones are merged into `ancient-changes`.

Guarantees
    A write that changes nothing changes no entry and no time.
    A field that an applier gives up stays as long as another manager owns it.
    Entries of other managers lose the fields that a write changed or removed. An entry without fields is removed.

Follows KEP-555, sigs.k8s.io/structured-merge-diff/merge and k8s.io/apimachinery/pkg/util/managedfields.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any, Final, Literal, TypeAlias

from kubewright.machinery import time
from kubewright.machinery.errors import BadRequest, Conflict, InternalError, StatusCause, StatusDetails
from kubewright.machinery.json import JSONArray, JSONObject, compact, is_array, is_object, quoted
from kubewright_controlplane.schema.node import Node
from kubewright_controlplane.schema.ownership.fieldset import FieldSet, check_fields_v1
from kubewright_controlplane.schema.ownership.typed import (
    Comparison,
    leaf_fields,
    merged,
    owned_fields,
    removed,
    with_named_fields,
    without_emptied,
)
from kubewright_controlplane.schema.structural.schema import Schema

NOTHING: Final = FieldSet()

InVersion: TypeAlias = Callable[[JSONObject, str], "tuple[JSONObject, Schema] | None"]
"""Returns an object in another version, and the schema of that version; None if the version no longer exists."""

_LISTED_CONFLICTS: Final = 1000
"""As many conflicts an error lists. It counts all."""
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_BEFORE_FIRST_APPLY: Final = "before-first-apply"
_NEVER_OWNED: Final = FieldSet.of_paths(
    "apiVersion",
    "kind",
    "metadata",
    *(
        f"metadata.{name}"
        for name in (
            "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields",
            "resourceVersion",
        )
    ),
)  # fmt: skip


def update(
    old: JSONObject | None,
    new: JSONObject,
    *,
    manager: str,
    api_version: str,
    subresource: str = "",
    now: datetime,
    schema: Schema,
    ignored: FieldSet = NOTHING,
    in_version: InVersion | None = None,
    versions: frozenset[str] | None = None,
) -> None:
    """Set `new["metadata"]["managedFields"]` for a create (`old` is None), update or patch by `manager`.

    `new` is the object as it will be stored, with defaults. `ignored` are the fields that this write cannot change,
    because the kind's strategy resets them. An object without managedFields stays without them until the first apply.

    `in_version` converts the object for managers that own fields in other versions. None: all versions have the same
    fields. If a manager owns fields in a version that is not in `versions`, all managedFields are removed.
    """
    managers = Managers.of_update(old, new, subresource)
    if managers.unknown_version(versions):
        new["metadata"].pop("managedFields", None)
        return
    if old is None or managers.entries:
        owner = Owner(manager or "unknown", "Update", api_version, subresource)
        _track(managers, old, new, owner, now, schema, ignored, in_version)
        managers.cap()
    _write(new, managers)


def error_of_managed_fields(managed_fields: Any) -> str:
    """Return what is wrong with `metadata.managedFields`; empty if nothing is."""
    try:
        Managers.decode(managed_fields)
    except ValueError as error:
        return str(error)
    return ""


def applied_fields(config: JSONObject, schema: Schema) -> FieldSet:
    """Return the fields that an applier of `config` owns. Call it before decoding drops explicit zero values from
    `config`.
    """
    return FieldSet(owned_fields(_without_managed_fields(config), schema.root))


def apply(
    live: JSONObject | None,
    config: JSONObject,
    *,
    fields: FieldSet,
    manager: str,
    force: bool = False,
    api_version: str,
    subresource: str = "",
    now: datetime,
    schema: Schema,
    ignored: FieldSet = NOTHING,
    in_version: InVersion | None = None,
    versions: frozenset[str] | None = None,
) -> JSONObject:
    """Return the object after `manager` applied `config` to `live` (None if it does not exist).

    The result is a new object that shares parts with both. If nothing changes, it equals `live`. `fields` is the
    result of `applied_fields`, from before `config` was decoded. Fields in it that decoding dropped are unset.

    Raises Conflict with a cause for each field that other managers own, unless `force`. Raises BadRequest if `config`
    has another version, or managedFields of its own. Raises InternalError if a manager owns fields in a version that
    is not in `versions` (None: any).
    """
    version = config.get("apiVersion", "")
    if version != api_version:
        raise BadRequest(
            f"Incorrect version specified in apply patch. Specified patch version: {version}, expected: {api_version}"
        )
    if _metadata(config).get("managedFields") is not None:
        raise BadRequest("metadata.managedFields must be nil")
    owner = Owner(manager, "Apply", "", subresource)
    merge = _Apply(live, config, fields, owner, api_version, schema, ignored, in_version)
    if unknown := merge.managers.unknown_version(versions):
        raise InternalError(f"request to convert CR to an invalid group/version: {unknown}", reason="")
    if live is not None and not merge.managers.entries:
        first = Owner(_BEFORE_FIRST_APPLY, "Update", api_version, subresource)
        _track(merge.managers, None, live, first, now, schema, ignored, in_version)
    conflicts = merge.conflicts()
    if conflicts and not force:
        if manager == "kubectl" and live is not None:
            conflicts = _conflicts_with_kubectl(conflicts, live, api_version, schema)
        if conflicts:
            raise _conflict(conflicts)
    return merge.result(now)


class _Apply:
    """One apply, from the merge to the result."""

    def __init__(
        self,
        live: JSONObject | None,
        config: JSONObject,
        fields: FieldSet,
        owner: Owner,
        api_version: str,
        schema: Schema,
        ignored: FieldSet,
        in_version: InVersion | None,
    ) -> None:
        node = self._node = schema.root
        self._live = live
        self._config = config
        self._owner = owner
        self._api_version = api_version
        self._wanted = fields.without(ignored)
        managed_fields = live["metadata"].get("managedFields") if live is not None else ()
        self.managers = Managers.decode(managed_fields, is_stored=True)
        self._last = self.managers.entries.get(owner)
        self._before = _without_managed_fields(live) if live is not None else {}
        unset = FieldSet(leaf_fields((fields - applied_fields(config, schema)).tree, node))
        self._in_version = in_version
        self._after = self._pruned(removed(merged(self._before, config, node), unset.tree, node), node)
        comparison = Comparison(self._before if live is not None else schema.empty, self._after, node)
        self._removed_tree = comparison.removed
        self._removed = FieldSet(comparison.removed).without(ignored)
        self._changed = FieldSet(comparison.changed).without(ignored) | (self._removed & unset)
        self._others = (
            _OtherVersions(self._before, self._after, api_version, ignored, in_version) if in_version else None
        )

    def conflicts(self) -> list[tuple[Owner, FieldSet]]:
        """Return the fields that other managers own and this apply would change."""
        found = (
            (other, entry.fields & self._changed_in(entry.api_version))
            for other, entry in self.managers.others(self._owner)
        )
        return sorted(((other, fields) for other, fields in found if fields), key=lambda each: each[0].manager)

    def _changed_in(self, version: str) -> FieldSet:
        if self._others is None or version == self._api_version:
            return self._changed
        return self._others.changed(version)

    def result(self, now: datetime) -> JSONObject:
        """Return the merged object with its new managedFields."""
        after = self._with_annotation(self._drop_emptied(self._after))
        changes = self._live is None or bool(self._changed) or after != self._before
        stamp = time.format(now) if changes else (self._last.time if self._last else None)
        self.managers.disown(self._changed | self._removed, self._others)
        self.managers.set(self._owner, Entry(self._wanted - _NEVER_OWNED, self._api_version, stamp))
        out = {**after, "metadata": dict(_metadata(after))}
        _write(out, self.managers)
        return out

    def _pruned(self, both: JSONObject, node: Node) -> JSONObject:
        """Return `both` without the fields that only this manager owned, and that it no longer applies."""
        if self._last is None:
            return both
        entries = [self._last, *(entry for _, entry in self.managers.others(self._owner))]
        if self._in_version is not None and any(entry.api_version != self._api_version for entry in entries):
            return self._pruned_in_versions(both, self._last, self._in_version)
        last = _named(self._last.fields, node)
        if not last - _named(self._wanted, node):
            return both
        others = (entry.fields for _, entry in self.managers.others(self._owner))
        all_owned = FieldSet.union((self._wanted, *others))
        here = _named(FieldSet(owned_fields(both, node)), node)
        without = removed(both, last.tree, node)
        claimed = _named(FieldSet(owned_fields(without, node)), node) | _named(all_owned, node)
        without = removed(both, (here - claimed).tree, node)
        gone = (here - _named(FieldSet(owned_fields(without, node)), node)) & last
        return removed(both, gone.tree, node)

    def _pruned_in_versions(self, both: JSONObject, last: Entry, in_version: InVersion) -> JSONObject:
        """Do the same if managers own fields in other versions: each version decides about its own fields.

        First goes the version of the last apply, so that fields remain that conversion needs.
        """
        start = in_version(both, last.api_version)
        if start is None:
            return both
        whole, schema = start
        gone = _named(last.fields, schema.root) - _NEVER_OWNED  # which metadata belongs to
        left = removed(whole, gone.tree, schema.root)
        owned: dict[str, list[FieldSet]] = {last.api_version: []}
        owned.setdefault(self._api_version, []).append(self._wanted)
        for _, entry in self.managers.others(self._owner):
            owned.setdefault(entry.api_version, []).append(entry.fields)
        for version, fields in owned.items():
            left = _with_owned(both, left, version, FieldSet.union(fields), in_version)
        kept = in_version(left, last.api_version)
        if kept is None:
            return both
        result = removed(whole, ((_held(whole, schema) - _held(kept[0], schema)) & gone).tree, schema.root)
        back = in_version(result, self._api_version)
        return back[0] if back is not None else both

    def _drop_emptied(self, after: JSONObject) -> JSONObject:
        """Return `after` as Go would write it, without fields that became empty."""
        return without_emptied(after, self._removed_tree, self._node) if self._removed_tree else after

    def _with_annotation(self, after: JSONObject) -> JSONObject:
        """Return `after` with kubectl's last-applied annotation updated, if present, so that client-side apply still
        works.
        """
        annotations: JSONObject = _metadata(after).get("annotations") or {}
        if self._owner.manager != "kubectl" or not annotations.get(_LAST_APPLIED):
            return after
        applied = _without_managed_fields(self._config)
        if is_object(own := _metadata(applied).get("annotations")):
            own = {key: value for key, value in own.items() if key != _LAST_APPLIED}
            applied = {**applied, "metadata": {**applied["metadata"], "annotations": own}}
        text = compact(applied) + "\n"
        return {
            **after,
            "metadata": {**after["metadata"], "annotations": {**annotations, _LAST_APPLIED: text}},
        }


class _OtherVersions:
    """What a write changed, in the versions in which other managers own fields."""

    def __init__(
        self, old: JSONObject | None, new: JSONObject, api_version: str, ignored: FieldSet, in_version: InVersion
    ) -> None:
        self.api_version = api_version
        """The version of the write."""
        self._old = old
        self._new = new
        self._ignored = ignored
        self._in_version = in_version
        self._found: dict[str, tuple[FieldSet, FieldSet] | None] = {}

    def changed(self, version: str) -> FieldSet:
        """Return the fields that are new or have another value."""
        found = self._compared(version)
        return found[0] if found is not None else NOTHING

    def lost(self, version: str) -> FieldSet | None:
        """Return the changed and the removed fields; None if the version no longer exists."""
        found = self._compared(version)
        return found[0] | found[1] if found is not None else None

    def _compared(self, version: str) -> tuple[FieldSet, FieldSet] | None:
        if version not in self._found:
            self._found[version] = self._compare(version)
        return self._found[version]

    def _compare(self, version: str) -> tuple[FieldSet, FieldSet] | None:
        new = self._in_version(self._new, version)
        if new is None:
            return None
        document, schema = new
        old = self._in_version(self._old, version) if self._old else None
        before = _without_managed_fields(old[0]) if old is not None else schema.empty
        comparison = Comparison(before, _without_managed_fields(document), schema.root)
        return FieldSet(comparison.changed).without(self._ignored), FieldSet(comparison.removed).without(self._ignored)


def _track(
    managers: Managers,
    old: JSONObject | None,
    new: JSONObject,
    owner: Owner,
    now: datetime,
    schema: Schema,
    ignored: FieldSet,
    in_version: InVersion | None,
) -> None:
    before = _without_managed_fields(old) if old is not None else schema.empty
    comparison = Comparison(before, _without_managed_fields(new), schema.root)
    changed = FieldSet(comparison.changed).without(ignored)
    removed_fields = FieldSet(comparison.removed).without(ignored)
    others = _OtherVersions(old, new, owner.api_version, ignored, in_version) if in_version else None
    managers.disown(changed | removed_fields, others)
    mine = changed - _NEVER_OWNED
    if mine:
        previous = managers.entries.get(owner)
        fields = mine | previous.fields if previous is not None else mine
        managers.set(owner, Entry(fields, owner.api_version, time.format(now)))


def _without_managed_fields(obj: JSONObject) -> JSONObject:
    """Return `obj` without its managedFields."""
    metadata = obj.get("metadata")
    if not is_object(metadata) or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def _metadata(obj: JSONObject) -> JSONObject:
    return obj.get("metadata") or {}


def _write(obj: JSONObject, managers: Managers) -> None:
    if managers.entries:
        obj["metadata"]["managedFields"] = managers.encode()
    else:
        obj["metadata"].pop("managedFields", None)


def _with_owned(
    both: JSONObject, left: JSONObject, version: str, fields: FieldSet, in_version: InVersion
) -> JSONObject:
    """Return `left` in a version, with the fields that `both` has and managers own; `left` if the version is gone."""
    whole, rest = in_version(both, version), in_version(left, version)
    if whole is None or rest is None:
        return left
    document, schema = whole
    claimed = _held(rest[0], schema) | _named(fields, schema.root)
    return removed(document, (_held(document, schema) - claimed).tree, schema.root)


def _held(document: JSONObject, schema: Schema) -> FieldSet:
    """Return the fields that a document has."""
    return _named(FieldSet(owned_fields(document, schema.root)), schema.root)


def _named(fields: FieldSet, node: Node) -> FieldSet:
    return FieldSet(with_named_fields(fields.tree, node))


def _conflicts_with_kubectl(
    conflicts: list[tuple[Owner, FieldSet]], live: JSONObject, api_version: str, schema: Schema
) -> list[tuple[Owner, FieldSet]]:
    """Return the remaining conflicts if kubectl owns what it applied on the client side before."""
    annotations: JSONObject = _metadata(live).get("annotations") or {}
    try:
        applied = json.loads(annotations.get(_LAST_APPLIED) or "null")
    except ValueError:
        return conflicts
    if not is_object(applied) or applied.get("apiVersion") != api_version:
        return conflicts
    comparison = Comparison(applied, _without_managed_fields(live), schema.root)
    allowed = FieldSet(owned_fields(applied, schema.root)) - FieldSet(comparison.changed) - FieldSet(comparison.removed)
    left = ((other, fields - allowed) for other, fields in conflicts)
    return [(other, fields) for other, fields in left if fields]


def _conflict(conflicts: Sequence[tuple[Owner, FieldSet]]) -> Conflict:
    count = sum(len(fields) for _, fields in conflicts)
    listed = list(islice(((owner, path) for owner, fields in conflicts for path in fields), _LISTED_CONFLICTS))
    causes = tuple(
        StatusCause("FieldManagerConflict", f"conflict with {_owner_name(owner)}", path) for owner, path in listed
    )
    if count == 1:
        owner, path = listed[0]
        text = f"Apply failed with 1 conflict: conflict with {_owner_name(owner)}: {path}"
    else:
        by_owner: dict[Owner, list[str]] = {}
        for owner, path in listed:
            by_owner.setdefault(owner, []).append(f"- {path}")
        lines = [
            line for owner, paths in by_owner.items() for line in (f"conflicts with {_owner_name(owner)}:", *paths)
        ]
        if count > len(listed):
            lines.append(f"and {count - len(listed)} more")
        text = f"Apply failed with {count} conflicts: " + "\n".join(lines)
    return Conflict(text, details=StatusDetails(causes=causes))


def _owner_name(owner: Owner) -> str:
    text = quoted(owner.manager)
    if owner.subresource:
        text += f" with subresource {quoted(owner.subresource)}"
    return f"{text} using {owner.api_version}" if owner.operation == "Update" else text


_MAX_UPDATERS: Final = 10
_OLD_UPDATES: Final = "ancient-changes"


@dataclass(frozen=True, slots=True)
class Owner:
    """What identifies an entry."""

    manager: str
    operation: Literal["Apply", "Update"]
    api_version: str
    """Empty for an applier."""
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """The fields of an owner."""

    fields: FieldSet
    api_version: str
    time: str | None


class Managers:
    """The owners of one object. Changed in place."""

    def __init__(self, entries: dict[Owner, Entry] | None = None) -> None:
        self.entries: dict[Owner, Entry] = entries if entries is not None else {}

    @classmethod
    def decode(cls, managed_fields: Any, *, is_stored: bool = False) -> Managers:
        """Decode `metadata.managedFields`. Raises ValueError for an invalid entry.

        Field sets that the server has stored (`is_stored`) are sorted, and are written again as they are.
        """
        managers = cls()
        for index, each in enumerate(managed_fields or ()):
            operation = each.get("operation")
            if operation not in ("Apply", "Update"):
                raise ValueError("operation must be `Apply` or `Update`")
            if not each.get("apiVersion"):
                raise ValueError("apiVersion must not be empty")
            fields_type = each.get("fieldsType", "")
            if fields_type != "FieldsV1":
                error = f'invalid fieldsType "{fields_type}"' if fields_type else "missing fieldsType"
                raise ValueError(f"{error} in managed fields entry {index}")
            fields = each.get("fieldsV1")
            version = each["apiVersion"]
            owner = Owner(
                each.get("manager", ""), operation, "" if operation == "Apply" else version, each.get("subresource", "")
            )
            tree = fields if is_object(fields) else {}
            if not is_stored:
                check_fields_v1(tree)
            fieldset = FieldSet.from_fields_v1(tree, is_sorted=is_stored)
            managers.entries[owner] = Entry(fieldset, version, each.get("time"))
        return managers

    @classmethod
    def of_update(cls, old: JSONObject | None, new: JSONObject, subresource: str) -> Managers:
        """Return the managers that a plain write starts from: those in its body if they are valid, else the stored
        ones.

        A body with an empty list, or with one empty entry, removes all of them. A write through a subresource cannot
        set them.
        """
        stored = old["metadata"].get("managedFields") if old is not None else None
        given = new["metadata"].get("managedFields")
        if not subresource and (given == [] or given == [{}]):
            return cls()
        if given == stored:
            given = stored  # a patch of other fields: what the server has stored is not checked again
        candidates = (stored,) if subresource else (given, stored)
        for candidate in candidates:
            try:
                managers = cls.decode(candidate if is_array(candidate) else (), is_stored=candidate is stored)
            except (ValueError, AttributeError):
                continue
            if managers.entries:
                return managers
        return cls()

    def unknown_version(self, versions: frozenset[str] | None) -> str:
        """Return a version that is not in `versions`, and in which a manager owns fields; empty if there is none."""
        unknown = (each.api_version for each in self.entries.values() if versions and each.api_version not in versions)
        return next(unknown, "")

    def others(self, owner: Owner) -> Iterator[tuple[Owner, Entry]]:
        """Iterate over the entries of all other owners. They may be changed meanwhile."""
        return ((other, entry) for other, entry in list(self.entries.items()) if other != owner)

    def set(self, owner: Owner, entry: Entry) -> None:
        """Set the entry of `owner`. An entry without fields is removed."""
        if entry.fields:
            self.entries[owner] = entry
        else:
            self.entries.pop(owner, None)

    def disown(self, fields: FieldSet, others: _OtherVersions | None = None) -> None:
        """Remove `fields` from every entry.

        Entries of other versions lose what `others` says; None: versions have the same fields.
        """
        for owner, entry in list(self.entries.items()):
            same = others is None or entry.api_version == others.api_version
            lost = fields if same or others is None else others.lost(entry.api_version)
            if lost is None:
                del self.entries[owner]
            elif lost and (rest := entry.fields - lost) != entry.fields:
                self.set(owner, replace(entry, fields=rest))

    def cap(self) -> None:
        """Merge the oldest updates, so that at most ten entries of updates remain."""
        updaters = sorted(
            (owner for owner in self.entries if owner.operation == "Update"),
            key=lambda owner: (self.entries[owner].time or "", owner.manager, owner.api_version, owner.subresource),
        )
        surplus = len(updaters) - _MAX_UPDATERS
        first_of_version: dict[str, Owner] = {}
        merged: dict[Owner, list[FieldSet]] = {}
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
            merged.setdefault(bucket, [self.entries[bucket].fields]).append(entry.fields)
            del self.entries[owner]
            self.entries[bucket] = entry
            surplus -= 1
        for bucket, fields in merged.items():
            self.entries[bucket] = replace(self.entries[bucket], fields=FieldSet.union(fields))

    def encode(self) -> JSONArray:
        """Return the entries as `metadata.managedFields` holds them."""
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
