"""Writes as values: each write method of a `Client` creates a `WriteCall`, which a `Writer` executes.

`RESTWriter` sends calls to the API server. A writer that wraps another writer adds a check, a record or a shortcut. For
example, `kubewright.cache._client` skips applies that would change nothing. A client has one writer, so a check covers
every verb and subresource.

`Subresource` writes subresources that have a kind of their own:
https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-uris
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, Generic, Literal, Protocol, TypeAlias, TypedDict, TypeVar

import msgspec

from kubewright.client._dynamic import decode_object, encode_object
from kubewright.client._patch import Patch
from kubewright.client._rest import JSON, Query, RESTClient
from kubewright.machinery.errors import AlreadyExists, Conflict, StatusDetails
from kubewright.models import Object

T = TypeVar("T", bound=Object)

FieldValidation: TypeAlias = Literal["Strict", "Warn", "Ignore"]
"""What the server does with unknown and duplicate fields: reject the write, warn, or drop them silently."""

Propagation: TypeAlias = Literal["Background", "Foreground", "Orphan"]
"""What happens to the objects that a deleted object owns: deleted after it, before it, or kept."""

Verb: TypeAlias = Literal["create", "update", "patch", "apply", "delete", "deletecollection"]
"""The verb of a write. All except `apply` are RBAC verbs; an apply needs `patch`."""

APPLY: Final = "application/apply-patch+yaml"
"""The content type of an apply."""

_METHODS: Final[dict[Verb, str]] = {
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "apply": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}

_NEVER: Final = "1"
"""A resource version that no stored object has. The API server compares it with the version of an existing object, and
ignores it if an apply creates the object. So an apply with this version creates an object or fails with a Conflict.
"""


class WriteOptions(TypedDict, total=False):
    """Options that most writes take."""

    dry_run: bool
    """The server validates and answers the write, but stores nothing."""
    field_manager: str
    """The owner of the fields that are written; by default the client's."""
    field_validation: FieldValidation
    """What the server does with unknown and duplicate fields; by default the client's setting."""


class WriteCall(msgspec.Struct, Generic[T], gc=False, eq=False):
    """One write, before it is sent."""

    kind: type[Object]
    """The kind of the written object, even if the call is for a subresource."""
    answer_kind: type[T]
    """The kind of the answer: the object, or the kind of a subresource such as `scale` or `eviction`."""
    verb: Verb
    path: str
    query: Query
    body: bytes
    namespace: str | None = None
    name: str = ""
    """Name of the object; empty for a collection, and for a create with `generateName`."""
    subresource: str = ""
    content_type: str = JSON
    accept: str = JSON
    dry_run: bool = False
    uid: str = ""
    """Precondition of an apply: the uid of the object."""
    resource_version: str = ""
    """Precondition of an apply: the resource version of the object."""
    create_only: bool = False
    """The apply creates an object. If an object of that name exists, it raises AlreadyExists."""
    sent: object = None
    """The object in `body`, or the whole status that a patch leads to, if the caller knows it."""

    @property
    def method(self) -> str:
        """The method of the request."""
        return _METHODS[self.verb]

    @property
    def answers_object(self) -> bool:
        """Whether the answer is the object itself. This is also true for the subresource `status`."""
        return self.answer_kind is self.kind

    @property
    def is_eviction(self) -> bool:
        """Whether the call deletes a Pod through its subresource."""
        return self.subresource == "eviction" and self.verb == "create"

    @property
    def is_binding(self) -> bool:
        """Whether the call assigns a Pod to a node. The answer is a Status, which has no version."""
        return self.subresource == "binding" and self.verb == "create"


class Answer(Generic[T]):
    """The answer to a write. It is decoded at most once, when it is used."""

    __slots__ = ("_object", "data", "kind")

    def __init__(self, kind: type[T], data: bytes) -> None:
        self.kind = kind
        self.data = data
        """The document."""
        self._object: T | None = None

    def decode(self) -> T:
        """Return the object after the write. Writers share it with the caller and must not change it."""
        if self._object is None:
            self._object = decode_object(self.kind, self.data)
        return self._object


class Writer(Protocol):
    """Executes writes: sends them, or acts before or after another writer sends them.

    Most writers are an `async def`. A writer that only inspects the call returns the awaitable of the next writer,
    which saves a coroutine for each write. Writers with state are bound methods (`RESTWriter(rest).write`), because
    calling an object takes longer.
    """

    def __call__(self, call: WriteCall[T], /) -> Awaitable[Answer[T]]:
        """Execute `call`. Awaiting the result raises the error that the server answers."""
        ...


