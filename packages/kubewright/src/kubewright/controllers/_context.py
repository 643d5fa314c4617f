"""What a reconciler receives: the object, and the means to act on it.

Owner references
    `Context.apply` never changes an object that another object controls. It changes one that nothing controls only with
    `adopt=True`. This also holds if the cache lags, if two owners race for one name, and if the child is deleted and
    created again between the read and the write.
    If the cache is up to date, an apply is one request, or none if nothing would change.
How
    If the cache does not show the child, the apply may only create it. If the cache shows it as a child of this owner,
    the apply has the uid as a precondition. If the answer shows that the cache lagged, or if the cache shows another
    owner, `apply_child` reads the live object and decides again. Any other Conflict is raised after a single request.
Not guaranteed
    A new owner that another process has just set is noticed only once the cache shows it, if that process uses the same
    field manager and the object has kept its uid. Owners that this process sets are always noticed.
Patches
    A JSON patch that begins with a test of the uid is the only way to tie a change to one object that works for every
    kind and subresource: the status of a custom resource is patched whatever uid a merge patch contains.

Follows controller-runtime's pkg/controller/controllerutil.
Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/owners-dependents/
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final, Generic, TypeVar

import msgspec

from kubewright._runtime.clock import Clock
from kubewright._runtime.log import StructuredLogger
from kubewright.cache._client import CachedClient
from kubewright.cache._entry import Entry, ObjectKey, key_of
from kubewright.cache._informer import copy_of
from kubewright.client._client import Client, status_call
from kubewright.client._dynamic import check_is_object
from kubewright.client._lists import Labels, ObjectList
from kubewright.client._patch import JSONPatch, Patch
from kubewright.client._write import Propagation
from kubewright.controllers._reconcile import EventRecorder, Request
from kubewright.machinery.errors import AlreadyExists, AlreadyOwnedError, ConfigError, Conflict, Invalid, NotFound
from kubewright.machinery.json import JSONArray, JSONObject, equal
from kubewright.machinery.patch import pointer
from kubewright.models import Object, Struct
from kubewright.models._meta import ObjectMeta, OwnerReference
from kubewright.models._resource import owner_reference
from kubewright.models._values import encode

T = TypeVar("T", bound=Object)
U = TypeVar("U", bound=Object)
R = TypeVar("R")


class Shared(Generic[T]):
    """What all contexts of one controller have in common."""

    __slots__ = ("client", "events", "kind", "logger", "owns", "resource")

    def __init__(
        self,
        kind: type[T],
        *,
        owns: frozenset[type[Object]],
        client: CachedClient,
        events: EventRecorder,
        logger: StructuredLogger,
    ) -> None:
        self.kind = kind
        self.owns = owns
        self.client = client
        self.events = events
        self.logger = logger
        self.resource: object = None
        """The object that the manager's lifespan yielded."""


