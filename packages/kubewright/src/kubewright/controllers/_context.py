"""What a reconciler receives: the object, and the means to act on it."""

from __future__ import annotations

from typing import Generic, TypeVar

from kubewright._runtime.clock import Clock
from kubewright._runtime.log import StructuredLogger
from kubewright.cache._client import CachedClient
from kubewright.client._dynamic import check_is_object
from kubewright.client._lists import Labels, ObjectList
from kubewright.client._patch import Patch
from kubewright.client._write import Propagation
from kubewright.controllers._owner_references import apply_child, is_controlled_by, set_controller_reference
from kubewright.controllers._patches import guarded_patch, status_patch, test
from kubewright.controllers._types import EventRecorder, Request
from kubewright.machinery.errors import ConfigError, NotFound
from kubewright.models import Object, Struct
from kubewright.models._values import encode

T = TypeVar("T", bound=Object)
U = TypeVar("U", bound=Object)
R = TypeVar("R")


class BaseContext(Generic[T]):
    """What a reconciler can use with and without an object: see `Context` and `DeletedContext`."""

    __slots__ = ("_kind", "_logger", "_resource", "attempt", "client", "events", "is_last_attempt", "request")

    def __init__(
        self,
        kind: type[T],
        request: Request,
        *,
        attempt: int,
        is_last_attempt: bool,
        client: CachedClient,
        events: EventRecorder,
        logger: StructuredLogger,
        resource: object = None,
    ) -> None:
        self.request = request
        """The namespace and name of the object."""
        self.attempt = attempt
        """1 for the first attempt, plus one for each failure in a row before it."""
        self.is_last_attempt = is_last_attempt
        """Whether a failure of this attempt is not retried (`Backoff.attempts`). Then report it in the status."""
        self.client = client
        """A client for everything that the methods of the context do not do."""
        self.events = events
        """Records Kubernetes Events for the users of an object; `kubectl describe` shows them."""
        self._kind = kind
        self._logger = logger
        self._resource = resource

    @property
    def log(self) -> StructuredLogger:
        """A logger that adds the names of the controller and of the object to each line."""
        return self._logger.bind(namespace=self.request.namespace, name=self.request.name)

    @property
    def clock(self) -> Clock:
        """The manager's clock: `ctx.clock.now()` returns the time, and a test can move it."""
        return self.client.clock

    def resource(self, kind: type[R]) -> R:
        """Return what the manager's lifespan yielded, such as an HTTP session.

        Raises ConfigError if it is not a `kind`.

            http = ctx.resource(httpx.AsyncClient)
        """
        return resource_of(self._resource, kind)

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

    __slots__ = ("_owns", "_status", "_version", "object")

    def __init__(
        self,
        kind: type[T],
        request: Request,
        obj: T,
        *,
        attempt: int,
        is_last_attempt: bool,
        owns: frozenset[type[Object]],
        client: CachedClient,
        events: EventRecorder,
        logger: StructuredLogger,
        resource: object = None,
    ) -> None:
        super().__init__(
            kind,
            request,
            attempt=attempt,
            is_last_attempt=is_last_attempt,
            client=client,
            events=events,
            logger=logger,
            resource=resource,
        )
        self.object = obj
        """The object, freshly decoded from the cache. The reconciler may change it."""
        self._owns = owns
        self._version = obj.metadata.resource_version
        """The resource version of the object as it was read, or after the last write of its status."""
        self._status = b"null"
        """The status on the server. The reconciler may change `object.status`."""
        if "status" in kind.__api__.subresources:
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
        if "status" not in self._kind.__api__.subresources:
            raise ConfigError(
                f"{self._kind.__name__} has no status subresource: a CustomResource with a field `status` has one; use "
                "a patch for the status of any other kind"
            )
        wanted = encode(status)
        if wanted == self._status:
            return
        changes = status_patch(self._kind, self._status, wanted)
        if if_unchanged:
            changes.insert(0, test("/metadata/resourceVersion", self._version))
        written = await guarded_patch(self.client, self.object, changes, subresource="status")
        self._status, self._version = wanted, written.metadata.resource_version

    def _adopt(self, obj: Object) -> None:
        check_is_object(obj)
        meta = obj.metadata
        if not meta.namespace and self.request.namespace and obj.__api__.namespaced:
            meta.namespace = self.request.namespace
        if type(obj) in self._owns:
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
