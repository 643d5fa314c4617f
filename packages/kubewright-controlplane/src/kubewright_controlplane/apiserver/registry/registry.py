"""Every verb on one resource.

A write is a straight line: open the stored object; change it; conform it to its schema; record field ownership; admit;
validate; commit. A dry run takes every step except the last one.

Atomicity: there is no `await` between `open` and the commit, so nothing else runs in between. A step that has to wait,
such as calling an admission webhook, belongs between two of the steps of `_update` or `_create`. The commit of an
update compares the stored entry with the opened one, so such a write gets a Conflict if another write came first.

Follows k8s.io/apiserver/pkg/registry/generic/registry.Store and pkg/endpoints/handlers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kubewright._runtime.clock import Clock
from kubewright.machinery.errors import BadRequest, InternalError, Invalid
from kubewright.machinery.fields import FieldError, invalid
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONObject, equal
from kubewright_controlplane.apiserver.registry import metadata as meta
from kubewright_controlplane.apiserver.registry.conform import conform, conform_applied, reject_undeclared
from kubewright_controlplane.apiserver.registry.deletion import Deletion, DeletionEffect, is_kept
from kubewright_controlplane.apiserver.registry.failures import (
    already_exists,
    conflict,
    invalid_object,
    modified,
    not_found,
    not_served,
)
from kubewright_controlplane.apiserver.registry.model import Admission, Attributes, Operation, Resource, View
from kubewright_controlplane.apiserver.registry.objects import encode, from_stored, key_of, to_stored
from kubewright_controlplane.apiserver.registry.options import DeleteOptions, WriteCall
from kubewright_controlplane.apiserver.storage.events import Entry
from kubewright_controlplane.apiserver.storage.store import Store
from kubewright_controlplane.schema.ownership import managedfields
from kubewright_controlplane.schema.ownership.fieldset import FieldSet
from kubewright_controlplane.schema.structural.default import copied

_NO_LABELS: dict[str, str] = {}
_GENERATE_ATTEMPTS = 8


class Target:
    """A stored object that is open for one write."""

    def __init__(self, resource: Resource, entry: Entry, subresource: str, view: View | None) -> None:
        self.entry = entry
        self.subresource = subresource
        self.view = view
        self.old = from_stored(resource, entry.data)
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


class Registry:
    """The objects of one resource.

    A document that is passed to a write belongs to the registry from then on. Documents that are returned belong to
    the caller.
    """

    def __init__(self, resource: Resource, store: Store, admission: Admission, clock: Clock) -> None:
        self.resource = resource
        self.store = store
        self.clock = clock
        self.admission = admission

    # Reading

    def entry(self, name: str, namespace: str = "") -> Entry:
        """Return the stored entry. Raises NotFound."""
        entry = self.store.get(self.resource.storage, key_of(namespace, name))
        if entry is None:
            raise not_found(self.resource, name)
        return entry

    def has(self, name: str, namespace: str = "") -> bool:
        return self.store.get(self.resource.storage, key_of(namespace, name)) is not None

    def read(self, name: str, namespace: str = "") -> JSONObject | None:
        """Return the object, newly decoded in this registry's version; None if it does not exist."""
        entry = self.store.get(self.resource.storage, key_of(namespace, name))
        return None if entry is None else from_stored(self.resource, entry.data)

    def read_all(self, namespace: str = "") -> Iterator[JSONObject]:
        """Yield all objects, or those of one namespace, in the order of namespace and name."""
        for entry in self.entries(namespace):
            yield from_stored(self.resource, entry.data)

    def entries(self, namespace: str = "") -> list[Entry]:
        """Return the stored entries, without decoding them."""
        return list(self.store.scan(self.resource.storage, namespace=namespace))

    def view(self, subresource: str) -> View:
        """Return the view with the name of a subresource. Raises NotFound if the resource has no such view."""
        view = self.resource.subresources.get(subresource)
        if not isinstance(view, View):
            raise not_served()
        return view

    # Creating

    def create(self, obj: JSONObject, namespace: str = "", call: WriteCall | None = None) -> WriteResult:
        """Default, admit, validate and store a new object. Raises AlreadyExists, Invalid, Forbidden, BadRequest."""
        call = call or WriteCall()
        conform(self.resource, obj, call)
        meta.match_namespace(self.resource, meta.metadata_of(obj), namespace)
        return self._create(obj, call)

    def _create(self, obj: JSONObject, call: WriteCall, *, applied: bool = False) -> WriteResult:
        resource, strategy, metadata = self.resource, self.resource.strategy, obj["metadata"]
        generated = not metadata.get("name")
        meta.fill_for_create(metadata, self.clock.now())
        if resource.has_status and strategy.resets_status_on_create:
            obj.pop("status", None)
        if not applied:
            self._own_fields(None, obj, "", call)
        attributes = self._attributes("CREATE", metadata, call)
        attributes.object = obj
        self.admission.admit(attributes)
        faults = self._prepare_create(obj, attributes)
        if faults:
            raise invalid_object(resource, metadata, faults)
        self.admission.validate(attributes)
        call.warnings.extend(strategy.warnings(obj, None))
        self._find_free_name(metadata, generated)
        entry = self._entry(obj) if call.options.dry_run else self.commit(obj)
        return WriteResult(resource, entry, obj, created=True)

    def _prepare_create(self, obj: JSONObject, attributes: Attributes) -> list[FieldError]:
        """Normalize and validate a new object. Returns the faults found."""
        resource, strategy, metadata = self.resource, self.resource.strategy, obj["metadata"]
        if strategy.has_generation:
            metadata["generation"] = 1
        if resource.has_status and not resource.custom:
            obj.setdefault("status", copied(resource.schema.empty.get("status", {})))
        strategy.prepare_for_create(obj, attributes)
        return meta.validate(resource, metadata) + resource.schema.validate(obj) + strategy.validate(obj)

    def _find_free_name(self, metadata: JSONObject, generated: bool) -> None:
        """Replace a generated name that is taken. Raises AlreadyExists for any other name that is taken."""
        for _ in range(_GENERATE_ATTEMPTS):
            if not self.has(metadata["name"], metadata.get("namespace", "")):
                return
            if not generated:
                break
            meta.generate_name(metadata)
        raise already_exists(self.resource, metadata["name"])

    # Updating

    def open(self, name: str, namespace: str = "", subresource: str = "") -> Target:
        """Open a stored object for a write, through a view if `subresource` names one. Raises NotFound."""
        view = self.view(subresource) if subresource else None
        return Target(self.resource, self.entry(name, namespace), subresource, view)

    def replace(self, target: Target, obj: JSONObject, call: WriteCall | None = None) -> WriteResult:
        """Store `obj` as the new state of an open object, or of what its subresource shows.

        Raises Conflict (`obj` has another resourceVersion than the stored object), Invalid, Forbidden, BadRequest.
        """
        return self._update(target, obj, call or WriteCall())

    def update(
        self, name: str, obj: JSONObject, namespace: str = "", subresource: str = "", call: WriteCall | None = None
    ) -> WriteResult:
        """Replace an object, or what a subresource shows of it, as PUT does. Some kinds create a missing object.

        Raises NotFound, Conflict (resourceVersion or uid differ from the stored ones), Invalid, Forbidden, BadRequest.
        """
        metadata = self.check_address(obj, name, namespace)
        if subresource:
            if self.view(subresource).kind is None:
                self._reject_unconditional(metadata)
        elif self.resource.strategy.allow_create_on_update and not self.has(name, namespace):
            return self.create(obj, namespace, call)
        else:
            self._reject_unconditional(metadata)
        target = self.open(name, namespace, subresource)
        self._reject_other_uid(metadata, target.old["metadata"])
        return self.replace(target, obj, call)

    def apply(
        self, name: str, config: JSONObject, namespace: str = "", subresource: str = "", call: WriteCall | None = None
    ) -> WriteResult:
        """Server-side apply: set and own the fields in `config`, and give up the fields that only an earlier one had.

        Raises Conflict, with managers and fields, if `force` is not set and other managers own what would change.
        """
        call = call or WriteCall()
        reject_undeclared(self.resource, config)
        fields = managedfields.applied_fields(config, self.resource.schema)
        conform_applied(self.resource, config)
        exists = self.has(name, namespace)
        if exists:
            meta.metadata_of(config).setdefault("name", name)
        metadata = self.check_address(config, name, namespace)
        if not subresource and not exists:
            if metadata.get("uid"):
                why = f"the provided object specified uid {metadata['uid']}, and no existing object was found"
                raise conflict(self.resource, name, f"uid mismatch: {why}")
            metadata.pop("resourceVersion", None)  # a version matters only if there is an object to compare it with
            obj = self._merge_applied(None, config, fields, subresource, call)
            conform(self.resource, obj, call)
            return self._create(obj, call, applied=True)
        if subresource and self.view(subresource).kind is not None:
            raise not_served()
        target = self.open(name, namespace, subresource)
        new = self._merge_applied(target.draft(), config, fields, subresource, call)
        return self._update(target, new, call, applied=True)

    def _update(self, target: Target, new: JSONObject, call: WriteCall, *, applied: bool = False) -> WriteResult:
        resource, old = self.resource, target.old
        attributes = self._attributes("UPDATE", old["metadata"], call, target.subresource)
        attributes.object, attributes.old_object = new, old
        if target.view is not None:
            new = attributes.object = target.view.write(new, old, attributes)
        faults = self._conform_update(target, new, call)
        if not applied:
            self._own_fields(old, new, target.subresource, call)
        self.admission.admit(attributes)
        faults += self._prepare_update(target, new, attributes)
        if faults:
            kind = self._fault_kind(target)
            raise Invalid.of(kind.kind, kind.group, new["metadata"]["name"], faults)
        self.admission.validate(attributes)
        call.warnings.extend(resource.strategy.warnings(new, old))
        return self._commit_update(target, new, dry_run=call.options.dry_run)

    def _conform_update(self, target: Target, new: JSONObject, call: WriteCall) -> list[FieldError]:
        """Conform `new` to its schema, and reset what an update cannot change. Returns the faults in its metadata."""
        resource, old = self.resource, target.old
        new["metadata"] = dict(new.get("metadata") or {})
        conform(resource, new, call)
        metadata, old_metadata = meta.metadata_of(new), old["metadata"]
        self._reject_stale(metadata, old_metadata)
        faults = meta.validate_update(metadata, old_metadata)
        meta.keep_from_old(metadata, old_metadata)
        if resource.has_status and not target.subresource:
            _restore(new, old, "status")
        return faults

    def _prepare_update(self, target: Target, new: JSONObject, attributes: Attributes) -> list[FieldError]:
        """Normalize and validate an update. Returns the faults found."""
        resource, strategy, old = self.resource, self.resource.strategy, target.old
        if target.subresource == "status":
            strategy.prepare_for_status_update(new, old, attributes)
            faults = strategy.validate_status_update(new, old)
        elif target.view is not None:
            faults = target.view.validate(new, old)
        else:
            strategy.prepare_for_update(new, old, attributes)
            faults = strategy.validate(new) + strategy.validate_update(new, old)
        if strategy.has_generation and _differs(new, old, except_status=resource.has_status):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        return meta.validate(resource, new["metadata"]) + resource.schema.validate(new, old) + faults

    def _commit_update(self, target: Target, new: JSONObject, *, dry_run: bool) -> WriteResult:
        resource, metadata = self.resource, new["metadata"]
        if new == target.old and equal(new, target.old):
            return WriteResult(resource, target.entry, new)
        if dry_run:
            return WriteResult(resource, self._entry(new), new)
        if self.store.get(resource.storage, target.entry.key) is not target.entry:
            raise modified(resource, metadata["name"])
        if "deletionTimestamp" not in metadata or is_kept(resource, new):
            return WriteResult(resource, self.commit(new), new)
        self.remove(new)
        metadata["resourceVersion"] = target.old["metadata"]["resourceVersion"]  # the answer of a real API server
        return WriteResult(resource, self._entry(new), new, removed=True)

    def _fault_kind(self, target: Target) -> GroupVersionKind:
        """Return the kind that faults of a write name."""
        if target.view is not None and not self.resource.custom:
            return target.view.kind or self.resource.gvk
        return self.resource.gvk

    def check_address(self, obj: JSONObject, name: str, namespace: str) -> JSONObject:
        """Return the metadata of a document that was sent to this name. Raises BadRequest if it has another name."""
        metadata = meta.metadata_of(obj)
        meta.match_namespace(self.resource, metadata, namespace)
        meta.match_name(metadata, name)
        return metadata

    def _reject_unconditional(self, metadata: JSONObject) -> None:
        if not metadata.get("resourceVersion") and not self.resource.strategy.allow_unconditional_update:
            fault = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise Invalid.of(self.resource.plural, self.resource.group, metadata["name"], [fault])

    def _reject_other_uid(self, metadata: JSONObject, old: JSONObject) -> None:
        """Reject a PUT whose uid is that of another object with the same name."""
        uid = metadata.get("uid")
        if uid and uid != old["uid"]:
            key = key_of(old.get("namespace", ""), old["name"])
            why = (
                f"StorageError: invalid object, Code: 4, Key: /registry/{self.resource.plural}/{key}, "
                "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
                f"UID in precondition: {uid}, UID in object meta: {old['uid']}"
            )
            raise conflict(self.resource, old["name"], why)

    def _reject_stale(self, metadata: JSONObject, old: JSONObject) -> None:
        """Reject a write that is based on another version of the object."""
        version = metadata.get("resourceVersion") or old["resourceVersion"]
        if not version.isdecimal():
            raise InternalError(f'strconv.ParseUint: parsing "{version}": invalid syntax', reason="")
        if version != old["resourceVersion"]:
            raise modified(self.resource, old["name"])
        metadata["resourceVersion"] = version
        metadata.setdefault("uid", old["uid"])

    # Deleting

    def delete(
        self,
        name: str,
        namespace: str = "",
        options: DeleteOptions | None = None,
        warnings: list[str] | None = None,
    ) -> WriteResult:
        """Remove an object, or mark it as being deleted. Raises NotFound, and Conflict for preconditions.

        Warnings for the client are added to `warnings`.
        """
        options = options or DeleteOptions()
        target = self.open(name, namespace)
        obj = target.draft()
        attributes = Attributes(
            operation="DELETE",
            resource=self.resource,
            namespace=namespace,
            name=name,
            old_object=target.old,
            user=options.user,
            dry_run=options.dry_run,
            options=options.raw,
            warnings=warnings if warnings is not None else [],
        )
        self.admission.admit(attributes)
        deletion = Deletion(self.resource, obj, options, self.clock.now())
        deletion.check_preconditions()
        self.resource.strategy.before_delete(obj, attributes)
        self.admission.validate(attributes)
        effect = deletion.mark()
        return self._commit_deletion(target, obj, effect, dry_run=options.dry_run)

    def _commit_deletion(
        self, target: Target, obj: JSONObject, effect: DeletionEffect, *, dry_run: bool
    ) -> WriteResult:
        if dry_run:
            return WriteResult(self.resource, self._entry(obj), obj, removed=effect is DeletionEffect.REMOVED)
        if effect is DeletionEffect.REMOVED:
            return WriteResult(self.resource, self.remove(obj), obj, removed=True)
        entry = self.commit(obj) if effect is DeletionEffect.CHANGED else target.entry
        gone = (
            self.store.get(self.resource.storage, entry.key) is None
        )  # an observer may have removed the last finalizer
        return WriteResult(self.resource, entry, obj, removed=gone)

    # Committing

    def remove(self, obj: JSONObject) -> Entry:
        """Commit the deletion of an object; `obj` is its last state."""
        metadata = obj["metadata"]
        metadata["resourceVersion"] = str(self.store.next_revision)
        key = key_of(metadata.get("namespace", ""), metadata["name"])
        return self.store.remove(self.resource.storage, key, to_stored(self.resource, obj)).entry

    def commit(self, obj: JSONObject) -> Entry:
        """Store an object as it is: the last step of a write."""
        obj["metadata"]["resourceVersion"] = str(self.store.next_revision)
        return self.store.put(self.resource.storage, *self._encoded(obj)).entry

    def _entry(self, obj: JSONObject) -> Entry:
        """Return an object as an entry that is not stored."""
        key, data, labels, fields = self._encoded(obj)
        return Entry(key, 0, data, labels, fields)

    def _encoded(self, obj: JSONObject) -> tuple[str, bytes, Mapping[str, str], Mapping[str, str]]:
        """Return key, bytes, labels and selectable fields of an object."""
        resource, metadata = self.resource, obj["metadata"]
        key = key_of(metadata.get("namespace", ""), metadata["name"])
        data, fields = to_stored(resource, obj), resource.strategy.fields(obj)
        return key, data, metadata.get("labels") or _NO_LABELS, fields

    def _own_fields(self, old: JSONObject | None, new: JSONObject, subresource: str, call: WriteCall) -> None:
        try:
            managedfields.update(
                old,
                new,
                manager=call.options.field_manager,
                api_version=self.resource.api_version,
                subresource=subresource,
                now=self.clock.now(),
                schema=self.resource.schema,
                ignored=self.resource.reset_fields(subresource),
            )
        except BadRequest:  # an item of a list without its keys: validation reports it better
            new["metadata"].pop("managedFields", None)

    def _merge_applied(
        self, live: JSONObject | None, config: JSONObject, fields: FieldSet, subresource: str, call: WriteCall
    ) -> JSONObject:
        return managedfields.apply(
            live,
            config,
            fields=fields,
            manager=call.options.field_manager,
            force=call.options.force,
            api_version=self.resource.api_version,
            subresource=subresource,
            now=self.clock.now(),
            schema=self.resource.schema,
            ignored=self.resource.reset_fields(subresource),
        )

    def _attributes(
        self, operation: Operation, metadata: JSONObject, call: WriteCall, subresource: str = ""
    ) -> Attributes:
        options = call.options
        return Attributes(
            operation=operation,
            resource=self.resource,
            namespace=metadata.get("namespace", ""),
            name=metadata.get("name", ""),
            subresource=subresource,
            user=options.user,
            dry_run=options.dry_run,
            options=options.raw,
            warnings=call.warnings,
        )


def _restore(new: JSONObject, old: JSONObject, field: str) -> None:
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)


def _differs(new: JSONObject, old: JSONObject, *, except_status: bool) -> bool:
    """Return whether a field differs that raises the generation: any except metadata, and status if it is separate."""
    passed_over = ("metadata", "status") if except_status else ("metadata",)
    return any(new.get(field) != old.get(field) for field in new.keys() | old.keys() if field not in passed_over)
