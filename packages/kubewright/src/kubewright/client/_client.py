"""The typed client: every verb of the API server on typed objects.

`await client.get(WebServer, "web", namespace="d")` is a `WebServer`. What kind is meant is a class, always: one that
was declared (`CustomResource`), a built-in one (`kubewright.apis`), the metadata of one (`PartialObjectMetadata.of`),
or one that is known only by name (`await mapper.kind("example.com/v1", "Foo")`, an `Unstructured`).

Guarantees
    A failure that the server reports is one of `machinery.errors`' APIErrors, with its Status.
    A list is one snapshot: it is fetched in pages, and begins anew when the server forgot its continue token.
    A request that could reach the wrong object is not sent: a namespace that is missing, or one too many, is a
    ConfigError.
Not guaranteed
    That a write which ended in ConnectionFailed or DeadlineExceeded did not happen.

Follows https://kubernetes.io/docs/reference/using-api/api-concepts/ and controller-runtime's client.Client.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, Literal, Self, TypeAlias, TypeVar, overload

import msgspec

from kubewright._runtime.clock import Clock, SystemClock
from kubewright.client._config import Config
from kubewright.client._dynamic import decode_object, encode_object
from kubewright.client._endpoint import Endpoint
from kubewright.client._lists import Fields, Labels, ObjectList, raw_page, raw_pages, selection
from kubewright.client._patch import Patch
from kubewright.client._rest import JSON, Query, RESTClient
from kubewright.client._subresource import Subresource
from kubewright.client._transport import HTTPTransport, Transport
from kubewright.client._warnings import LogOnce, WarningHandler
from kubewright.client._watch import Bookmark, WatchEvent
from kubewright.machinery.errors import ConfigError, Gone, NotFound
from kubewright.machinery.json import JSONObject
from kubewright.models import Object

T = TypeVar("T", bound=Object)

FieldValidation: TypeAlias = Literal["Strict", "Warn", "Ignore"]
"""What the server does about unknown and duplicate fields: refuse, warn, or drop them silently."""

Propagation: TypeAlias = Literal["Background", "Foreground", "Orphan"]
"""What becomes of the objects that a deleted one owns: deleted after it, before it, or left."""

_APPLY: Final = "application/apply-patch+yaml"


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
        clock: Clock | None = None,
    ) -> None:
        """A client of the server that `config` names, or of whatever answers behind a transport.

        `field_manager` owns the fields that this client writes. `field_validation` is what is asked for every write
        (the server's own default is Warn). `on_warning` gets each warning of the server; without it, each is logged
        once.
        """
        transport = HTTPTransport(config) if isinstance(config, Config) else config
        self.rest = RESTClient(transport, user_agent=user_agent, on_warning=on_warning or LogOnce())
        self.field_manager = field_manager
        self.clock: Clock = clock or SystemClock()
        self.field_validation: FieldValidation | None = field_validation
        self._endpoints: dict[type[Object], Endpoint] = {}

    async def __aenter__(self) -> Self:
        """Closed when the block ends."""
        return self

    async def __aexit__(self, *ended_by: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; what is under way on them fails."""
        await self.rest.close()

    def endpoint(self, kind: type[Object]) -> Endpoint:
        """Where `kind` is served."""
        endpoint = self._endpoints.get(kind)
        if endpoint is None:
            endpoint = self._endpoints[kind] = Endpoint(kind)
        return endpoint

    # ---- reading

    async def get(self, kind: type[T], name: str, *, namespace: str | None = None) -> T:
        """The object of that name. Raises NotFound."""
        endpoint = self.endpoint(kind)
        data = await self.rest.request("GET", endpoint.item(name, namespace), accept=endpoint.accept)
        return decode_object(kind, data)

    async def find(self, kind: type[T], name: str, *, namespace: str | None = None) -> T | None:
        """The object of that name, or None. Raises NotFound where the server does not have the kind."""
        try:
            return await self.get(kind, name, namespace=namespace)
        except NotFound as error:
            if error.kind_is_missing:
                raise
            return None

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
        try:
            return await self._list(kind, namespace, selection(labels, fields), page_size)
        except Gone:
            return await self._list(kind, namespace, selection(labels, fields), 0)

    async def _list(self, kind: type[T], namespace: str | None, query: Query, limit: int) -> ObjectList[T]:
        endpoint = self.endpoint(kind)
        found = ObjectList[T]()
        path = endpoint.collection(namespace)
        async for page in raw_pages(self.rest, path, query, limit=limit, accept=endpoint.accept_list):
            found.items.extend(decode_object(kind, bytes(item)) for item in page.items or ())
            found.resource_version = page.resource_version
        return found

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
        """One page of a list. Raises Gone when the token is too old: begin anew, or go on with what `list` gives."""
        endpoint = self.endpoint(kind)
        page = await raw_page(
            self.rest,
            endpoint.collection(namespace),
            selection(labels, fields),
            limit=limit,
            token=continue_token,
            accept=endpoint.accept_list,
        )
        items = [decode_object(kind, bytes(item)) for item in page.items or ()]
        return ObjectList(items, page.resource_version, page.continue_token)

    @overload
    def watch(
        self,
        kind: type[T],
        *,
        namespace: str | None = None,
        labels: Labels = None,
        fields: Fields = None,
        resource_version: str | None = None,
        send_initial_events: bool = False,
        bookmarks: Literal[False] = False,
        timeout: float | None = None,
    ) -> AsyncGenerator[WatchEvent[T], None]: ...
    @overload
    def watch(
        self,
        kind: type[T],
        *,
        namespace: str | None = None,
        labels: Labels = None,
        fields: Fields = None,
        resource_version: str | None = None,
        send_initial_events: bool = False,
        bookmarks: Literal[True],
        timeout: float | None = None,
    ) -> AsyncGenerator[WatchEvent[T] | Bookmark, None]: ...
    async def watch(
        self,
        kind: type[T],
        *,
        namespace: str | None = None,
        labels: Labels = None,
        fields: Fields = None,
        resource_version: str | None = None,
        send_initial_events: bool = False,
        bookmarks: bool = False,
        timeout: float | None = None,
    ) -> AsyncGenerator[WatchEvent[T] | Bookmark, None]:
        """Changes as they happen, until the server ends the stream or `timeout` seconds are over.

        From `resource_version` on; without one, what is there comes first, as ADDED. It is one stream and breaks as
        streams do; what keeps up with a kind for ever is an `Informer`. An ERROR from the server is raised as its
        APIError: Gone means that `resource_version` is too old. Close it (`contextlib.aclosing`) when you leave
        before its end.
        """
        endpoint = self.endpoint(kind)
        query: dict[str, str | None] = {
            **selection(labels, fields),
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true" if bookmarks else None,
            "timeoutSeconds": str(math.ceil(timeout)) if timeout is not None else None,
        }
        if send_initial_events:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        stream = self.rest.watch(endpoint.collection(namespace), query, accept=endpoint.accept)
        async with aclosing(stream) as batches:
            async for batch in batches:
                for event in batch:
                    if event.type == "ERROR":
                        raise event.error()
                    if event.type == "BOOKMARK":
                        if bookmarks:
                            yield event.bookmark()
                    else:
                        yield WatchEvent(event.type, decode_object(kind, bytes(event.object)))

    # ---- writing

    async def create(
        self,
        obj: T,
        *,
        dry_run: bool = False,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
    ) -> T:
        """Create `obj`, under a name of the server's making when it has only `generate_name`. Raises AlreadyExists,
        Invalid.
        """
        path = self.endpoint(type(obj)).place(obj.metadata.namespace)
        query = self._options(dry_run, field_manager, field_validation)
        return await self._write(type(obj), "POST", path, query, encode_object(obj))

    async def update(
        self,
        obj: T,
        *,
        subresource: str | None = None,
        dry_run: bool = False,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
    ) -> T:
        """Replace the object with `obj`; fields that its class does not know are kept as they were read.

        Raises Conflict when it changed since `obj` was read.
        """
        path = self._item_of(obj, subresource)
        query = self._options(dry_run, field_manager, field_validation)
        return await self._write(type(obj), "PUT", path, query, encode_object(obj, update=True))

    async def update_status(self, obj: T, *, dry_run: bool = False, field_manager: str | None = None) -> T:
        """Replace the status alone. Raises Conflict when the object changed since `obj` was read."""
        return await self.update(obj, subresource="status", dry_run=dry_run, field_manager=field_manager)

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
        if isinstance(target, type):
            kind, path = target, self.endpoint(target).item(name, namespace, subresource)
        else:
            kind, path = type(target), self._item_of(target, subresource)
        query = self._options(dry_run, field_manager, field_validation)
        return await self._write(kind, "PATCH", path, query, patch.encode(), patch.content_type)

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
        """Server-side apply: the object has what `obj` says, is created if need be, and loses what this manager said
        before.

        `obj` is made for this, with nothing in it but what is wanted. `force` takes fields over from other managers;
        without it they are a Conflict. `subresource="status"` applies the status. Source:
        https://kubernetes.io/docs/reference/using-api/server-side-apply/
        """
        if obj.metadata.managed_fields:
            raise ConfigError(
                f'{obj.kind} "{obj.metadata.name}": apply takes an object with only what you want to own, not one that '
                "was read (it has metadata.managedFields); make a new one, or send a patch"
            )
        query = self._options(dry_run, field_manager, field_validation)
        query["force"] = "true" if force else None
        return await self._apply(obj, subresource, query, encode_object(obj))

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

        Given an object that was read, only that one is deleted and not a namesake made since: its uid is a
        precondition. `grace_period` is in seconds. Raises NotFound, and Conflict when a precondition does not hold.
        """
        if not isinstance(target, type):
            name, namespace, uid = target.metadata.name, target.metadata.namespace, uid or target.metadata.uid
            target = type(target)
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options = _delete_options(propagation, grace_period, dry_run)
        options["preconditions"] = {key: value for key, value in preconditions.items() if value}
        await self._delete(target, name, namespace, options)

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
        path = self.endpoint(kind).place(namespace)
        options = _delete_options(propagation, grace_period, dry_run)
        await self._delete_all(kind, path, selection(labels, fields), options)

    def subresource(
        self, kind: type[Object], name: str, subresource: str, *, namespace: str | None = None
    ) -> Subresource:
        """A subresource that is of another kind than the object: `scale`, `eviction`, `binding`, `token`."""
        return Subresource(self.rest, self.endpoint(kind).item(name, namespace, subresource), self._options())

    def _item_of(self, obj: Object, subresource: str | None) -> str:
        return self.endpoint(type(obj)).item(obj.metadata.name, obj.metadata.namespace, subresource)

    def _options(
        self,
        dry_run: bool = False,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
    ) -> dict[str, str | None]:
        return {
            "dryRun": "All" if dry_run else None,
            "fieldManager": field_manager or self.field_manager,
            "fieldValidation": field_validation or self.field_validation,
        }

    async def _write(
        self, kind: type[T], method: str, path: str, query: Query, body: bytes, content_type: str = JSON
    ) -> T:
        """The way that every write of an object goes."""
        accept = self.endpoint(kind).accept
        data = await self.rest.request(method, path, query, body=body, content_type=content_type, accept=accept)
        obj = decode_object(kind, data)
        if not query["dryRun"]:
            self._written(method, path, obj)
        return obj

    def _written(self, method: str, path: str, obj: Object) -> None:
        """Told of every write of an object that was made, and of what the object at `path` is since."""

    async def _apply(self, obj: T, subresource: str | None, query: Query, body: bytes) -> T:
        """The way that every apply goes."""
        return await self._write(type(obj), "PATCH", self._item_of(obj, subresource), query, body, _APPLY)

    async def _delete(self, kind: type[Object], name: str, namespace: str | None, options: JSONObject) -> bytes:
        """The way that every deletion of one object goes."""
        path = self.endpoint(kind).item(name, namespace)
        return await self.rest.request("DELETE", path, body=msgspec.json.encode(options))

    async def _delete_all(self, kind: type[Object], path: str, query: Query, options: JSONObject) -> bytes:
        """The way that every deletion of many objects goes."""
        return await self.rest.request("DELETE", path, query, body=msgspec.json.encode(options))


def _delete_options(propagation: Propagation | None, grace_period: int | None, dry_run: bool) -> JSONObject:
    options: JSONObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if propagation is not None:
        options["propagationPolicy"] = propagation
    if grace_period is not None:
        options["gracePeriodSeconds"] = grace_period
    if dry_run:
        options["dryRun"] = ["All"]
    return options
