"""Writes on their way: what happens to an object between the begin of a write and its commit.

A write begins with the object changed, conformed to its schema, owned and admitted. Then it is validated, then it is
committed. Between these steps a request may wait for admission webhooks. If it does, the stored object can change
meanwhile: `is_stale` says so, and the write must begin again, as etcd's compare-and-swap makes kube-apiserver do.

Follows k8s.io/apiserver pkg/registry/generic/registry.Store and pkg/registry/rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kubewright.machinery.errors import Invalid
from kubewright.machinery.fields import FieldError
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONObject, copied, equal
from kubewright_controlplane.apiserver.registry import metadata as meta
from kubewright_controlplane.apiserver.registry.deletion import Deletion, DeletionEffect, check_preconditions, is_kept
from kubewright_controlplane.apiserver.registry.failures import already_exists, invalid_object, modified
from kubewright_controlplane.apiserver.registry.model import Attributes, Resource, View
from kubewright_controlplane.apiserver.registry.objects import encode, from_stored
from kubewright_controlplane.apiserver.registry.options import DeleteOptions, WriteCall
from kubewright_controlplane.apiserver.storage.events import Entry
from kubewright_controlplane.schema.ownership.managedfields import error_of_managed_fields

if TYPE_CHECKING:
    from kubewright_controlplane.apiserver.registry.registry import Registry

_GENERATE_ATTEMPTS = 8


class Target:
    """A stored object that is open for one write."""

    def __init__(
        self, resource: Resource, entry: Entry, subresource: str, view: View | None, old: JSONObject | None = None
    ) -> None:
        """`old` is the stored document, if the caller has decoded it already."""
        self.entry = entry
        self.subresource = subresource
        self.view = view
        self.old = old or from_stored(resource, entry.data)
        """The stored document. Must not be changed."""
        self._resource = resource

    def draft(self) -> JSONObject:
        """Return what the resource or the subresource shows now, as a document that the caller may change.

        Decoding the stored bytes again is three times faster than copying the decoded document.
        """
        obj = from_stored(self._resource, self.entry.data)
        return obj if self.view is None else self.view.read(obj)


@dataclass(slots=True)
class WriteResult:
    """The result of a write."""

    resource: Resource
    entry: Entry
    """The committed entry; for a dry run, the one that would have been committed."""
    object: JSONObject
    """The same as a document, in the version of `resource`."""
    created: bool = False
    """The write created the object."""
    removed: bool = False
    """The write removed the object, immediately or by removing the last finalizer."""

    @property
    def data(self) -> bytes:
        """The object as JSON in the version of `resource`: the stored bytes, unless the stored version is another."""
        return self.entry.data if self.resource.from_storage is None else encode(self.resource, self.object)


class Write(Protocol):
    """A write that has begun: the built-in mutating admission has run."""

    @property
    def attributes(self) -> Attributes:
        """The write as admission sees it. Until `validate`, admission may replace `attributes.object`."""
        ...

    @property
    def is_stale(self) -> bool:
        """Whether what the write was based on has changed since it began: the stored object, or what was free.

        Never true if nothing waited in between.
        """
        ...

    def validate(self) -> None:
        """Prepare and validate the object, and let the built-in plugins check it.

        Raises Conflict for an update of an older version than the stored one, Invalid, Forbidden.
        """
        ...

    def commit(self) -> WriteResult:
        """Store the object, or remove it. Called right after `is_stale` was false."""
        ...


def finish(write: Write) -> WriteResult:
    """Validate and commit a write that waits for nobody."""
    write.validate()
    return write.commit()


_BROKEN_MANAGED_FIELDS = (
    ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating "
    "admission controller; please fix your requests: {}"
)


def _restore_managed_fields(before: JSONObject | None, after: JSONObject, warnings: list[str]) -> None:
    """Restore managedFields that a webhook has made invalid, and warn of them."""
    metadata, old = after["metadata"], (before or {}).get("metadata") or {}
    if error := error_of_managed_fields(metadata.get("managedFields")):
        warnings.append(_BROKEN_MANAGED_FIELDS.format(error))
        metadata["managedFields"] = old.get("managedFields")


def _prune_admitted(resource: Resource, before: JSONObject | None, after: JSONObject) -> None:
    """Drop the unknown fields that webhooks have added to a custom resource. Other webhooks have seen them."""
    if after is not before and resource.custom:
        resource.schema.prune(after)


class Create:
    """The write of a new object."""

    def __init__(self, registry: Registry, attributes: Attributes, call: WriteCall) -> None:
        self.attributes = attributes
        self._registry = registry
        self._call = call
        self._generates_name = False
        self._begun = attributes.object
        registry.admission.admit(attributes)

    @property
    def _object(self) -> JSONObject:
        assert self.attributes.object is not None
        return self.attributes.object

    @property
    def is_stale(self) -> bool:
        return self._registry.resource.strategy.is_taken(self._object)

    def validate(self) -> None:
        registry, obj, attributes = self._registry, self._object, self.attributes
        metadata = obj["metadata"]
        if obj is not self._begun:  # admission has replaced it
            _restore_managed_fields(self._begun, obj, self._call.warnings)
            metadata = meta.metadata_of(obj)
            registry.reset_create(obj)
            meta.match_namespace(registry.resource, metadata, attributes.namespace)
        meta.drop_duplicate_owners(metadata, self._call.warnings, after_admission=True)
        self._generates_name = not metadata.get("name")
        meta.fill_for_create(metadata, registry.clock.now())
        attributes.name = metadata.setdefault("name", "")
        errors = self._prepare(obj)
        if errors:
            raise invalid_object(registry.resource, metadata, errors)
        self._call.warnings.extend(registry.resource.strategy.warnings(obj, None))
        registry.admission.validate(attributes)

    def _prepare(self, obj: JSONObject) -> list[FieldError]:
        """Normalize and validate a new object. Returns the errors found."""
        resource, metadata = self._registry.resource, obj["metadata"]
        strategy = resource.strategy
        if strategy.has_generation:
            metadata["generation"] = 1
        if resource.has_status and not resource.custom:
            obj.setdefault("status", copied(resource.schema.empty.get("status", {})))
        strategy.prepare_for_create(obj, self.attributes)
        errors = meta.validate(resource, metadata) + resource.schema.validate(obj) + strategy.validate(obj)
        return errors + strategy.validate_create(obj)

    def commit(self) -> WriteResult:
        """Store the object. Raises AlreadyExists."""
        registry, obj = self._registry, self._object
        _prune_admitted(registry.resource, self._begun, obj)
        if not self.attributes.dry_run:
            meta.reject_version(obj["metadata"])
        self._find_free_name(obj["metadata"])
        if registry.resource.custom and registry.resource.has_status and registry.resource.to_storage is None:
            self._default_status(obj)
        shown = registry.read_back(obj)
        entry = registry.uncommitted(obj) if self.attributes.dry_run else registry.commit(obj)
        return WriteResult(registry.resource, entry, _at_version_of(shown, obj), created=True)

    def _default_status(self, obj: JSONObject) -> None:
        """Set the defaults of the status, which nobody owns; of all fields if admission has replaced the object."""
        parts = obj if obj is not self._begun else {key: value for key, value in obj.items() if key == "status"}
        self._registry.resource.schema.default(parts)
        if "status" in parts:
            obj["status"] = parts["status"]

    def _find_free_name(self, metadata: JSONObject) -> None:
        """Replace a generated name that is taken. Raises AlreadyExists for any other name that is taken."""
        for _ in range(_GENERATE_ATTEMPTS):
            if not self._registry.has(metadata["name"], metadata.get("namespace", "")):
                return
            if not self._generates_name:
                break
            meta.generate_name(metadata)
        raise already_exists(self._registry.resource, metadata["name"])


class Update:
    """The write of a stored object, or of what a subresource shows of it."""

    def __init__(
        self,
        registry: Registry,
        target: Target,
        attributes: Attributes,
        call: WriteCall,
    ) -> None:
        self.attributes = attributes
        self._registry = registry
        self._target = target
        self._call = call
        self._begun = attributes.object
        self._is_unchanged = False
        registry.admission.admit(attributes)

    @property
    def _object(self) -> JSONObject:
        assert self.attributes.object is not None
        return self.attributes.object

    @property
    def is_stale(self) -> bool:
        registry = self._registry
        return not registry.holds(self._target.entry) or registry.resource.strategy.is_taken(self._object)

    def validate(self) -> None:
        registry, new, attributes = self._registry, self._object, self.attributes
        if new is not self._begun:  # admission has replaced it
            _restore_managed_fields(self._begun, new, self._call.warnings)
        errors = registry.reset_update(self._target, new)
        meta.drop_duplicate_owners(new["metadata"], self._call.warnings, after_admission=True)
        errors += self._prepare(new)
        if errors:
            kind = self._error_kind()
            raise Invalid.of(kind.kind, kind.group, new["metadata"].get("name") or "", errors)
        if self._target.subresource != "status":
            self._call.warnings.extend(registry.resource.strategy.warnings(new, self._target.old))
        registry.admission.validate(attributes)
        self._is_unchanged = self._equals_stored(new)

    def _equals_stored(self, new: JSONObject) -> bool:
        old = self._target.old
        return (new == old and equal(new, old)) or _differs_in_times(new, old)

    def _prepare(self, new: JSONObject) -> list[FieldError]:
        """Normalize and validate an update. Returns the errors found."""
        target, resource, attributes = self._target, self._registry.resource, self.attributes
        strategy, old = resource.strategy, target.old
        if target.subresource == "status":
            strategy.prepare_for_status_update(new, old, attributes)
            errors = strategy.validate_status_update(new, old)
        elif target.view is not None:
            errors = target.view.validate(new, old)
        else:
            strategy.prepare_for_update(new, old, attributes)
            errors = strategy.validate(new) + strategy.validate_update(new, old)
        if strategy.has_generation and _differs(new, old, except_status=resource.has_status):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        is_status = target.subresource == "status"
        found = resource.schema.validate_status(new, old) if is_status else resource.schema.validate(new, old)
        return meta.validate(resource, new["metadata"]) + found + errors

    def _error_kind(self) -> GroupVersionKind:
        """Return the kind that errors of this write name."""
        view, resource = self._target.view, self._registry.resource
        if view is not None and not resource.custom:
            return view.kind or resource.gvk
        return resource.gvk

    def commit(self) -> WriteResult:
        registry, target, new = self._registry, self._target, self._object
        resource, metadata = registry.resource, new["metadata"]
        if new is not self._begun:
            _prune_admitted(resource, self._begun, new)
            self._is_unchanged = self._equals_stored(new)
        if self._is_unchanged and registry.is_in_storage_version(target.entry):
            return WriteResult(resource, target.entry, new)
        shown = registry.read_back(new)
        if self.attributes.dry_run:
            return WriteResult(resource, registry.uncommitted(new), shown)
        if self.is_stale:  # a plugin has written the object
            raise modified(resource, metadata["name"])
        if "deletionTimestamp" not in metadata or is_kept(resource, new):
            return WriteResult(resource, registry.commit(new), _at_version_of(shown, new))
        registry.remove(new)
        metadata["resourceVersion"] = target.old["metadata"]["resourceVersion"]  # the answer of a real API server
        return WriteResult(resource, registry.uncommitted(new), new, removed=True)


def _differs_in_times(new: JSONObject, old: JSONObject) -> bool:
    """Return whether only times in managedFields differ, as after an apply whose effect a default undoes."""
    entries, before = new["metadata"].get("managedFields"), old["metadata"].get("managedFields")
    if not entries or not before or len(entries) != len(before) or entries == before:
        return False
    if any({**one, "time": None} != {**other, "time": None} for one, other in zip(entries, before, strict=True)):
        return False
    restored = {**new, "metadata": {**new["metadata"], "managedFields": before}}
    return restored == old and equal(restored, old)


class Delete:
    """The delete of a stored object: it is removed, or marked as being deleted."""

    def __init__(self, registry: Registry, target: Target, attributes: Attributes, options: DeleteOptions) -> None:
        self.attributes = attributes
        self._registry = registry
        self._target = target
        self._object = target.draft()
        self._effect: DeletionEffect | None = None
        self._options = options
        self._deletion = Deletion(registry.resource, self._object, options, registry.clock.now())
        registry.admission.admit(attributes)

    @property
    def is_stale(self) -> bool:
        return not self._registry.holds(self._target.entry)

    def validate(self) -> None:
        check_preconditions(self._registry.resource, self._object["metadata"], self._options)
        self._registry.resource.strategy.before_delete(self._object, self.attributes)
        self._registry.admission.validate(self.attributes)

    def commit(self) -> WriteResult:
        registry, obj, resource = self._registry, self._object, self._registry.resource
        effect = self._effect = self._effect or self._deletion.mark()  # once, also if this step is run again
        if self.attributes.dry_run:
            return WriteResult(resource, registry.uncommitted(obj), obj, removed=effect is DeletionEffect.REMOVED)
        if effect is DeletionEffect.REMOVED:
            return WriteResult(resource, registry.remove(obj), obj, removed=True)
        entry = registry.commit(obj) if effect is DeletionEffect.CHANGED else self._target.entry
        gone = not registry.has_key(entry.key)  # an observer may have removed the last finalizer
        return WriteResult(resource, entry, obj, removed=gone)


def _at_version_of(shown: JSONObject, obj: JSONObject) -> JSONObject:
    """Return what is shown of an object, at the resource version that its commit has set."""
    if shown is not obj and "resourceVersion" in obj["metadata"]:
        shown["metadata"]["resourceVersion"] = obj["metadata"]["resourceVersion"]
    return shown


def _differs(new: JSONObject, old: JSONObject, *, except_status: bool) -> bool:
    """Return whether a field differs that raises the generation: any except metadata, and status if it is separate."""
    passed_over = ("metadata", "status") if except_status else ("metadata",)
    return any(new.get(field) != old.get(field) for field in new.keys() | old.keys() if field not in passed_over)
