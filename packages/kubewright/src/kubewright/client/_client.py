"""The typed client: every verb of the API server on typed objects.

`await client.get(WebServer, "web", namespace="d")` returns a `WebServer`. A kind is always a class: a declared one
(`CustomResource`), a built-in one (`kubewright.apis`), the metadata of one (`PartialObjectMetadata.of`), or a class for
a kind known only by name (`await mapper.kind("example.com/v1", "Foo")`, an `Unstructured`).

Guarantees
    A failure that the server reports is an APIError of `machinery.errors`, with its Status.
    A list is one snapshot. It is fetched in pages, and again from the start if the server forgot its continue token.
    A request that could reach the wrong object is not sent: a missing or superfluous namespace is a ConfigError.
Not guaranteed
    That a write which ended in ConnectionFailed or DeadlineExceeded did not happen.

Follows https://kubernetes.io/docs/reference/using-api/api-concepts/ and controller-runtime's client.Client.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import datetime
from functools import lru_cache
from typing import Final, Literal, Self, TypeVar, Unpack, overload

import msgspec

from kubewright._runtime.clock import Clock, SystemClock
from kubewright.client._config import Config
from kubewright.client._dynamic import decode_object, encode_object
from kubewright.client._exec import OUTPUT_LIMIT, ExecResult, exec_query, run_command
from kubewright.client._lists import Fields, Labels, ObjectList, raw_page, raw_pages, selection
from kubewright.client._logs import lines_of, log_query
from kubewright.client._patch import Patch
from kubewright.client._rest import (
    ANY,
    JSON,
    Bookmark,
    Endpoint,
    FixedQuery,
    LogOnce,
    Query,
    RESTClient,
    WarningHandler,
    WatchEvent,
)
from kubewright.client._transport import HTTPTransport, Transport
from kubewright.client._wait import until_gone, until_met
from kubewright.client._write import (
    APPLY,
    FieldValidation,
    Propagation,
    RESTWriter,
    Subresource,
    Verb,
    WriteCall,
    WriteOptions,
    Writer,
)
from kubewright.machinery.errors import (
    CommandFailed,
    ConfigError,
    ConnectionFailed,
    DeadlineExceeded,
    Gone,
    NotFound,
)
from kubewright.machinery.json import JSONObject
from kubewright.machinery.time import Seconds, seconds
from kubewright.models import Object

T = TypeVar("T", bound=Object)

_PAUSE: Final = 1.0
"""Seconds before `wait_for` starts a broken watch again."""


class Client:
    """Reads and writes objects of any kind on one API server."""

    def __init__(
        self,
        config: Config | None = None,
        *,
        transport: Transport | None = None,
        user_agent: str = "kubewright",
        field_manager: str = "kubewright",
        field_validation: FieldValidation | None = None,
        on_warning: WarningHandler | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Connect to the server that `config` names, or send requests through `transport`. Pass one of the two.

        `field_manager` owns the fields that this client writes. `field_validation` is the default of all writes; the
        server's own default is Warn. `on_warning` is called with each warning of the server; without it, each warning
        is logged once.
        """
        if transport is None and isinstance(config, Config):
            transport = HTTPTransport(config)
        elif transport is None or config is not None:
            raise ConfigError("a Client takes either a Config or transport=; for example Client(Config.load())")
        self.rest = RESTClient(transport, user_agent=user_agent, on_warning=on_warning or LogOnce())
        self.field_manager = field_manager
        self.clock: Clock = clock or SystemClock()
        self.field_validation: FieldValidation | None = field_validation
        self.writer: Writer = RESTWriter(self.rest).write
        """Executes every write of this client."""
        self._endpoints: dict[type[Object], Endpoint] = {}

    async def __aenter__(self) -> Self:
        """Return the client. It is closed when the block ends."""
        return self

    async def __aexit__(self, *ended_by: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections. Requests in progress fail."""
        await self.rest.close()

    def endpoint(self, kind: type[Object]) -> Endpoint:
        """Return the endpoint of `kind`."""
        endpoint = self._endpoints.get(kind)
        if endpoint is None:
            endpoint = self._endpoints[kind] = Endpoint(kind)
        return endpoint

    # ---- reading

    async def get(self, kind: type[T], name: str, *, namespace: str | None = None) -> T:
        """Return the object of that name. Raises NotFound."""
        endpoint = self.endpoint(kind)
        data = await self.rest.request("GET", endpoint.item(name, namespace), accept=endpoint.accept)
        return decode_object(kind, data)

    async def get_or_none(self, kind: type[T], name: str, *, namespace: str | None = None) -> T | None:
        """Return the object of that name, or None. Raises NotFound if the server does not have the kind."""
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
        """Return all objects of a kind that match, in one namespace or, by default, in all."""
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
        """Return one page of a list. Raises Gone if the token is too old: then start again, or use `list`."""
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
        timeout: Seconds | None = None,
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
        timeout: Seconds | None = None,
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
        timeout: Seconds | None = None,
    ) -> AsyncGenerator[WatchEvent[T] | Bookmark, None]:
        """Yield changes until the server ends the stream or `timeout` is over.

        Yields the changes after `resource_version`. Without it, the existing objects come first, as ADDED. This is a
        single stream and may break at any time; use an `Informer` to follow a kind indefinitely. An ERROR from the
        server is raised as its APIError: Gone means that `resource_version` is too old. Close the stream
        (`contextlib.aclosing`) if you leave before its end.
        """
        endpoint = self.endpoint(kind)
        query: dict[str, str | None] = {
            **selection(labels, fields),
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true" if bookmarks else None,
            "timeoutSeconds": str(math.ceil(seconds(timeout))) if timeout is not None else None,
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

    async def wait_for(
        self,
        kind: type[T],
        name: str,
        condition: Callable[[T], bool],
        *,
        namespace: str | None = None,
        timeout: Seconds = 60.0,
    ) -> T:
        """Wait until an object of that name exists and meets `condition`, and return it.

        `condition` is any function of the object; `has_condition("Available")` returns one. A broken watch is started
        again. Raises DeadlineExceeded after `timeout`, and the APIError of a request that the server rejects, for
        example because the kind is not installed.
        """
        states = self._states(kind, name, namespace)
        return await until_met(states, f'{kind.__api__.kind} "{name}"', condition, timeout)

    async def wait_until_gone(
        self,
        kind: type[Object],
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        timeout: Seconds = 60.0,
    ) -> None:
        """Wait until no object of that name exists, or only one with another uid than `uid`.

        Raises the errors of `wait_for`.
        """
        await until_gone(self._states(kind, name, namespace), f'{kind.__api__.kind} "{name}"', uid, timeout)

    async def _states(self, kind: type[T], name: str, namespace: str | None) -> AsyncGenerator[T | None, None]:
        self.endpoint(kind).check(name, namespace)  # raises ConfigError for a missing name or namespace
        selected = {"metadata.name": name}
        while True:
            try:
                found = await self.list(kind, namespace=namespace, fields=selected)
                yield found.items[0] if found else None
                changes = self.watch(
                    kind, namespace=namespace, fields=selected, resource_version=found.resource_version
                )
                async with aclosing(changes) as events:
                    async for event in events:
                        yield None if event.type == "DELETED" else event.object
            except (Gone, ConnectionFailed, DeadlineExceeded):
                await self.clock.sleep(_PAUSE)

    async def logs(
        self,
        pod: str,
        *,
        namespace: str,
        container: str | None = None,
        previous: bool = False,
        follow: bool = False,
        since: Seconds | datetime | None = None,
        tail_lines: int | None = None,
        limit_bytes: int | None = None,
        timestamps: bool = False,
    ) -> AsyncGenerator[str, None]:
        """Yield the lines of a container's log, without line breaks. Bytes that are not UTF-8 are replaced.

        `container` is needed only if the Pod has several. `previous` reads the log of the container before its last
        restart. `follow` continues until the container ends, however long it is silent. `since` is a time, or a
        duration before now. `tail_lines` and `limit_bytes` limit the log, and `timestamps` puts a time before each
        line. A line of more than 16 MiB is yielded in parts.

        This is a single stream and may break with ConnectionFailed; continue with `since`. Close it
        (`contextlib.aclosing`) if you leave before its end. Raises NotFound, and BadRequest if the container has not
        started or must be named.
        """
        from kubewright.apis.core.v1 import Pod  # loads all of core/v1

        query = log_query(
            container=container,
            previous=previous,
            follow=follow,
            since=since,
            tail_lines=tail_lines,
            limit_bytes=limit_bytes,
            timestamps=timestamps,
        )
        stream = self.rest.stream(self.endpoint(Pod).item(pod, namespace, "log"), query, accept=ANY)
        async with aclosing(lines_of(stream)) as lines:
            async for line in lines:
                yield line

    async def exec(
        self,
        pod: str,
        command: Sequence[str],
        *,
        namespace: str,
        container: str | None = None,
        stdin: bytes | None = None,
        limit: int = OUTPUT_LIMIT,
        timeout: Seconds = 60.0,
        check: bool = True,
    ) -> ExecResult:
        """Run a command in a container of a running Pod, and return its output and exit code.

        `command` is run without a shell: `["sh", "-c", "ls /data | wc -l"]` runs one. `container` is needed only if the
        Pod has several. `stdin` is the whole input of the command; without it, there is none. `limit` is the largest
        output in bytes.

        Raises CommandFailed if the command fails (not with `check=False`), cannot be started or writes too much;
        DeadlineExceeded after `timeout`, when the server ends the command; ConnectionFailed if the connection breaks,
        after which nobody knows whether it ran; and NotFound, Forbidden and BadRequest. It is never run twice.
        """
        from kubewright.apis.core.v1 import Pod  # loads all of core/v1

        where, allowed = f"{command[0]} in Pod {namespace}/{pod}", seconds(timeout)
        target = self.endpoint(Pod).item(pod, namespace, "exec")
        target = f"{target}?{exec_query(command, container, stdin=stdin is not None)}"
        try:
            async with asyncio.timeout(allowed):
                result = await run_command(self.rest, target, where, stdin, limit)
        except TimeoutError as error:
            if isinstance(error, DeadlineExceeded):
                raise
            raise DeadlineExceeded(f"{where}: it did not end within {allowed:g} s; raise `timeout`") from error
        if check and result.exit_code != 0:
            said = result.stderr.decode(errors="replace").strip()
            raise CommandFailed(
                f"{where} ended with exit code {result.exit_code}{said and f': {said}'}",
                exit_code=result.exit_code,
                stdout=result.stdout,
                stderr=result.stderr,
            )
        return result

    # ---- writing

    async def create(self, obj: T, **options: Unpack[WriteOptions]) -> T:
        """Create `obj`. With only a `generate_name`, the server makes the name. Raises AlreadyExists, Invalid."""
        return (await self.writer(self._call_for(obj, "create", None, encode_object(obj), options))).decode()

    async def update(self, obj: T, *, subresource: str | None = None, **options: Unpack[WriteOptions]) -> T:
        """Replace the object with `obj`. Fields that its class does not know keep the values that were read.

        Raises Conflict if the object has changed since `obj` was read.
        """
        body = encode_object(obj, update=True)
        return (await self.writer(self._call_for(obj, "update", subresource, body, options))).decode()

    async def update_status(self, obj: T, **options: Unpack[WriteOptions]) -> T:
        """Replace only the status. Raises Conflict if the object has changed since `obj` was read."""
        return await self.update(obj, subresource="status", **options)

    @overload
    async def patch(
        self, target: T, patch: Patch, *, subresource: str | None = None, **options: Unpack[WriteOptions]
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
        **options: Unpack[WriteOptions],
    ) -> T: ...
    async def patch(
        self,
        target: T | type[T],
        patch: Patch,
        *,
        name: str = "",
        namespace: str | None = None,
        subresource: str | None = None,
        **options: Unpack[WriteOptions],
    ) -> T:
        """Patch an object, given either the object or its kind and name. Returns the updated object."""
        if not isinstance(target, type):
            name, namespace, target = target.metadata.name, target.metadata.namespace, type(target)
        return (await self.writer(self._patch_call(target, patch, name, namespace, subresource, options))).decode()

    async def apply(
        self,
        obj: T,
        *,
        force: bool = True,
        subresource: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        create_only: bool = False,
        **options: Unpack[WriteOptions],
    ) -> T:
        """Server-side apply: set the fields that `obj` states, and remove those that this manager stated before.

        The object is created if it does not exist. Make `obj` for this call, with only the fields that you want.
        `force` takes fields over from other managers; without it, their fields are a Conflict. `subresource="status"`
        applies the status.

        `uid` and `resource_version` are preconditions: the apply is for that object at that version, and for no newer
        object of the same name. If they do not hold, Conflict or Invalid is raised, and nothing is created. With
        `create_only` the object is created, or AlreadyExists is raised.

        Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/
        """
        body = encode_object(obj)
        if obj.metadata.managed_fields:
            raise ConfigError(
                f'{obj.kind} "{obj.metadata.name}": apply takes an object with only the fields that you want to own, '
                "but this one was read from the server (it has metadata.managedFields); make a new one, or send a patch"
            )
        if create_only and (subresource or uid or resource_version):
            raise ConfigError(
                f'{obj.kind} "{obj.metadata.name}": create_only cannot be combined with subresource, uid or '
                "resource_version; leave them out"
            )
        meta = obj.metadata
        call = self._call("apply", type(obj), meta.name, meta.namespace, subresource, body, options, APPLY, force)
        call.sent = obj
        call.uid, call.resource_version, call.create_only = uid or "", resource_version or "", create_only
        return (await self.writer(call)).decode()

    @overload
    async def delete(
        self,
        target: Object,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_period: Seconds | None = None,
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
        grace_period: Seconds | None = None,
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
        grace_period: Seconds | None = None,
        dry_run: bool = False,
    ) -> None:
        """Request the deletion of an object. Finalizers or a grace period may keep it for a while.

        Given an object that was read, only that object is deleted, and not a newer one of the same name: its uid is a
        precondition. Raises NotFound, and Conflict if a precondition does not hold.
        """
        if not isinstance(target, type):
            name, namespace, uid = target.metadata.name, target.metadata.namespace, uid or target.metadata.uid
            target = type(target)
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        document = _delete_options(propagation, grace_period, dry_run)
        document["preconditions"] = {key: value for key, value in preconditions.items() if value}
        call = WriteCall(
            target,
            target,
            "delete",
            self.endpoint(target).item(name, namespace),
            {},
            msgspec.json.encode(document),
            namespace=namespace or None,
            name=name,
            dry_run=dry_run,
        )
        await self.writer(call)

    async def delete_all_of(
        self,
        kind: type[Object],
        *,
        namespace: str | None = None,
        labels: Labels = None,
        fields: Fields = None,
        propagation: Propagation | None = None,
        grace_period: Seconds | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete every object of a kind that matches, in one namespace."""
        document = _delete_options(propagation, grace_period, dry_run)
        call = WriteCall(
            kind,
            kind,
            "deletecollection",
            self.endpoint(kind).place(namespace),
            selection(labels, fields),
            msgspec.json.encode(document),
            namespace=namespace or None,
            dry_run=dry_run,
        )
        await self.writer(call)

    def subresource(
        self, kind: type[Object], name: str, subresource: str, *, namespace: str | None = None
    ) -> Subresource:
        """Return a subresource that has a kind of its own: `scale`, `eviction`, `binding`, `token`."""
        return Subresource(self.rest, self.writer, self._call("patch", kind, name, namespace, subresource, b"", {}))

    def _call_for(
        self, obj: T, verb: Verb, subresource: str | None, body: bytes, options: WriteOptions
    ) -> WriteCall[T]:
        meta = obj.metadata
        call = self._call(verb, type(obj), meta.name, meta.namespace, subresource, body, options)
        call.sent = obj
        return call

    def _patch_call(
        self,
        kind: type[T],
        patch: Patch,
        name: str,
        namespace: str | None,
        subresource: str | None,
        options: WriteOptions,
    ) -> WriteCall[T]:
        body, content_type = patch.encode(), patch.content_type
        return self._call("patch", kind, name, namespace, subresource, body, options, content_type)

    def _call(
        self,
        verb: Verb,
        kind: type[T],
        name: str,
        namespace: str | None,
        subresource: str | None,
        body: bytes,
        options: WriteOptions,
        content_type: str = JSON,
        force: bool = False,
    ) -> WriteCall[T]:
        endpoint = self.endpoint(kind)
        path = endpoint.place(namespace) if verb == "create" else endpoint.item(name, namespace, subresource)
        dry_run = options.get("dry_run", False)
        query = _write_query(
            dry_run,
            options.get("field_manager") or self.field_manager,
            options.get("field_validation") or self.field_validation,
            force,
        )
        return WriteCall(
            kind,
            kind,
            verb,
            path,
            query,
            body,
            namespace or None,
            name,
            subresource or "",
            content_type,
            endpoint.accept,
            dry_run,
        )


def status_call(client: Client, obj: T, patch: Patch, status: object) -> WriteCall[T]:
    """Return the patch that makes `status` the status of `obj`, for the parts of Kubewright that write."""
    meta = obj.metadata
    call = client._patch_call(type(obj), patch, meta.name, meta.namespace, "status", {})
    call.sent = status
    return call


@lru_cache(maxsize=64)
def _write_query(
    dry_run: bool, field_manager: str, field_validation: FieldValidation | None, force: bool
) -> FixedQuery:
    return FixedQuery(
        {
            "dryRun": "All" if dry_run else None,
            "fieldManager": field_manager,
            "fieldValidation": field_validation,
            "force": "true" if force else None,
        }
    )


def _delete_options(propagation: Propagation | None, grace_period: Seconds | None, dry_run: bool) -> JSONObject:
    options: JSONObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if propagation is not None:
        options["propagationPolicy"] = propagation
    if grace_period is not None:
        options["gracePeriodSeconds"] = math.ceil(seconds(grace_period))
    if dry_run:
        options["dryRun"] = ["All"]
    return options