class BaseContext(Generic[T]):
    """What a reconciler can use with and without an object: see `Context` and `DeletedContext`."""

    __slots__ = ("_shared", "attempt", "client", "events", "is_last_attempt", "request")

    def __init__(self, shared: Shared[T], request: Request, attempt: int, is_last_attempt: bool) -> None:
        self._shared = shared
        self.request = request
        """The namespace and name of the object."""
        self.attempt = attempt
        """1 for the first attempt, plus one for each failure in a row before it."""
        self.is_last_attempt = is_last_attempt
        """Whether a failure of this attempt is not retried (`Backoff.attempts`). Then report it in the status."""
        self.client = shared.client
        """A client for everything that the methods of the context do not do."""
        self.events = shared.events
        """Records Kubernetes Events for the users of an object; `kubectl describe` shows them."""

    @property
    def log(self) -> StructuredLogger:
        """A logger that adds the names of the controller and of the object to each line."""
        return self._shared.logger.bind(namespace=self.request.namespace, name=self.request.name)

    @property
    def clock(self) -> Clock:
        """The manager's clock: `ctx.clock.now()` returns the time, and a test can move it."""
        return self.client.clock

    def resource(self, kind: type[R]) -> R:
        """Return what the manager's lifespan yielded, such as an HTTP session.

        Raises ConfigError if it is not a `kind`.

            http = ctx.resource(httpx.AsyncClient)
        """
        return resource_of(self._shared.resource, kind)

    async def get(self, kind: type[U], name: str, *, namespace: str | None = None) -> U:
        """Return the object of that name. Raises NotFound."""
        return await self.client.get(kind, name, namespace=self._namespace(kind, namespace))

    async def get_or_none(self, kind: type[U], name: str, *, namespace: str | None = None) -> U | None:
        """Return the object of that name; None if it does not exist."""
        return await self.client.get_or_none(kind, name, namespace=self._namespace(kind, namespace))

    async def patch(self, target: U, patch: Patch, *, subresource: str | None = None) -> U:
        """Patch `target`, and return the updated object. Raises NotFound, Conflict, Invalid."""
        return await self.client.patch(target, patch, subresource=subresource)

    async def delete(
        self, target: Object, *, propagation: Propagation | None = None, if_unchanged: bool = False
    ) -> None:
        """Delete `target`, an object that was read. It is not an error if it no longer exists.

        A newer object of the same name is never deleted. With `if_unchanged`, the object is deleted only if it did not
        change since it was read: use it if the decision to delete depends on the object's fields. Raises Conflict if
        there is a newer object or such a change, and ConfigError for an object that was not read and has no uid.
        """
        kind, meta = target.__api__.kind, target.metadata
        if not meta.uid:
            raise ConfigError(
                f'{kind} "{meta.name}" has no uid: ctx.delete takes an object that was read, so that it deletes no '
                f"other; use ctx.client.delete({kind}, name, namespace=...) to delete by name"
            )
        version = meta.resource_version if if_unchanged else None
        try:
            await self.client.delete(target, resource_version=version, propagation=propagation)
        except NotFound:
            return

    def _namespace(self, kind: type[Object], given: str | None) -> str | None:
        if given is not None or not kind.__api__.namespaced:
            return given or None
        return self.request.namespace


