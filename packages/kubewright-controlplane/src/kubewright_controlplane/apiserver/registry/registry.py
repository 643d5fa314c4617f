"""Every verb on one resource. Writes are synchronous: nothing happens between their read and their commit.

The way of a write: conform to the schema and default; own fields; admit; prepare; validate; validating admission;
commit. A dry run goes all the way but the last step.

Follows k8s.io/apiserver/pkg/registry/generic/registry.Store and pkg/endpoints/handlers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from kubewright._runtime.clock import Clock
from kubewright.machinery.errors import BadRequest, InternalError, Invalid
from kubewright.machinery.fields import FieldError, invalid
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONObject, equal
from kubewright_controlplane.apiserver.registry import metadata as meta
from kubewright_controlplane.apiserver.registry.attributes import AdmissionPlugin, Attributes, Operation
from kubewright_controlplane.apiserver.registry.conform import conform, conform_applied, refuse_undeclared
from kubewright_controlplane.apiserver.registry.deletion import Deletion, Fate, is_kept
from kubewright_controlplane.apiserver.registry.failures import (
    already_exists,
    conflict,
    invalid_object,
    modified,
    not_found,
    not_served,
)
from kubewright_controlplane.apiserver.registry.objects import from_stored, key_of, to_stored
from kubewright_controlplane.apiserver.registry.options import DeleteOptions, WriteOptions
from kubewright_controlplane.apiserver.registry.resource import Resource
from kubewright_controlplane.apiserver.registry.subresource import View
from kubewright_controlplane.apiserver.storage.events import Entry
from kubewright_controlplane.apiserver.storage.store import Store
from kubewright_controlplane.schema import ownership
from kubewright_controlplane.schema.default import copied
from kubewright_controlplane.schema.fieldset import FieldSet

Transform = Callable[[JSONObject], JSONObject]
"""Makes the new document of the present one, which it may change: it is a copy."""

_NO_LABELS: dict[str, str] = {}
_GENERATE_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a write that may create or replace."""

    object: JSONObject
    created: bool = False


