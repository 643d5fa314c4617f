"""Who owns which field: plain writes tracked, and server-side apply.

`update` notes in `metadata.managedFields` what a write changed, and by whom. `apply` merges what a manager wants into
the object: fields that it wants are set, fields that it wanted before and nobody else owns go, fields of other managers
with another value are a conflict unless forced.

Guarantees
    A write that changes nothing changes no entry, times included.
    A field that an applier gives up stays as long as anybody else owns it.
    Entries of other managers lose the fields that a write changed or removed; an entry without fields goes.

Follows KEP-555, sigs.k8s.io/structured-merge-diff/merge and k8s.io/apimachinery/pkg/util/managedfields.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from kubewright.machinery import time
from kubewright.machinery.errors import BadRequest, Conflict, StatusCause, StatusDetails
from kubewright.machinery.json import JSONObject, compact, is_object, quoted
from kubewright_controlplane.schema.fieldset import FieldSet
from kubewright_controlplane.schema.managers import Entry, Managers, Owner
from kubewright_controlplane.schema.node import Node
from kubewright_controlplane.schema.structural import Schema
from kubewright_controlplane.schema.typed import (
    Comparison,
    merged,
    owned,
    removed,
    single,
    with_named_fields,
    without_emptied,
)

NOTHING: Final = FieldSet()
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
) -> None:
    """Write `new["metadata"]["managedFields"]` for a create (`old` is None), update or patch by `manager`.

    `new` is the object as it will be stored, defaults set; `ignored` are the fields that this write could not change
    because the kind's strategy resets them. An object without owners, written before, stays so until it is applied.
    """
    managers = Managers.of_update(old, new, subresource)
    if old is None or managers.entries:
        owner = Owner(manager or "unknown", "Update", api_version, subresource)
        _track(managers, old, new, owner, now, schema, ignored)
        managers.cap()
    _write(new, managers)


def wanted(config: JSONObject, schema: Schema) -> FieldSet:
    """The fields that somebody owns who applies `config`, as it was sent: a zero that says nothing is owned too."""
    return FieldSet(owned(_stripped(config), schema.root))


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
) -> JSONObject:
    """The object after `manager` applied `config` to `live`; a new one, which shares with both what it can.

    `fields` are those that were `wanted` before `config` was decoded: what is among them and no more in `config` is set
    to nothing.

    `live` None creates. When nothing changes, the result equals `live`. Raises `Conflict` with a cause for each field
    that others own, unless `force`; BadRequest when `config` has another version or managedFields of its own.
    """
    version = config.get("apiVersion", "")
    if version != api_version:
        raise BadRequest(
            f"Incorrect version specified in apply patch. Specified patch version: {version}, expected: {api_version}"
        )
    if _metadata(config).get("managedFields") is not None:
        raise BadRequest("metadata.managedFields must be nil")
    merge = _Apply(live, config, fields, Owner(manager, "Apply", "", subresource), api_version, schema, ignored)
    if live is not None and not merge.managers.entries:
        first = Owner(_BEFORE_FIRST_APPLY, "Update", api_version, subresource)
        _track(merge.managers, None, live, first, now, schema, ignored)
    conflicts = merge.conflicts()
    if conflicts and not force:
        if manager == "kubectl" and live is not None:
            conflicts = _held_against_kubectl(conflicts, live, api_version, schema)
        if conflicts:
            raise _conflict(conflicts)
    return merge.result(now)


class _Apply:
    """One apply, from its merge to its result."""

    def __init__(
        self,
        live: JSONObject | None,
        config: JSONObject,
        fields: FieldSet,
        owner: Owner,
        api_version: str,
        schema: Schema,
        ignored: FieldSet,
    ) -> None:
        node = self._node = schema.root
        self._live = live
        self._config = config
        self._owner = owner
        self._api_version = api_version
        self._wanted = fields.without(ignored)
        self.managers = Managers.decode(live["metadata"].get("managedFields") if live is not None else (), is_stored=True)
        self._last = self.managers.entries.get(owner)
        self._before = _stripped(live) if live is not None else {}
        unset = FieldSet(single((fields - wanted(config, schema)).tree, node))
        self._after = self._pruned(removed(merged(self._before, config, node), unset.tree, node), node)
        comparison = Comparison(self._before if live is not None else schema.empty, self._after, node)
        self._gone = comparison.removed
        self._removed = FieldSet(comparison.removed).without(ignored)
        self._changed = FieldSet(comparison.changed).without(ignored) | (self._removed & unset)

    def conflicts(self) -> list[tuple[Owner, FieldSet]]:
        """What others own and this would change."""
        found = ((other, entry.fields & self._changed) for other, entry in self.managers.others(self._owner))
        return sorted(((other, fields) for other, fields in found if fields), key=lambda each: each[0].manager)

    def result(self, now: datetime) -> JSONObject:
        """The merged object, with the entries that go with it."""
        after = self._with_annotation(self._tidied(self._after))
        changes = self._live is None or bool(self._changed) or after != self._before
        stamp = time.format(now) if changes else (self._last.time if self._last else None)
        self.managers.take_away(self._changed, keep=self._owner)
        self.managers.take_away(self._removed, keep=self._owner)
        self.managers.set(self._owner, Entry(self._wanted - _NEVER_OWNED, self._api_version, stamp))
        out = {**after, "metadata": dict(_metadata(after))}
        _write(out, self.managers)
        return out

    def _pruned(self, both: JSONObject, node: Node) -> JSONObject:
        """`both` without what this manager applied last time, does not apply now, and nobody else owns."""
        if self._last is None:
            return both
        last = _named(self._last.fields, node)
        if not last - _named(self._wanted, node):
            return both
        everybody = self._wanted
        for _, entry in self.managers.others(self._owner):
            everybody |= entry.fields
        here = _named(FieldSet(owned(both, node)), node)
        without = removed(both, last.tree, node)
        claimed = _named(FieldSet(owned(without, node)), node) | _named(everybody, node)
        without = removed(both, (here - claimed).tree, node)
        gone = (here - _named(FieldSet(owned(without, node)), node)) & last
        return removed(both, gone.tree, node)

    def _tidied(self, after: JSONObject) -> JSONObject:
        """`after` as Go would write it: what became empty may be left out."""
        return without_emptied(after, self._gone, self._node) if self._gone else after

    def _with_annotation(self, after: JSONObject) -> JSONObject:
        """kubectl's own annotation kept in step, where the object has it: client-side apply goes on working."""
        annotations: JSONObject = _metadata(after).get("annotations") or {}
        if self._owner.manager != "kubectl" or not annotations.get(_LAST_APPLIED):
            return after
        applied = _stripped(self._config)
        if is_object(own := _metadata(applied).get("annotations")):
            own = {key: value for key, value in own.items() if key != _LAST_APPLIED}
            applied = {**applied, "metadata": {**applied["metadata"], "annotations": own}}
        text = compact(applied) + "\n"
        return {
            **after,
            "metadata": {**after["metadata"], "annotations": {**annotations, _LAST_APPLIED: text}},
        }