class Context(BaseContext[T]):
    """One reconcile of one object.

    Reads come from the cache and see the writes of this process. Without `namespace=`, the object's own namespace is
    used, for kinds that have namespaces.
    """

    __slots__ = ("_status", "_version", "object")

    def __init__(self, shared: Shared[T], request: Request, attempt: int, is_last_attempt: bool, obj: T) -> None:
        super().__init__(shared, request, attempt, is_last_attempt)
        self.object = obj
        """The object, freshly decoded from the cache. The reconciler may change it."""
        self._version = obj.metadata.resource_version
        """The resource version of the object as it was read, or after the last write of its status."""
        self._status = b"null"
        """The status on the server. The reconciler may change `object.status`."""
        if "status" in shared.kind.__api__.subresources:
            self._status = encode(getattr(obj, "status", None))

    async def list(
        self, kind: type[U], *, namespace: str | None = None, labels: Labels = None, owned: bool = False
    ) -> ObjectList[U]:
        """Return the objects of a kind that match. With `owned`, only those that this object controls.

        `namespace=""` means all namespaces.
        """
        owner = self.object.metadata.uid if owned else None
        found = await self.client.list(kind, namespace=self._namespace(kind, namespace), labels=labels, owner=owner)
        if owned:
            found.items = [each for each in found.items if is_controlled_by(each, self.object)]
        return found

    async def create(self, obj: U) -> U:
        """Create `obj`. For a kind in `owns`, this object becomes its owner. Raises AlreadyExists, Invalid."""
        self._adopt(obj)
        return await self.client.create(obj)

    async def apply(self, obj: U, *, adopt: bool = False, create_only: bool = False) -> U:
        """Make the cluster contain `obj`: create it if needed, set its fields, and remove fields that are no longer
        applied.

        This is server-side apply with force; it returns the updated object. An apply that would change
        nothing is not sent; see `CachedClient`.

        For a kind in `owns`, this object becomes the controlling owner of `obj`, and the live object is respected:

        - if this object controls it, it is changed;
        - if another object controls it, AlreadyOwnedError is raised;
        - if nothing controls it, AlreadyOwnedError is raised, unless `adopt` is true: then this object becomes its
        owner.
          An adopted object is deleted with its new owner.

        With `create_only`, a live object that may be applied is left and returned as it is. Use it for a child whose
        content must not be generated twice, such as a Secret with a password.

        A reconcile that ends with AlreadyOwnedError is retried with backoff, and a warning Event of this object shows
        the error. Catch it to report it in the status.

        The owner of an object in a namespace lives in the same namespace: a child of a kind in `owns` elsewhere, or a
        cluster-scoped child of a namespaced object, is a ConfigError. For a kind not in `owns` no owner is set and none
        is checked, unless `obj` already names a controlling owner: then the rules above hold for that owner.
        """
        self._adopt(obj)
        return await apply_child(self.client, obj, adopt=adopt, create_only=create_only)

    async def update_status(self, status: Struct, *, if_unchanged: bool = False) -> None:
        """Make `status` the object's status. Sends the differences, or nothing if there are none.

        The controller owns the status as a whole: fields that `status` does not have are removed. The status of a newer
        object of the same name is never written. With `if_unchanged`, the status is not written if the object changed
        since it was read: use it for a status that records completed work, so that an old view never overwrites it.
        Raises NotFound if the object no longer exists, Conflict if there is a newer object or a change that was not
        seen, Invalid, and ConfigError for a kind without a status subresource.
        """
        kind = self._shared.kind
        if "status" not in kind.__api__.subresources:
            raise ConfigError(
                f"{kind.__name__} has no status subresource: a CustomResource with a field `status` has one; use "
                "a patch for the status of any other kind"
            )
        wanted = encode(status)
        if wanted == self._status:
            return
        changes = status_patch(kind, self._status, wanted)
        if if_unchanged:
            changes.insert(0, test("/metadata/resourceVersion", self._version))
        written = await guarded_patch(self.client, self.object, changes, subresource="status", status=status)
        self._status, self._version = wanted, written.metadata.resource_version

    def _adopt(self, obj: Object) -> None:
        meta = getattr(obj, "metadata", None)
        if not isinstance(meta, ObjectMeta):
            check_is_object(obj)  # raises TypeError
            return
        if not meta.namespace and self.request.namespace and obj.__api__.namespaced:
            meta.namespace = self.request.namespace
        if type(obj) in self._shared.owns:
            set_controller_reference(self.object, obj)


class DeletedContext(BaseContext[T]):
    """One reconcile of an object that no longer exists, for controllers with `reconcile_deleted=True`.

    `request` has its namespace and name. There is no object, so the context cannot apply children.
    """

    __slots__ = ()

    async def list(self, kind: type[U], *, namespace: str | None = None, labels: Labels = None) -> ObjectList[U]:
        """Return the objects of a kind that match. `namespace=""` means all namespaces."""
        return await self.client.list(kind, namespace=self._namespace(kind, namespace), labels=labels)


def resource_of(resource: object, kind: type[R]) -> R:
    """Return what a lifespan yielded. Raises ConfigError if it is not a `kind`."""
    if isinstance(resource, kind):
        return resource
    if resource is None:
        raise ConfigError(
            f"no {kind.__name__} is open: give the Manager a lifespan that yields one, Manager(lifespan=...)"
        )
    raise ConfigError(
        f"the lifespan yields a {type(resource).__name__}, not a {kind.__name__}; to share several resources, yield a "
        f"dataclass that holds them, and ask for that class"
    )


_IDENTITY: Final = frozenset({"metadata.uid", "metadata.ownerReferences"})
"""The fields of an Invalid answer if the live object is not the one that was expected."""
_NO_SUCH_UID: Final = "uid mismatch"
"""A part of the Conflict that answers an apply with a uid if no object of that name exists."""


