"""What a reconciler is handed: the object, and the means to bring the world in line with it."""

from __future__ import annotations

from typing import Generic, TypeVar

from kubewright.cache.client import CachedClient
from kubewright.client.client import Propagation
from kubewright.client.lists import Labels, ObjectList
from kubewright.client.patch import Patch
from kubewright.controller.events import EventRecorder
from kubewright.controller.log import StructuredLogger
from kubewright.controller.reconcile import Request
from kubewright.models import Model, Object

T = TypeVar("T", bound=Object)
U = TypeVar("U", bound=Object)


class Context(Generic[T]):
    """One reconcile of one object.

    Reads come from the cache and see what this process wrote. A namespace that is not given is the object's own, for
    kinds that have namespaces.
    """

    request: Request
    attempt: int
    """1 for a first try; one more for each failure in a row before it."""
    client: CachedClient
    """For what the methods here do not cover."""
    events: EventRecorder
    log: StructuredLogger
    """Carries the controller's and the object's name."""

    @property
    def object(self) -> T:
        """The object, fresh from the cache and the caller's own. Raises NotFound when it is gone (see `gone`)."""
        raise NotImplementedError

    @property
    def gone(self) -> bool:
        """The object does not exist any more. Only seen by controllers with `deleted=True`."""
        raise NotImplementedError

    async def get(self, kind: type[U], name: str, *, namespace: str | None = None) -> U:
        """The object of that name. Raises NotFound."""
        raise NotImplementedError

    async def list(
        self, kind: type[U], *, namespace: str | None = None, labels: Labels = None, owned: bool = False
    ) -> ObjectList[U]:
        """The objects of a kind that match. With `owned`, those alone whose controlling owner is this object.

        `namespace=""` is every namespace.
        """
        raise NotImplementedError

    async def create(self, obj: U) -> U:
        """Create a child (see `apply` on owners). Raises AlreadyExists, Invalid."""
        raise NotImplementedError

    async def apply(self, obj: U) -> U:
        """Bring `obj` about: created if need be, its fields set, fields no longer stated removed. Gives it as it then is.

        Server-side apply with force. An object of a kind in `owns` gets this object as its controlling owner.

        Guarantees
            Sends nothing when the cached object has every field stated here, with that value and owned by this
            program's field manager, and the manager owns no field beyond them.
        Not guaranteed
            That nothing is sent when the API server stores a value in another spelling than the one stated (`1000m`
            for `1`), or fills in defaults inside lists that it treats as one value: such an apply goes out once for
            each change of the object, and changes nothing.
        """
        raise NotImplementedError

    async def patch(self, target: U, patch: Patch, *, subresource: str | None = None) -> U:
        """Change `target` by a patch. Gives it as it then is. Raises NotFound, Conflict, Invalid."""
        raise NotImplementedError

    async def delete(self, target: Object, *, propagation: Propagation | None = None) -> None:
        """Delete `target`, that one and no namesake made since. One that is gone already is fine."""
        raise NotImplementedError

    async def update_status(self, status: Model) -> None:
        """Make `status` the object's status; sends nothing when it is already.

        The status as a whole is this controller's: a field that is left out of it is removed.
        """
        raise NotImplementedError
