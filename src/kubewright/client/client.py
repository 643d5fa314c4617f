"""The typed client: every verb of the API server on typed objects.

`await client.get(WebServer, "web", namespace="d")` is a `WebServer`. What kind is meant is a class, always: one that was
declared (`CustomResource`), a built-in one (`kubewright.apis`), the metadata of one (`PartialObjectMetadata.of`), or one that
is known only by name (`await mapper.kind("example.com/v1", "Foo")`, an `Unstructured`).

Guarantees
    A failure that the server reports is one of `machinery.errors`' APIErrors, with its Status.
    A list is one snapshot: it is fetched in pages, and begins anew when the server forgot its continue token.
    A request that could reach the wrong object is not sent: a namespace that is missing, or one too many, is a ConfigError.
Not guaranteed
    That a write which ended in ConnectionFailed or DeadlineExceeded did not happen.

Follows https://kubernetes.io/docs/reference/using-api/api-concepts/ and controller-runtime's client.Client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, overload

from kubewright.client.lists import Fields, Labels, ObjectList
from kubewright.client.patch import Patch
from kubewright.client.watch import WatchEvent
from kubewright.models import Object

if TYPE_CHECKING:
    from kubewright.client.config import Config
    from kubewright.client.transport import Transport

T = TypeVar("T", bound=Object)

FieldValidation: TypeAlias = Literal["Strict", "Warn", "Ignore"]
Propagation: TypeAlias = Literal["Background", "Foreground", "Orphan"]
WarningHandler: TypeAlias = Callable[[str], None]


class Client:
    """Reads and writes objects of any kind on one API server."""

    def __init__(
        self,
        config: Config | Transport,
        *,
        user_agent: str = "kubewright",
        field_manager: str = "kubewright",
        field_validation: FieldValidation | None = None,
        on_warning: WarningHandler | None = None,
    ) -> None:
        """A client of the server that `config` names, or of whatever answers behind a transport.

        `field_manager` owns the fields that this client writes. `field_validation` is what is asked for every write (the
        server's own default is Warn). `on_warning` gets each warning of the server; without it, each is logged once.
        """

    async def close(self) -> None: ...

    async def get(
        self, kind: type[T], name: str, *, namespace: str | None = None, resource_version: str | None = None
    ) -> T:
        """The object of that name. `resource_version="0"` accepts any age. Raises NotFound."""
        raise NotImplementedError

    async def list(
        self,
        kind: type[T],
        *,
        namespace: str | None = None,
        labels: Labels = None,
        fields: Fields = None,
        page_size: int = 500,
    ) -> ObjectList[T]:
        """All objects of a kind that match; of every namespace when none is given."""
        raise NotImplementedError

    async def list_page(
        self,
        kind: type[T],
        *,
        limit: int,
        continue_token: str = "",
        namespace: str | None = None,
        labels: Labels = None,
        fields: Fields = None,
    ) -> ObjectList[T]:
        """One page of a list. Raises Gone when the token is too old."""
        raise NotImplementedError

    def watch(
        self,
        kind: type[T],
        *,
        namespace: str | None = None,
        labels: Labels = None,
        fields: Fields = None,
        resource_version: str | None = None,
        send_initial_events: bool = False,
        bookmarks: bool = True,
        timeout: float | None = None,
    ) -> AsyncIterator[WatchEvent[T]]:
        """Changes as they happen, from `resource_version` on, until the server ends the stream or `timeout` seconds are over.

        It is one stream and breaks as streams do; what keeps up with a kind for ever is an `Informer`. An ERROR from the
        server is raised as its APIError.
        """
        raise NotImplementedError

    async def create(
        self,
        obj: T,
        *,
        dry_run: bool = False,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
    ) -> T:
        """Create `obj`, under a name of the server's making when it has only `generate_name`. Raises AlreadyExists, Invalid."""
        raise NotImplementedError

    async def update(
        self,
        obj: T,
        *,
        subresource: str | None = None,
        dry_run: bool = False,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
    ) -> T:
        """Replace the object with `obj`; fields that its type does not know are kept as they were read.

        Raises Conflict when it changed since `obj` was read.
        """
        raise NotImplementedError

    async def update_status(self, obj: T, *, dry_run: bool = False, field_manager: str | None = None) -> T:
        """Replace the status alone. Raises Conflict when the object changed since `obj` was read."""
        raise NotImplementedError

    @overload
    async def patch(
        self,
        target: T,
        patch: Patch,
        *,
        subresource: str | None = None,
        dry_run: bool = False,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
    ) -> T: ...
    @overload
    async def patch(
        self,
        target: type[T],
        patch: Patch,
        *,
        name: str,
        namespace: str | None = None,
        subresource: str | None = None,
        dry_run: bool = False,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
    ) -> T: ...
    async def patch(
        self,
        target: T | type[T],
        patch: Patch,
        *,
        name: str = "",
        namespace: str | None = None,
        subresource: str | None = None,
        dry_run: bool = False,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
    ) -> T:
        """Change an object, given itself or its kind and name. Gives it as it then is."""
        raise NotImplementedError

    async def apply(
        self,
        obj: T,
        *,
        force: bool = True,
        subresource: str | None = None,
        dry_run: bool = False,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
    ) -> T:
        """Server-side apply: the object has what `obj` says, is created if need be, and loses what this manager said before.

        `force` takes fields over from other managers; without it they are a Conflict. `subresource="status"` applies status.
        """
        raise NotImplementedError

    @overload
    async def delete(
        self,
        target: Object,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_period: int | None = None,
        dry_run: bool = False,
    ) -> None: ...
    @overload
    async def delete(
        self,
        target: type[Object],
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_period: int | None = None,
        dry_run: bool = False,
    ) -> None: ...
    async def delete(
        self,
        target: Object | type[Object],
        name: str = "",
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_period: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Ask for an object to be deleted; with finalizers or a grace period it is there for a while yet.

        Given an object that was read, only that one is deleted and not a namesake made since: its uid is a precondition.
        `grace_period` is in seconds. Raises NotFound, and Conflict when a precondition does not hold.
        """
        raise NotImplementedError

    async def delete_all_of(
        self,
        kind: type[Object],
        *,
        namespace: str | None = None,
        labels: Labels = None,
        fields: Fields = None,
        propagation: Propagation | None = None,
        grace_period: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete every object of a kind that matches, in one namespace."""
        raise NotImplementedError