def set_controller_reference(owner: Object, child: Object) -> None:
    """Make `owner` the controlling owner of `child`: Kubernetes deletes the child after its owner.

    Raises AlreadyOwnedError if `child` names another controlling owner, and ConfigError if the owner lives in another
    namespace.
    """
    if owner.metadata.namespace and owner.metadata.namespace != child.metadata.namespace:
        raise ConfigError(
            f"{_name_of(owner)} cannot own {_name_of(child)}: an owner must be in the namespace of its child, "
            f"or cluster-scoped. Put the child into {owner.metadata.namespace!r}, or delete it in a finalizer"
        )
    reference = owner_reference(owner)
    if not child.metadata.owner_references:
        child.metadata.owner_references = [reference]
        return
    current = controller_of(child)
    if current is not None and current.uid != reference.uid:
        raise _controlled_by_another(child, current, reference)
    others = [each for each in child.metadata.owner_references if each.uid != reference.uid]
    child.metadata.owner_references = [*others, reference]


def is_controlled_by(child: Object, owner: Object) -> bool:
    """Return whether `owner`, and not another object of the same name, is the controlling owner of `child`."""
    current = controller_of(child)
    return current is not None and current.uid == owner.metadata.uid


def controller_of(obj: Object) -> OwnerReference | None:
    """Return the reference to the controlling owner of `obj`; None if nothing controls it."""
    for reference in obj.metadata.owner_references:
        if reference.controller:
            return reference
    return None


async def apply_child(client: CachedClient, child: T, *, adopt: bool, create_only: bool) -> T:
    """Apply `child`, if the live object does not exist or has the same controlling owner.

    With `adopt`, a live object without a controlling owner is applied too. With `create_only`, an existing object is
    returned unchanged, after the same checks. If `child` itself has no controlling owner, nothing is checked. Raises
    AlreadyOwnedError, and Conflict if the live object changes while it is applied.
    """
    owner = controller_of(child)
    if owner is None:
        return await (_create_or_read(client, child) if create_only else client.apply(child))
    informer = client.cache.informer_or_none(type(child))
    copy = copy_of(informer) if informer is not None else None
    if copy is not None and copy.synced:
        meta = child.metadata
        key = key_of(meta.namespace, meta.name)
        entry = copy.latest(key)
        try:
            if entry is None:
                if copy.concerns(key, meta.labels):
                    return await client.apply(child, create_only=True)
            elif _controls(owner, entry):
                return entry.decode() if create_only else await client.apply(child, uid=entry.uid)
        except AlreadyExists:
            pass  # the cache lags
        except (Conflict, Invalid) as error:
            if not _is_about_identity(error):
                raise
    return await _apply_to_live(client, child, owner, adopt=adopt, create_only=create_only)


async def _apply_to_live(client: CachedClient, child: T, owner: OwnerReference, *, adopt: bool, create_only: bool) -> T:
    """Apply `child` to the object that the server has now."""
    meta = child.metadata
    live = await client.uncached.get_or_none(type(child), meta.name, namespace=meta.namespace or None)
    current = controller_of(live) if live is not None else None
    if current is not None and current.uid != owner.uid:
        raise _controlled_by_another(child, current, owner)
    if live is not None and current is None and not adopt:
        raise _not_controlled(child, owner, is_ours=_wrote(client.field_manager, live))
    if live is not None and create_only:
        return live
    try:
        if live is None:
            return await client.apply(child, create_only=True)
        version = live.metadata.resource_version if current is None else None
        return await client.apply(child, uid=live.metadata.uid, resource_version=version)
    except AlreadyExists as error:
        raise _changed(child) from error
    except (Conflict, Invalid) as error:
        if not _is_about_identity(error):
            raise
        raise _changed(child) from error


async def _create_or_read(client: CachedClient, child: T) -> T:
    """Create a child that has no controlling owner, or return the existing object."""
    meta = child.metadata
    informer = client.cache.informer_or_none(type(child))
    key = ObjectKey(meta.namespace, meta.name)
    entry = copy_of(informer).latest(key) if informer is not None else None
    if entry is not None:
        return entry.decode()
    try:
        return await client.apply(child, create_only=True)
    except AlreadyExists:
        return await client.uncached.get(type(child), meta.name, namespace=meta.namespace or None)


def _controls(owner: OwnerReference, entry: Entry[T]) -> bool:
    for reference in entry.owners:
        if reference.controller:
            return reference.uid == owner.uid
    return False


def _is_about_identity(error: Conflict | Invalid) -> bool:
    """Return whether an error says that the live object is not the expected one, so that a new read can help."""
    if isinstance(error, Conflict):
        return _NO_SUCH_UID in str(error)
    return any(cause.field in _IDENTITY for cause in error.causes)