def _track(
    managers: Managers,
    old: JSONObject | None,
    new: JSONObject,
    owner: Owner,
    now: datetime,
    schema: Schema,
    ignored: FieldSet,
) -> None:
    before = _stripped(old) if old is not None else schema.empty
    comparison = Comparison(before, _stripped(new), schema.root)
    changed = FieldSet(comparison.changed).without(ignored)
    removed_fields = FieldSet(comparison.removed).without(ignored)
    managers.take_away(changed)
    managers.take_away(removed_fields)
    mine = changed - _NEVER_OWNED
    if mine:
        previous = managers.entries.get(owner)
        fields = mine | previous.fields if previous is not None else mine
        managers.set(owner, Entry(fields, owner.api_version, time.format(now)))


def _stripped(obj: JSONObject) -> JSONObject:
    """`obj` without its managedFields."""
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


def _named(fields: FieldSet, node: Node) -> FieldSet:
    return FieldSet(with_named_fields(fields.tree, node))


def _held_against_kubectl(
    conflicts: list[tuple[Owner, FieldSet]], live: JSONObject, api_version: str, schema: Schema
) -> list[tuple[Owner, FieldSet]]:
    """The conflicts that are left when what kubectl applied from its own side before is taken for its own."""
    annotations: JSONObject = _metadata(live).get("annotations") or {}
    try:
        applied = json.loads(annotations.get(_LAST_APPLIED) or "null")
    except ValueError:
        return conflicts
    if not is_object(applied) or applied.get("apiVersion") != api_version:
        return conflicts
    comparison = Comparison(applied, _stripped(live), schema.root)
    allowed = FieldSet(owned(applied, schema.root)) - FieldSet(comparison.changed) - FieldSet(comparison.removed)
    left = ((other, fields - allowed) for other, fields in conflicts)
    return [(other, fields) for other, fields in left if fields]


def _conflict(conflicts: Iterable[tuple[Owner, FieldSet]]) -> Conflict:
    listed = [(owner, path) for owner, fields in conflicts for path in fields]
    causes = tuple(
        StatusCause("FieldManagerConflict", f"conflict with {_shown(owner)}", path) for owner, path in listed
    )
    if len(listed) == 1:
        owner, path = listed[0]
        text = f"Apply failed with 1 conflict: conflict with {_shown(owner)}: {path}"
    else:
        by_owner: dict[Owner, list[str]] = {}
        for owner, path in listed:
            by_owner.setdefault(owner, []).append(f"- {path}")
        lines = [line for owner, paths in by_owner.items() for line in (f"conflicts with {_shown(owner)}:", *paths)]
        text = f"Apply failed with {len(listed)} conflicts: " + "\n".join(lines)
    return Conflict(text, details=StatusDetails(causes=causes))


def _shown(owner: Owner) -> str:
    text = quoted(owner.manager)
    if owner.subresource:
        text += f" with subresource {quoted(owner.subresource)}"
    return f"{text} using {owner.api_version}" if owner.operation == "Update" else text
