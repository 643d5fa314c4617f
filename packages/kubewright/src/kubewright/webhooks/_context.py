"""What a webhook's function receives: the request, and the means to look further."""

from __future__ import annotations

import builtins
from typing import Generic, TypeVar

import msgspec

from kubewright._runtime.clock import Clock
from kubewright._runtime.log import StructuredLogger
from kubewright.cache._client import CachedClient
from kubewright.client._dynamic import decode_object
from kubewright.client._lists import Labels, ObjectList
from kubewright.controllers._context import resource_of
from kubewright.machinery.errors import BadRequest, ConfigError, DecodeError
from kubewright.machinery.json import JSONObject, read_object
from kubewright.models import Object
from kubewright.models._merge import encoded_fields
from kubewright.webhooks._review import AdmissionRequest, Operation, User, present

T = TypeVar("T", bound=Object)
U = TypeVar("U", bound=Object)
R = TypeVar("R")


class Undecodable(BadRequest):
    """An object of a review does not match its class."""


class BaseAdmissionContext:
    """One request that an API server asks about: see `AdmissionContext` and `RawAdmissionContext`."""

    __slots__ = ("_client", "_logger", "_options", "_resource", "audit_annotations", "request", "warnings")

    def __init__(
        self,
        request: AdmissionRequest,
        *,
        client: CachedClient | None,
        logger: StructuredLogger,
        resource: object = None,
    ) -> None:
        self.request = request
        """The request as it came."""
        self.warnings: list[str] = []
        """The warnings so far; `warn` adds one."""
        self.audit_annotations: dict[str, str] = {}
        """What is written to the audit log, each under the webhook's name and its key."""
        self._client = client
        self._logger = logger
        self._resource = resource
        self._options: JSONObject | None = None

    @property
    def operation(self) -> Operation:
        """What the user does: `CREATE`, `UPDATE`, `DELETE` or `CONNECT`."""
        return self.request.operation

    @property
    def subresource(self) -> str:
        """The subresource that the user writes, such as `status`; "" for the object itself."""
        return self.request.sub_resource

    @property
    def namespace(self) -> str:
        """The object's namespace; "" for a cluster-scoped kind."""
        return self.request.namespace

    @property
    def name(self) -> str:
        """The object's name; "" on a create with `generateName`."""
        return self.request.name

    @property
    def uid(self) -> str:
        """The identity of this review. Another call for the same write has another one."""
        return self.request.uid

    @property
    def user(self) -> User:
        """Who sent the request."""
        return self.request.user_info

    @property
    def dry_run(self) -> bool:
        """Whether nothing is stored. A webhook with side effects must then have none."""
        return bool(self.request.dry_run)

    @property
    def options(self) -> JSONObject:
        """The options of the write, such as CreateOptions; empty if there are none."""
        if self._options is None:
            data = present(self.request.options)
            self._options = read_object(data) if data is not None else {}
        return self._options

    @property
    def client(self) -> CachedClient:
        """A client that reads declared kinds from the cache, and other kinds from the API server.

        Raises ConfigError in a test that has none.
        """
        if self._client is None:
            raise ConfigError("this review has no client; in a test, pass one: review(..., client=cluster.client)")
        return self._client

    @property
    def log(self) -> StructuredLogger:
        """A logger that adds the names of the webhook and of the object to each line."""
        request = self.request
        return self._logger.bind(namespace=request.namespace or None, name=request.name, operation=request.operation)

    @property
    def clock(self) -> Clock:
        """The manager's clock: `ctx.clock.now()` returns the time, and a test can move it."""
        return self.client.clock

    def warn(self, text: str) -> None:
        """Show a warning to the user, whether the request is allowed or not. Keep it below 120 characters."""
        self.warnings.append(text)

    def resource(self, kind: type[R]) -> R:
        """Return what the manager's lifespan yielded, such as an HTTP session.

        Raises ConfigError if it is not a `kind`.
        """
        return resource_of(self._resource, kind)

    async def get(self, kind: type[U], name: str, *, namespace: str | None = None) -> U:
        """Return the object of that name, by default in the namespace of the request. Raises NotFound."""
        return await self.client.get(kind, name, namespace=self._namespace(kind, namespace))

    async def get_or_none(self, kind: type[U], name: str, *, namespace: str | None = None) -> U | None:
        """Return the object of that name, by default in the namespace of the request; None if it does not exist."""
        return await self.client.get_or_none(kind, name, namespace=self._namespace(kind, namespace))

    async def list(self, kind: type[U], *, namespace: str | None = None, labels: Labels = None) -> ObjectList[U]:
        """Return the objects of a kind that match, by default in the namespace of the request; "" means all."""
        return await self.client.list(kind, namespace=self._namespace(kind, namespace), labels=labels)

    def _namespace(self, kind: type[Object], given: str | None) -> str | None:
        if given is not None or not kind.__api__.namespaced:
            return given or None
        return self.request.namespace or None