class RESTWriter:
    """Sends writes to an API server."""

    def __init__(self, rest: RESTClient) -> None:
        self._rest = rest

    async def write(self, call: WriteCall[T], /) -> Answer[T]:
        body = call.body
        if call.verb == "apply" and (call.uid or call.resource_version or call.create_only):
            body = _with_preconditions(call)
        try:
            data = await self._rest.request(
                _METHODS[call.verb],
                call.path,
                call.query,
                body=body,
                content_type=call.content_type,
                accept=call.accept,
            )
        except Conflict as error:
            if call.create_only and error.status.details is not None and error.status.details.name == call.name:
                raise _already_exists(call) from error
            raise
        return Answer(call.answer_kind, data)


def _with_preconditions(call: WriteCall[T]) -> bytes:
    """Return the body of an apply, with its preconditions at the beginning of the metadata."""
    version = _NEVER if call.create_only else call.resource_version
    added = b'"resourceVersion":"%s"' % version.encode() if version else b""
    if call.uid:
        added += b',"uid":"%s"' % call.uid.encode() if added else b'"uid":"%s"' % call.uid.encode()
    return call.body.replace(b'"metadata":{', b'"metadata":{' + added + b",", 1)


def _already_exists(call: WriteCall[T]) -> AlreadyExists:
    api = call.kind.__api__
    details = StatusDetails(name=call.name, group=api.group, kind=api.plural)
    return AlreadyExists(f'{api.gvr.qualified_resource} "{call.name}" already exists', details=details)


class DeletedMetadata(msgspec.Struct, gc=False, rename="camel"):
    """The metadata in the answer to a delete."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None


class _Details(msgspec.Struct, gc=False):
    uid: str = ""


class Deletion(msgspec.Struct, gc=False):
    """The answer to a delete: the terminating object, or a Status that names the deleted object."""

    metadata: DeletedMetadata = msgspec.field(default_factory=DeletedMetadata)
    details: _Details | None = None

    @property
    def uid(self) -> str:
        return self.details.uid if self.details else self.metadata.uid

    @property
    def version(self) -> int:
        return int(self.metadata.resource_version or 0)


class _DeletedList(msgspec.Struct, gc=False):
    items: list[Deletion] | None = None


# Created on import: msgspec cannot analyze the same class in two threads at the same time.
_decode_deletion: Final = msgspec.json.Decoder(Deletion).decode
_decode_deleted_list: Final = msgspec.json.Decoder(_DeletedList).decode


def deletions_of(call: WriteCall[T], answer: Answer[T]) -> list[Deletion]:
    """Return the objects that a `delete` or `deletecollection` call deleted, with their names and namespaces."""
    if call.verb == "deletecollection":
        return _decode_deleted_list(answer.data).items or []
    deletion = _decode_deletion(answer.data)
    deletion.metadata.name, deletion.metadata.namespace = call.name, call.namespace or ""
    return [deletion]


class _Answer(msgspec.Struct):
    kind: str = ""


class Subresource:
    """One subresource of one object. `Client.subresource` makes it, and its writes go through the client's writer."""

    def __init__(self, rest: RESTClient, writer: Writer, target: WriteCall[Object]) -> None:
        """`target` is a write of this subresource; what each write adds is its verb, body and answer."""
        self._rest = rest
        self._writer = writer
        self._target = target

    async def get(self, kind: type[T]) -> T:
        """Read the subresource, as the kind that it has (`Scale`)."""
        return decode_object(kind, await self._rest.request("GET", self._target.path))

    async def create(self, body: T, *, dry_run: bool = False) -> T | None:
        """Send `body` (`Eviction`, `Binding`, `TokenRequest`).

        Returns what the server answers, or None if the server only answers that the request was carried out.
        """
        answer = await self._writer(self._call("create", type(body), encode_object(body), JSON, dry_run))
        if msgspec.json.decode(answer.data, type=_Answer).kind == "Status":
            return None
        return answer.decode()

    async def update(self, body: T, *, dry_run: bool = False) -> T:
        """Replace the subresource. Raises Conflict if the object has changed since `body` was read."""
        document = encode_object(body, update=True)
        return (await self._writer(self._call("update", type(body), document, JSON, dry_run))).decode()

    async def patch(self, kind: type[T], patch: Patch, *, dry_run: bool = False) -> T:
        """Patch the subresource. Returns it as it is afterwards."""
        return (await self._writer(self._call("patch", kind, patch.encode(), patch.content_type, dry_run))).decode()

    def _call(self, verb: Verb, kind: type[T], body: bytes, content_type: str, dry_run: bool) -> WriteCall[T]:
        target = self._target
        return WriteCall(
            target.kind,
            kind,
            verb,
            target.path,
            {**target.query, "dryRun": "All" if dry_run else None},
            body,
            namespace=target.namespace,
            name=target.name,
            subresource=target.subresource,
            content_type=content_type,
            dry_run=dry_run,
        )