def _controlled_by_another(child: Object, current: OwnerReference, owner: OwnerReference) -> AlreadyOwnedError:
    return AlreadyOwnedError(
        f'{_name_of(child)} is controlled by {current.kind} "{current.name}", so {owner.kind} "{owner.name}" cannot '
        f"control it as well. Give the child another name, or delete the other owner or its child",
        controller=current.name,
        controller_kind=current.kind,
        controller_uid=current.uid,
    )


def _not_controlled(child: Object, owner: OwnerReference, *, is_ours: bool) -> AlreadyOwnedError:
    what = (
        f'{_name_of(child)} exists and has no controlling owner, so {owner.kind} "{owner.name}" does not take it over'
    )
    if is_ours:
        return AlreadyOwnedError(
            f"{what}. This operator wrote it before without an owner, probably before {child.kind} was in owns. Adopt "
            "it with ctx.apply(child, adopt=True)"
        )
    return AlreadyOwnedError(
        f"{what}. Give the child another name, delete the existing object, or adopt it with "
        "ctx.apply(child, adopt=True)"
    )


def _wrote(field_manager: str, live: Object) -> bool:
    return any(each.manager == field_manager for each in live.metadata.managed_fields)


def _changed(child: Object) -> Conflict:
    return Conflict(f"{_name_of(child)} changed while it was applied; try again")


def _name_of(obj: Object) -> str:
    meta = obj.metadata
    return f'{obj.kind} "{meta.namespace}/{meta.name}"' if meta.namespace else f'{obj.kind} "{meta.name}"'


_decode: Final = msgspec.json.Decoder(JSONObject | None).decode


def test(path: str, value: object) -> JSONObject:
    """Return the operation that fails a patch unless `path` has this `value`."""
    return {"op": "test", "path": path, "value": value}


async def guarded_patch(
    client: Client,
    obj: T,
    operations: Iterable[JSONObject],
    *,
    subresource: str | None = None,
    status: Struct | None = None,
) -> T:
    """Apply `operations` (RFC 6902) to exactly this object, not to a newer one of its name. Returns the updated object.

    `status` is the whole status that the operations lead to, if that is known. Raises Conflict if the live object is
    another one or does not match the operations, Invalid if the result breaks a rule, and NotFound.
    """
    try:
        patch = JSONPatch((test("/metadata/uid", obj.metadata.uid), *operations))
        if status is not None:
            return (await client.writer(status_call(client, obj, patch, status))).decode()
        return await client.patch(obj, patch, subresource=subresource)
    except Invalid as error:
        if not error.patch_did_not_apply:
            raise
        raise Conflict(
            f"{obj.__api__.kind} {obj.metadata.name!r}: it has changed, or is another object of that name"
        ) from error


def status_patch(kind: type[Object], before: bytes, after: bytes) -> JSONArray:
    """Return the operations (RFC 6902) that change the fields of the status that differ.

    The operations of a JSON patch fail if a part of their path is absent. A decoded status does not show whether a
    field was absent or had its default, so only operations that work in both cases are used.
    """
    if before == _default(kind):
        return [{"op": "add", "path": "/status", "value": _decode(after) or {}}]  # the live object may have no status
    return list(_changes(_decode(before) or {}, _decode(after) or {}))


def _changes(before: JSONObject, after: JSONObject) -> JSONArray:
    operations: JSONArray = []
    for key in before.keys() - after.keys():
        place = pointer("status", key)
        operations += ({"op": "add", "path": place, "value": None}, {"op": "remove", "path": place})
    for key, value in after.items():
        if key not in before or not equal(before[key], value):
            operations.append({"op": "add", "path": pointer("status", key), "value": value})
    return operations


@cache
def _default(kind: type[Object]) -> bytes:
    """Return the status that a new object of the kind has in Python."""
    status = next(field for field in msgspec.structs.fields(kind) if field.name == "status")
    if status.default_factory is not msgspec.NODEFAULT:
        return encode(status.default_factory())
    return encode(None if status.default is msgspec.NODEFAULT else status.default)