class AdmissionContext(BaseAdmissionContext, Generic[T]):
    """One review of an object of a kind.

    Objects are decoded when they are used. If an object does not match its class, the request is denied with 400.
    """

    __slots__ = ("_kind", "_object", "_old", "_watched", "before")

    def __init__(
        self,
        kind: type[T],
        request: AdmissionRequest,
        *,
        client: CachedClient | None,
        logger: StructuredLogger,
        resource: builtins.object = None,
        watched: bool = False,
    ) -> None:
        """`watched`: remember how the object was, because its changes matter."""
        super().__init__(request, client=client, logger=logger, resource=resource)
        self._kind = kind
        self._object: T | None = None
        self._old: T | None = None
        self._watched = watched
        self.before: list[bytes] | None = None
        """The fields of the object as it was decoded; None if nothing used it, it was replaced, or is not watched."""

    @property
    def object(self) -> T:
        """The object that the user creates, updates or deletes, or the options of a connect.

        A defaulter changes it in place, or assigns another one. On a delete it is the object as it is stored.
        """
        found = self._object
        if found is None:
            request = self.request
            raw = request.old_object if request.operation == "DELETE" else request.object
            found = self._object = self._decode(raw, "object")
            if self._watched:
                self.before = encoded_fields(found)
        return found

    @object.setter
    def object(self, value: T) -> None:
        self._object = value
        self.before = None

    @property
    def old_object(self) -> T | None:
        """The object as it is stored, on an update and a delete; otherwise None."""
        if self.request.operation == "DELETE":
            return self.object
        if self._old is None and present(self.request.old_object) is not None:
            self._old = self._decode(self.request.old_object, "oldObject")
        return self._old

    @property
    def used_object(self) -> T | None:
        """The object, if something has used it."""
        return self._object

    def _decode(self, raw: msgspec.Raw, field: str) -> T:
        data = present(raw)
        if data is None:
            raise Undecodable(f"the AdmissionReview has no {field}, which a review of {self.operation} needs")
        try:
            return decode_object(self._kind, data)
        except DecodeError as error:
            raise Undecodable(f"{field}: {error}") from error


class RawAdmissionContext(BaseAdmissionContext):
    """One review as plain JSON, for webhooks that take any kind."""

    __slots__ = ()

    @property
    def object(self) -> JSONObject | None:
        """The object that the user writes, or the options of a connect; None on a delete."""
        return _document(self.request.object)

    @property
    def old_object(self) -> JSONObject | None:
        """The object as it is stored, on an update and a delete; otherwise None."""
        return _document(self.request.old_object)


def _document(raw: msgspec.Raw) -> JSONObject | None:
    data = present(raw)
    if data is None:
        return None
    try:
        return read_object(data)
    except msgspec.DecodeError as error:
        raise Undecodable(f"not a JSON object: {error}") from error
