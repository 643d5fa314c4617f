"""Every verb on one resource.

A write is a straight line: open the stored object; change it; conform it to its schema; record field ownership; admit;
validate; commit. A dry run takes every step except the last one. The steps up to `admit` are here, the others are in
`writes`.

Atomicity: nothing here waits, so nothing else runs between `open` and the commit. A request that has to wait for
admission webhooks, or for the worker, begins a write, waits between its steps, and begins again if the write has
become stale.

Follows k8s.io/apiserver/pkg/registry/generic/registry.Store and pkg/endpoints/handlers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kubewright._runtime.clock import Clock
from kubewright.machinery.errors import BadRequest, Invalid
from kubewright.machinery.fields import FieldError, invalid
from kubewright.machinery.json import JSONArray, JSONObject, copied
from kubewright_controlplane.apiserver.registry import metadata as meta
from kubewright_controlplane.apiserver.registry.deletion import is_kept
from kubewright_controlplane.apiserver.registry.failures import conflict, modified, not_found, not_served
from kubewright_controlplane.apiserver.registry.model import Admission, Attributes, Operation, Resource, View
from kubewright_controlplane.apiserver.registry.objects import (
    LARGEST_STORED,
    conform,
    conform_applied,
    conform_to,
    decode_json,
    from_stored,
    key_of,
    reject_larger,
    reject_undeclared,
    to_stored,
)
from kubewright_controlplane.apiserver.registry.options import DeleteOptions, WriteCall
from kubewright_controlplane.apiserver.registry.views import SCALE, ScaleView, document_schema
from kubewright_controlplane.apiserver.registry.writes import (
    Create,
    Delete,
    Target,
    Update,
    Write,
    WriteResult,
    finish,
)
from kubewright_controlplane.apiserver.storage.events import Entry
from kubewright_controlplane.apiserver.storage.store import Store
from kubewright_controlplane.schema.ownership import managedfields, scaling
from kubewright_controlplane.schema.ownership.fieldset import FieldSet

_STATUS = FieldSet.of_paths("status")
_NO_LABELS: dict[str, str] = {}


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
        return self.has_key(key_of(namespace, name))

    def has_key(self, key: str) -> bool:
        return self.store.get(self.resource.storage, key) is not None

    def stored_size(self, name: str, namespace: str) -> int:
        """Return the size of a stored object in bytes; 0 if it does not exist."""
        entry = self.store.get(self.resource.storage, key_of(namespace, name))
        return 0 if entry is None else len(entry.data)

    def holds(self, entry: Entry) -> bool:
        """Return whether this entry is the stored one: the object has not changed since."""
        return self.store.get(self.resource.storage, entry.key) is entry

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
        return self.store.scan(self.resource.storage, namespace=namespace)

    def view(self, subresource: str) -> View:
        """Return the view with the name of a subresource. Raises NotFound if the resource has no such view."""
        view = self.resource.subresources.get(subresource)
        if not isinstance(view, View):
            raise not_served()
        return view

    def is_in_storage_version(self, entry: Entry) -> bool:
        """Return whether an entry was written in the version in which it would be written now."""
        resource = self.resource
        if entry.written is None and resource.converter is None:
            return True
        return bool(decode_json(entry.last_write)["apiVersion"] == resource.storage_api_version)

    def read_back(self, obj: JSONObject) -> JSONObject:
        """Return an object as it will be read after its commit: a conversion may lose fields on the way."""
        resource = self.resource
        if resource.to_storage is None or resource.from_storage is None:
            return obj
        return resource.from_storage(resource.to_storage(obj if resource.converter is not None else copied(obj)))

    # Creating

    def create(self, obj: JSONObject, namespace: str = "", call: WriteCall | None = None) -> WriteResult:
        """Default, admit, validate and store a new object, without webhooks. Raises as `begin_create`, and
        AlreadyExists.
        """
        return finish(self.begin_create(obj, namespace, call))

    def begin_create(self, obj: JSONObject, namespace: str = "", call: WriteCall | None = None) -> Write:
        """Begin the write of a new object. Raises Invalid, Forbidden, BadRequest."""
        call = call or WriteCall()
        conform(self.resource, obj, call)
        metadata = meta.metadata_of(obj)
        meta.match_namespace(self.resource, metadata, namespace)
        meta.drop_duplicate_owners(metadata, call.warnings)
        return self._begin_create(obj, call)

    def _begin_create(self, obj: JSONObject, call: WriteCall, *, applied: bool = False) -> Write:
        metadata = obj["metadata"]
        self.reset_create(obj)
        if not applied:
            self._own_fields(None, obj, "", call)
        attributes = self._attributes("CREATE", metadata, call)
        attributes.object = obj
        return Create(self, attributes, call)

    def reset_create(self, obj: JSONObject) -> None:
        """Drop what a create cannot set."""
        meta.drop_server_owned(obj["metadata"])
        if self.resource.has_status and self.resource.strategy.resets_status_on_create:
            obj.pop("status", None)

    # Updating

    def open(self, name: str, namespace: str = "", subresource: str = "") -> Target:
        """Open a stored object for a write, through a view if `subresource` names one. Raises NotFound."""
        view = self.view(subresource) if subresource else None
        return Target(self.resource, self.entry(name, namespace), subresource, view)

    def open_decoded(self, entry: Entry, obj: JSONObject, subresource: str) -> Target:
        """Open the stored object of an entry whose document the caller knows, for a write through a view."""
        return Target(self.resource, entry, subresource, self.view(subresource), obj)

    def replace(self, target: Target, obj: JSONObject, call: WriteCall | None = None) -> WriteResult:
        """Store `obj` as the new state of an open object, or of what its subresource shows, without webhooks.

        Raises Conflict (`obj` has another resourceVersion than the stored object), Invalid, Forbidden, BadRequest.
        """
        return finish(self.begin_replace(target, obj, call))

    def begin_replace(self, target: Target, obj: JSONObject, call: WriteCall | None = None) -> Write:
        """Begin the write of `obj` as the new state of an open object, or of what its subresource shows.

        Raises Forbidden, BadRequest. The write raises the rest.
        """
        return self._begin_update(target, obj, call or WriteCall())

    def begin_update(
        self, name: str, obj: JSONObject, namespace: str = "", subresource: str = "", call: WriteCall | None = None
    ) -> Write:
        """Begin to replace an object, or what a subresource shows of it, as PUT does. Some kinds create a missing one.

        Raises NotFound, Conflict (the uid differs from the stored one), Invalid, Forbidden, BadRequest.
        """
        metadata = self.check_address(obj, name, namespace)
        creates = self.resource.strategy.allow_create_on_update and not subresource
        if creates and not self.has(name, namespace):
            return self.begin_create(obj, namespace, call)
        target = self.open(name, namespace, subresource)
        self._reject_other_uid(metadata, target.old["metadata"])
        call = call or WriteCall()
        meta.drop_duplicate_owners(metadata, call.warnings)
        return self.begin_replace(target, obj, call)

    def begin_apply(
        self, name: str, config: JSONObject, namespace: str = "", subresource: str = "", call: WriteCall | None = None
    ) -> Write:
        """Begin a server-side apply: set and own the fields in `config`, and give up those that only an earlier had.

        Raises Conflict, with managers and fields, if `force` is not set and other managers own what would change.
        """
        call = call or WriteCall()
        if subresource and self.view(subresource).kind is not None:
            return self._begin_apply_scale(name, config, namespace, subresource, call)
        reject_undeclared(self.resource.schema, self.resource.gvk, config)
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
            return self._begin_create(obj, call, applied=True)
        target = self.open(name, namespace, subresource)
        given: JSONObject = config.get("metadata") or {}
        is_unset = given.get("resourceVersion") == ""
        new = self._merge_applied(target.draft(), config, fields, subresource, call)
        if is_unset:
            new["metadata"]["resourceVersion"] = ""
        return self._begin_update(target, new, call, applied=True)

    def _begin_apply_scale(
        self, name: str, config: JSONObject, namespace: str, subresource: str, call: WriteCall
    ) -> Write:
        """Begin a server-side apply to the scale of an object."""
        view, options = self.view(subresource), call.options
        assert isinstance(view, ScaleView)
        schema, kind = document_schema(SCALE), SCALE
        target = self.open(name, namespace, subresource)
        reject_undeclared(schema, kind, config)
        meta.metadata_of(config).setdefault("name", name)
        self.check_address(config, name, namespace)
        live = target.draft()
        owned = target.old["metadata"].get("managedFields")
        live["metadata"]["managedFields"] = scaling.scale_entries(owned, view.replicas)
        scale = managedfields.apply(
            live,
            config,
            fields=managedfields.applied_fields(config, schema),
            manager=options.field_manager,
            force=options.force,
            api_version=kind.api_version,
            subresource=subresource,
            now=self.clock.now(),
            schema=schema,
            ignored=_STATUS,
        )
        owned = scaling.object_entries(
            owned, scale["metadata"].get("managedFields"), view.replicas, self.resource.api_version
        )
        return self._begin_update(target, scale, call, managed_fields=owned)

    def _begin_update(
        self,
        target: Target,
        new: JSONObject,
        call: WriteCall,
        *,
        applied: bool = False,
        managed_fields: JSONArray | None = None,
    ) -> Write:
        """Begin the write of a changed document. Its fields have owners already if it was `applied`, or if
        `managed_fields` says who they are.
        """
        old = target.old
        attributes = self._attributes("UPDATE", old["metadata"], call, target.subresource)
        attributes.object, attributes.old_object = new, old
        if target.view is not None:
            new = attributes.object = target.view.write(new, old, attributes)
        if managed_fields is not None:
            new["metadata"] = new["metadata"] | {"managedFields": managed_fields}
        new["metadata"] = dict(new.get("metadata") or {})
        conform(self.resource, new, call)
        meta.metadata_of(new)
        if not applied and managed_fields is None and call.options.field_manager:
            self._own_fields(old, new, target.subresource, call)
        return Update(self, target, attributes, call)

    def reset_update(self, target: Target, new: JSONObject) -> list[FieldError]:
        """Reset what an update cannot change. Returns the errors in the metadata. Raises Conflict."""
        resource, old = self.resource, target.old
        metadata, old_metadata = meta.metadata_of(new), old["metadata"]
        meta.match_namespace(resource, metadata, old_metadata.get("namespace", ""))
        self._reject_stale(metadata, old_metadata)
        meta.keep_from_old(metadata, old_metadata)
        errors = meta.validate_update(metadata, old_metadata)
        if resource.has_status and not target.subresource:
            _restore(new, old, "status")
        return errors

    def check_address(self, obj: JSONObject, name: str, namespace: str) -> JSONObject:
        """Return the metadata of a document that was sent to this name. Raises BadRequest if it has another name."""
        metadata = meta.metadata_of(obj)
        meta.match_namespace(self.resource, metadata, namespace)
        meta.match_name(metadata, name)
        return metadata

    def _reject_other_uid(self, metadata: JSONObject, old: JSONObject) -> None:
        """Reject a PUT whose uid is that of another object with the same name."""
        uid = metadata.get("uid")
        if uid and uid != old["uid"]:
            key = key_of(old.get("namespace", ""), old["name"])
            group = f"{self.resource.group}/" if self.resource.custom else ""
            why = (
                f"StorageError: invalid object, Code: 4, Key: /registry/{group}{self.resource.plural}/{key}, "
                "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
                f"UID in precondition: {uid}, UID in object meta: {old['uid']}"
            )
            raise conflict(self.resource, old["name"], why)

    def _reject_stale(self, metadata: JSONObject, old: JSONObject) -> None:
        """Reject a write that is based on another version of the object, or on none if the kind requires one."""
        version, resource = meta.parse_version(metadata.get("resourceVersion") or ""), self.resource
        if version is None and not resource.strategy.allow_unconditional_update:
            error = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise Invalid.of(resource.plural, resource.group, old["name"], [error])
        if version is not None and version != int(old["resourceVersion"]):
            raise modified(resource, old["name"])
        metadata["resourceVersion"] = old["resourceVersion"]

    def write_status(self, target: Target, new: JSONObject) -> None:
        """Store the status and the metadata that the server itself has given to an open object.

        It removes an object that is being deleted and has no finalizer anymore. The spec must be the stored one. It is
        not visited, so its size hardly matters.
        """
        parts = {key: value for key, value in new.items() if key != "spec"}
        before = {key: value for key, value in target.old.items() if key != "spec"}
        call = WriteCall()
        conform_to(self.resource.schema, self.resource.gvk, parts, call)
        self._own_fields(before, parts, "status", call)
        stored = new | parts
        if "deletionTimestamp" in stored["metadata"] and not is_kept(self.resource, stored):
            self.remove(stored)
        else:
            self.commit(stored)

    # Deleting

    def delete(
        self,
        name: str,
        namespace: str = "",
        options: DeleteOptions | None = None,
    ) -> WriteResult:
        """Remove an object, or mark it as being deleted, without webhooks. Raises as `begin_delete`."""
        return finish(self.begin_delete(name, namespace, options or DeleteOptions(), []))

    def begin_delete(self, name: str, namespace: str, options: DeleteOptions, warnings: list[str]) -> Write:
        """Begin a delete. Raises NotFound, and Conflict for preconditions.

        Warnings for the client are added to `warnings`.
        """
        target = self.open(name, namespace)
        attributes = Attributes(
            operation="DELETE",
            resource=self.resource,
            namespace=namespace,
            name=name,
            old_object=target.old,
            user=options.user,
            dry_run=options.dry_run,
            options=options.raw,
            warnings=warnings,
            in_collection=options.in_collection,
        )
        return Delete(self, target, attributes, options)

    # Committing

    def remove(self, obj: JSONObject) -> Entry:
        """Commit the deletion of an object; `obj` is its last state."""
        metadata = obj["metadata"]
        metadata["resourceVersion"] = str(self.store.next_revision)
        key = key_of(metadata.get("namespace", ""), metadata["name"])
        return self.store.remove(self.resource.storage, key, to_stored(self.resource, obj)).entry

    def commit(self, obj: JSONObject) -> Entry:
        """Store an object as it is: the last step of a write. Raises InternalError if it is larger than etcd allows."""
        obj["metadata"]["resourceVersion"] = str(self.store.next_revision)
        key, data, labels, fields = self._encoded(obj)
        reject_larger(len(key) + len(data), LARGEST_STORED)
        return self.store.put(self.resource.storage, key, data, labels, fields).entry

    def uncommitted(self, obj: JSONObject) -> Entry:
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
                in_version=self._in_version,
                versions=self.resource.declared_versions,
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
            in_version=self._in_version,
            versions=self.resource.declared_versions,
        )

    @property
    def _in_version(self) -> managedfields.InVersion | None:
        """Converts an object for managers of other versions, where versions have different fields."""
        converter = self.resource.converter
        return converter.in_version if converter is not None else None

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