class Registry:
    """One resource's objects. Documents that go in are the registry's from then on; what comes out is the caller's."""

    def __init__(self, resource: Resource, store: Store, admission: Sequence[AdmissionPlugin], clock: Clock) -> None:
        self.resource = resource
        self.store = store
        self.clock = clock
        self.admission = admission

    # Reading

    def entry(self, name: str, namespace: str = "") -> Entry:
        """The stored entry. Raises NotFound."""
        entry = self.store.get(self.resource.storage, key_of(namespace, name))
        if entry is None:
            raise not_found(self.resource, name)
        return entry

    def has(self, name: str, namespace: str = "") -> bool:
        return self.store.get(self.resource.storage, key_of(namespace, name)) is not None

    def read(self, name: str, namespace: str = "") -> JSONObject | None:
        """The object, decoded afresh in this registry's version; None where there is none."""
        entry = self.store.get(self.resource.storage, key_of(namespace, name))
        return None if entry is None else from_stored(self.resource, entry.data)

    def read_all(self, namespace: str = "") -> Iterator[JSONObject]:
        """All objects, or those of one namespace, by namespace and name."""
        for entry in self.entries(namespace):
            yield from_stored(self.resource, entry.data)

    def entries(self, namespace: str = "") -> list[Entry]:
        """The stored entries, without decoding."""
        return list(self.store.scan(self.resource.storage, namespace=namespace))

    def view(self, subresource: str) -> View:
        """The window that a subresource is. Raises NotFound when the resource has no such view."""
        window = self.resource.subresources.get(subresource)
        if not isinstance(window, View):
            raise not_served()
        return window

    # Creating

    def create(self, obj: JSONObject, namespace: str = "", options: WriteOptions | None = None) -> JSONObject:
        """Store a new object through the whole of defaulting, admission and validation; gives what was stored.

        Raises AlreadyExists, Invalid, Forbidden, BadRequest.
        """
        options = options or WriteOptions()
        conform(self.resource, obj, options)
        meta.match_namespace(self.resource, meta.metadata_of(obj), namespace)
        return self._create(obj, options)

    def _create(self, obj: JSONObject, options: WriteOptions, *, applied: bool = False) -> JSONObject:
        resource, strategy, metadata = self.resource, self.resource.strategy, obj["metadata"]
        generated = not metadata.get("name")
        meta.fill_for_create(metadata, self.clock.now())
        if resource.has_status and strategy.resets_status_on_create:
            obj.pop("status", None)
        if not applied:
            self._own_fields(None, obj, "", options)
        attributes = self._attributes("CREATE", obj, None, "", options)
        for plugin in self.admission:
            plugin.admit(attributes)
        if strategy.has_generation:
            metadata["generation"] = 1
        if resource.has_status and not resource.custom:
            obj.setdefault("status", copied(resource.schema.empty.get("status", {})))
        strategy.prepare_for_create(obj, attributes)
        faults = meta.validate(resource, metadata)
        faults += resource.schema.validate(obj)
        faults += strategy.validate(obj)
        if faults:
            raise invalid_object(resource, metadata, faults)
        for plugin in self.admission:
            plugin.validate(attributes)
        options.warnings.extend(strategy.warnings(obj, None))
        self._find_free_name(metadata, generated)
        if not options.dry_run:
            self.commit(obj)
        return obj

    def _find_free_name(self, metadata: JSONObject, generated: bool) -> None:
        """A generated name that is taken is made anew; one that was given is refused."""
        for _ in range(_GENERATE_ATTEMPTS):
            if not self.has(metadata["name"], metadata.get("namespace", "")):
                return
            if not generated:
                break
            meta.generate_name(metadata)
        raise already_exists(self.resource, metadata["name"])

    # Updating

    def update(self, name: str, obj: JSONObject, namespace: str = "", options: WriteOptions | None = None) -> Outcome:
        """Replace an object; for kinds that allow it, create one that is not there.

        Raises NotFound, Conflict (resourceVersion or uid are not the stored ones), Invalid, Forbidden, BadRequest.
        """
        metadata = self.address(obj, name, namespace)
        if self.resource.strategy.allow_create_on_update and not self.has(name, namespace):
            return Outcome(self.create(obj, namespace, options), created=True)
        self._refuse_unconditional(metadata)
        return Outcome(self.transform(name, partial(self._replace, obj), namespace, "", options))

    def update_view(
        self, name: str, subresource: str, view: JSONObject, namespace: str = "", options: WriteOptions | None = None
    ) -> JSONObject:
        """Replace what a subresource shows of an object; gives what it shows afterwards. Raises as `update` does."""
        metadata = self.address(view, name, namespace)
        if self.view(subresource).kind is None:
            self._refuse_unconditional(metadata)
        return self.transform(name, partial(self._replace, view), namespace, subresource, options)

    def apply(
        self,
        name: str,
        config: JSONObject,
        namespace: str = "",
        subresource: str = "",
        options: WriteOptions | None = None,
    ) -> Outcome:
        """Server-side apply: own and set what `config` has, give up and remove what it had before and has no more.

        Raises Conflict, naming managers and fields, when others own what would change and `force` is not set.
        """
        options = options or WriteOptions()
        refuse_undeclared(self.resource, config)
        fields = ownership.wanted(config, self.resource.schema)
        conform_applied(self.resource, config)
        if self.has(name, namespace):
            meta.metadata_of(config).setdefault("name", name)
        metadata = self.address(config, name, namespace)
        if not subresource and not self.has(name, namespace):
            if metadata.get("uid"):
                why = f"the provided object specified uid {metadata['uid']}, and no existing object was found"
                raise conflict(self.resource, name, f"uid mismatch: {why}")
            metadata.pop("resourceVersion", None)  # a version counts where there is an object to compare it with
            obj = self._merge_applied(None, config, fields, subresource, options)
            conform(self.resource, obj, options)
            return Outcome(self._create(obj, options, applied=True), created=True)
        if subresource and self.view(subresource).kind is not None:
            raise not_served()
        entry = self.entry(name, namespace)
        live = from_stored(self.resource, entry.data)
        new = self._merge_applied(live, config, fields, subresource, options)
        if subresource:
            new = self._through(subresource, new, entry, options)
        return Outcome(self._update(entry, new, subresource, options, applied=True))

    def modify(
        self,
        name: str,
        change: Callable[[JSONObject], None],
        namespace: str = "",
        subresource: str = "",
        options: WriteOptions | None = None,
    ) -> JSONObject:
        """Change an object in place by a function, as an update of it or of its `status`. Raises NotFound, Invalid."""

        def changed(obj: JSONObject) -> JSONObject:
            change(obj)
            return obj

        return self.transform(name, changed, namespace, subresource, options)

    def transform(
        self,
        name: str,
        make: Transform,
        namespace: str = "",
        subresource: str = "",
        options: WriteOptions | None = None,
    ) -> JSONObject:
        """Store what `make` makes of the object, or of what a subresource shows of it; gives what is shown then."""
        options = options or WriteOptions()
        entry = self.entry(name, namespace)
        present = from_stored(self.resource, entry.data)
        if not subresource:
            return self._update(entry, make(present), "", options)
        view = self.view(subresource)
        new = self._through(subresource, make(view.read(present)), entry, options)
        return view.read(self._update(entry, new, subresource, options))

    def _through(self, subresource: str, shown: JSONObject, entry: Entry, options: WriteOptions) -> JSONObject:
        """The object that writing `shown` through a subresource makes of the stored one."""
        old = from_stored(self.resource, entry.data)
        attributes = self._attributes("UPDATE", shown, old, subresource, options)
        return self.view(subresource).write(shown, old, attributes)

    def _update(
        self, entry: Entry, new: JSONObject, subresource: str, options: WriteOptions, *, applied: bool = False
    ) -> JSONObject:
        resource = self.resource
        old = from_stored(resource, entry.data)
        new["metadata"] = dict(new.get("metadata") or {})
        conform(resource, new, options)
        metadata, old_metadata = meta.metadata_of(new), old["metadata"]
        self._refuse_stale(metadata, old_metadata)
        faults = meta.validate_update(metadata, old_metadata)
        meta.keep_from_old(metadata, old_metadata)
        if resource.has_status and not subresource:
            _restore(new, old, "status")
        if not applied:
            self._own_fields(old, new, subresource, options)
        attributes = self._attributes("UPDATE", new, old, subresource, options)
        for plugin in self.admission:
            plugin.admit(attributes)
        faults += self._prepare(new, old, attributes)
        if faults:
            kind = self._shown_kind(subresource)
            raise Invalid.of(kind.kind, kind.group, metadata["name"], faults)
        for plugin in self.admission:
            plugin.validate(attributes)
        options.warnings.extend(resource.strategy.warnings(new, old))
        if not options.dry_run and not (new == old and equal(new, old)):
            self._commit_update(new, old_metadata["resourceVersion"])
        return new

    def _prepare(self, new: JSONObject, old: JSONObject, attributes: Attributes) -> list[FieldError]:
        """What the kind does with an update, and what it finds wrong with it."""
        resource, strategy = self.resource, self.resource.strategy
        if attributes.subresource == "status":
            strategy.prepare_for_status_update(new, old, attributes)
            faults = strategy.validate_status_update(new, old)
        elif attributes.subresource:
            faults = self.view(attributes.subresource).validate(new, old)
        else:
            strategy.prepare_for_update(new, old, attributes)
            faults = strategy.validate(new) + strategy.validate_update(new, old)
        if strategy.has_generation and _differs(new, old, except_status=resource.has_status):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        return meta.validate(resource, new["metadata"]) + resource.schema.validate(new, old) + faults

    def _shown_kind(self, subresource: str) -> GroupVersionKind:
        """What faults of a write through a subresource, or through none, are told of."""
        if subresource and not self.resource.custom:
            return self.view(subresource).kind or self.resource.gvk
        return self.resource.gvk

    def _commit_update(self, new: JSONObject, revision: str) -> None:
        if "deletionTimestamp" in new["metadata"] and not is_kept(self.resource, new):
            self.remove(new)
            new["metadata"]["resourceVersion"] = revision
        else:
            self.commit(new)

    def address(self, obj: JSONObject, name: str, namespace: str) -> JSONObject:
        """The metadata of a document that was sent to this name. Raises BadRequest when it names another."""
        metadata = meta.metadata_of(obj)
        meta.match_namespace(self.resource, metadata, namespace)
        meta.match_name(metadata, name)
        return metadata

    def _refuse_unconditional(self, metadata: JSONObject) -> None:
        if not metadata.get("resourceVersion") and not self.resource.strategy.allow_unconditional_update:
            fault = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise Invalid.of(self.resource.plural, self.resource.group, metadata["name"], [fault])

    def _replace(self, obj: JSONObject, present: JSONObject) -> JSONObject:
        """`obj`, unless its uid says that it is meant for another object of the same name."""
        uid, old = obj["metadata"].get("uid"), present["metadata"]
        if uid and uid != old["uid"]:
            key = key_of(old.get("namespace", ""), old["name"])
            why = (
                f"StorageError: invalid object, Code: 4, Key: /registry/{self.resource.plural}/{key}, "
                "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
                f"UID in precondition: {uid}, UID in object meta: {old['uid']}"
            )
            raise conflict(self.resource, old["name"], why)
        return obj

    def _refuse_stale(self, metadata: JSONObject, old: JSONObject) -> None:
        """Refuse a write that was made of another state."""
        version = metadata.get("resourceVersion") or old["resourceVersion"]
        if not version.isdecimal():
            raise InternalError(f'strconv.ParseUint: parsing "{version}": invalid syntax', reason="")
        if version != old["resourceVersion"]:
            raise modified(self.resource, old["name"])
        metadata["resourceVersion"] = version
        metadata.setdefault("uid", old["uid"])

    # Deleting

    def delete(self, name: str, namespace: str = "", options: DeleteOptions | None = None) -> JSONObject:
        """Delete, or mark as being deleted; gives the last state. Raises NotFound, Conflict for preconditions."""
        options = options or DeleteOptions()
        obj = from_stored(self.resource, self.entry(name, namespace).data)
        attributes = Attributes(
            operation="DELETE",
            resource=self.resource,
            namespace=namespace,
            name=name,
            old_object=from_stored(self.resource, self.entry(name, namespace).data),
            user=options.user,
            dry_run=options.dry_run,
            options=options.raw,
            warnings=options.warnings,
        )
        for plugin in self.admission:
            plugin.admit(attributes)
        deletion = Deletion(self.resource, obj, options, self.clock.now())
        deletion.check_preconditions()
        self.resource.strategy.before_delete(obj, attributes)
        for plugin in self.admission:
            plugin.validate(attributes)
        fate = deletion.mark()
        if options.dry_run:
            return obj
        if fate is Fate.GONE:
            self.remove(obj)
        elif fate is Fate.CHANGED:
            self.commit(obj)
        return obj

    # Committing

    def remove(self, obj: JSONObject) -> None:
        """Commit the end of an object; `obj` is its last state."""
        metadata = obj["metadata"]
        metadata["resourceVersion"] = str(self.store.next_revision)
        key = key_of(metadata.get("namespace", ""), metadata["name"])
        self.store.remove(self.resource.storage, key, to_stored(self.resource, obj))

    def commit(self, obj: JSONObject) -> None:
        """Store an object as it is: the last step of a write."""
        resource, metadata = self.resource, obj["metadata"]
        metadata["resourceVersion"] = str(self.store.next_revision)
        key = key_of(metadata.get("namespace", ""), metadata["name"])
        data, fields = to_stored(resource, obj), resource.strategy.fields(obj)
        self.store.put(resource.storage, key, data, metadata.get("labels") or _NO_LABELS, fields)

    def _own_fields(self, old: JSONObject | None, new: JSONObject, subresource: str, options: WriteOptions) -> None:
        try:
            ownership.update(
                old,
                new,
                manager=options.field_manager,
                api_version=self.resource.api_version,
                subresource=subresource,
                now=self.clock.now(),
                schema=self.resource.schema,
                ignored=self.resource.reset_fields(subresource),
            )
        except BadRequest:  # an item that cannot be named: validation has the better words for it
            new["metadata"].pop("managedFields", None)

    def _merge_applied(
        self,
        live: JSONObject | None,
        config: JSONObject,
        fields: FieldSet,
        subresource: str,
        options: WriteOptions,
    ) -> JSONObject:
        return ownership.apply(
            live,
            config,
            fields=fields,
            manager=options.field_manager,
            force=options.force,
            api_version=self.resource.api_version,
            subresource=subresource,
            now=self.clock.now(),
            schema=self.resource.schema,
            ignored=self.resource.reset_fields(subresource),
        )

    def _attributes(
        self, operation: Operation, obj: JSONObject, old: JSONObject | None, subresource: str, options: WriteOptions
    ) -> Attributes:
        metadata = obj["metadata"]
        return Attributes(
            operation=operation,
            resource=self.resource,
            namespace=metadata.get("namespace", ""),
            name=metadata.get("name", ""),
            object=obj,
            old_object=old,
            subresource=subresource,
            user=options.user,
            dry_run=options.dry_run,
            options=options.raw,
            warnings=options.warnings,
        )


def _restore(new: JSONObject, old: JSONObject, field: str) -> None:
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)


def _differs(new: JSONObject, old: JSONObject, *, except_status: bool) -> bool:
    """Whether anything but metadata differs, and a status that is written apart: what raises the generation."""
    passed_over = ("metadata", "status") if except_status else ("metadata",)
    return any(new.get(field) != old.get(field) for field in new.keys() | old.keys() if field not in passed_over)
