"""Conversion of custom resources between the versions of their definition.

With the strategy None, versions differ in their apiVersion and schema only. With the strategy Webhook, a program
converts: `WebhookConverter` asks it. An object is stored in the version that was the storage version when it was
written last, and is converted when it is read. What a webhook may not change is restored, and its answers are pruned
and defaulted like any other document.

Follows k8s.io/apiextensions-apiserver pkg/apiserver/conversion (webhook_converter.go, converter.go).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from kubewright.machinery import names
from kubewright.machinery.errors import DecodeError, InternalError, RequestTooLarge
from kubewright.machinery.fields import FieldError
from kubewright.machinery.gvk import GroupVersion
from kubewright.machinery.json import JSONObject, is_array, is_object, read_object
from kubewright_controlplane.apiserver.endpoints.body import check_nesting
from kubewright_controlplane.apiserver.registry.checks import named
from kubewright_controlplane.apiserver.registry.conversions import convert
from kubewright_controlplane.apiserver.registry.model import Convert
from kubewright_controlplane.apiserver.webhooks.client import CallFailed, WebhookClients
from kubewright_controlplane.apiserver.webhooks.validation import REVIEW_VERSIONS
from kubewright_controlplane.schema.structural.schema import Schema

_GROUP: Final = "apiextensions.k8s.io"

_TIMEOUT: Final = 30
_MAX_REVIEW: Final = 4 << 20
"""Bytes of the objects in a review, so that the answer fits into the limit of the client."""
_IDENTITY: Final = (("name", "name"), ("namespace", "namespace"), ("UID", "uid"))
_FROM_WEBHOOK: Final = ("labels", "annotations")

LoadSchema = Callable[[], Schema]


def declared_converter(api_version: str, load_schema: LoadSchema, *, defaults: bool) -> Convert:
    """Return the conversion to a version for the strategy None: it sets apiVersion and prunes.

    What is stored gets `defaults`, too. An object that is read in another version has no defaults of that version.
    """

    def to_version(source: JSONObject) -> JSONObject:
        obj = {**source, "apiVersion": api_version}
        schema = load_schema()
        schema.prune(obj)
        if defaults:
            schema.default(obj)
        return obj

    return to_version


class WebhookConverter:
    """The strategy Webhook of one definition."""

    def __init__(self, crd: JSONObject, clients: WebhookClients, schemas: Mapping[str, LoadSchema]) -> None:
        """`schemas` are those of the definition's versions, by apiVersion."""
        spec = crd["spec"]
        self._schemas = schemas
        webhook = spec["conversion"]["webhook"]
        self._kind: str = spec["names"]["kind"]
        self._client_config: JSONObject = webhook["clientConfig"]
        self._review_version = next(each for each in webhook["conversionReviewVersions"] if each in REVIEW_VERSIONS)
        self._clients = clients
        self._running: dict[bytes, asyncio.Task[list[JSONObject]]] = {}

    def in_version(self, obj: JSONObject, api_version: str) -> tuple[JSONObject, Schema] | None:
        """Return an object in another version, and its schema; None if the version no longer exists."""
        if api_version not in self._schemas:
            return None
        return self.to(api_version)(obj), self._schemas[api_version]()

    def to(self, api_version: str) -> Convert:
        """Return the conversion of any version to this one, for steps that `settle` runs."""
        load_schema = self._schemas[api_version]

        def to_version(source: JSONObject) -> JSONObject:
            obj = source
            if source.get("apiVersion") != api_version:
                answer = convert(self, source, api_version)
                own = read_object(msgspec.json.encode(answer))  # four times faster than a deep copy
                obj = {**own, "metadata": _restored(source["metadata"], own["metadata"])}
            return _conformed(obj, load_schema())

        return to_version

    async def convert(self, objects: Sequence[JSONObject], api_version: str) -> list[JSONObject]:
        """Ask the webhook for objects in another version, with one call for each `_MAX_REVIEW` bytes.

        Callers that ask the same at the same time, such as watches of one event, share a call. A call continues if one
        of them is cancelled, as in a real API server. Raises InternalError.
        """
        encoded = [*map(msgspec.json.encode, objects)]
        key = b"\n".join((api_version.encode(), *encoded))
        task = self._running.get(key)
        if task is None:
            asked = self._ask_in_turn(objects, encoded, api_version)
            task = self._running[key] = asyncio.create_task(asked, name="convert")
            task.add_done_callback(lambda done: self._finish(key, done))
        return await asyncio.shield(task)

    def _finish(self, key: bytes, done: asyncio.Task[list[JSONObject]]) -> None:
        """Forget a call. Its failure is retrieved here, because all its callers may have been cancelled."""
        self._running.pop(key, None)
        if not done.cancelled():
            done.exception()

    async def _ask_in_turn(
        self, objects: Sequence[JSONObject], encoded: Sequence[bytes], api_version: str
    ) -> list[JSONObject]:
        converted: list[JSONObject] = []
        for part in _parts(encoded):
            converted += await self._ask(objects[part], encoded[part], api_version)
        return converted

    async def _ask(self, objects: Sequence[JSONObject], encoded: Sequence[bytes], api_version: str) -> list[JSONObject]:
        uid = str(uuid.uuid4())
        request = {"uid": uid, "desiredAPIVersion": api_version, "objects": [*map(msgspec.Raw, encoded)]}
        review = {"kind": "ConversionReview", "apiVersion": f"{_GROUP}/{self._review_version}", "request": request}
        source = _kind_text(objects[0])
        try:
            answer = await self._clients.call(self._client_config, _TIMEOUT, msgspec.json.encode(review))
        except CallFailed as error:
            raise _failed(source, f"failed: {error}") from error

        def read() -> list[JSONObject]:
            return _read_answer(answer, uid, self._review_version, objects, api_version)

        return await self._clients.steps(f"for {source}", len(answer)).run(read)


def _parts(encoded: Sequence[bytes]) -> Iterator[slice]:
    """Yield the parts of a list that are sent with one review. A larger object has a part of its own."""
    start = size = 0
    for index, each in enumerate(encoded):
        if index > start and size + len(each) > _MAX_REVIEW:
            yield slice(start, index)
            start, size = index, 0
        size += len(each)
    yield slice(start, len(encoded))


def _read_answer(
    answer: bytes, uid: str, version: str, objects: Sequence[JSONObject], api_version: str
) -> list[JSONObject]:
    """Return the converted objects of an answer. Raises InternalError if they are not what was asked for."""
    source = _kind_text(objects[0])
    try:
        converted = _converted_objects(answer, uid, version)
    except CallFailed as error:
        raise _failed(source, f"failed: {error}") from error
    if len(converted) != len(objects):
        raise _failed(source, f"returned {len(converted)} objects, expected {len(objects)}")
    return [
        _checked(index, given, found, api_version)
        for index, (given, found) in enumerate(zip(objects, converted, strict=True))
    ]


def _converted_objects(body: bytes, uid: str, version: str) -> list[Any]:
    """Return the objects in the answer to a review. Raises CallFailed with the API server's text."""
    review = _decoded(body)
    response = review.get("response")
    if not is_object(response) or not response:
        raise CallFailed("no response provided")
    if version == "v1":
        given, kind = response.get("uid") or "", (review.get("apiVersion") or "", review.get("kind") or "")
        if given != uid:
            raise CallFailed(f'expected response.uid="{uid}", got "{given}"')
        if kind != (f"{_GROUP}/v1", "ConversionReview"):
            got = f"{kind[0] or '/'}, Kind={kind[1]}"
            raise CallFailed(f"expected webhook response of {_GROUP}/v1, Kind=ConversionReview, got {got}")
    result = response.get("result")
    status, message = (result.get("status") or "", result.get("message")) if is_object(result) else ("", "")
    if status != "Success":
        raise CallFailed(message or f"response.result.status was '{status}', not 'Success'")
    objects = response.get("convertedObjects") or []
    if not is_array(objects):
        raise CallFailed("the answer cannot be read: response.convertedObjects is not a list")
    return objects


def _decoded(body: bytes) -> JSONObject:
    try:
        check_nesting(body)
        review: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, DecodeError, RequestTooLarge) as error:
        raise CallFailed(f"couldn't get version/kind; json parse error: {error}") from None
    if not is_object(review):
        raise CallFailed("couldn't get version/kind; json parse error: json: cannot unmarshal value into Go value")
    return review


def _checked(index: int, given: JSONObject, found: Any, api_version: str) -> JSONObject:
    """Return a converted object, whose identity is that of the given one. Raises InternalError."""
    source = _kind_text(given)
    document: JSONObject = found if is_object(found) else {}
    if (version := document.get("apiVersion") or "") != api_version:
        why = f"invalid groupVersion (expected {api_version}, received {version})"
        raise _failed(source, f"returned invalid object at index {index}: {why}")
    if (kind := document.get("kind") or "") != given.get("kind"):
        why = f"invalid kind (expected {given.get('kind')}, received {kind})"
        raise _failed(source, f"returned invalid object at index {index}: {why}")
    metadata = document.get("metadata")
    if not is_object(metadata):
        raise _failed(source, "returned invalid metadata: missing metadata in converted object")
    old: Mapping[str, Any] = given["metadata"]
    for shown, field in _IDENTITY:
        if (metadata.get(field) or "") != (old.get(field) or ""):
            why = f"must have the same {shown}: {old.get(field) or ''} != {metadata.get(field) or ''}"
            raise _failed(source, f"returned invalid object: {why}")
    for field in _FROM_WEBHOOK:
        _check_strings(source, field, metadata.get(field))
    if errors := _changed_errors(metadata, old):
        raise _failed(source, f"returned invalid metadata: {'; '.join(map(str, errors))}")
    return document


def _check_strings(source: str, field: str, values: Any) -> None:
    if values is None:
        return
    if not is_object(values):
        raise _failed(source, f"returned invalid metadata: metadata.{field} must be a map")
    for key, value in values.items():
        if not isinstance(value, str):
            why = f"metadata.{field}[{key}] must be a string, but is {_go_type(value)} in converted object"
            raise _failed(source, f"returned invalid metadata: {why}")


def _changed_errors(new: JSONObject, old: Mapping[str, Any]) -> list[FieldError]:
    """Return the errors of labels and annotations that the webhook has changed."""
    errors: list[FieldError] = []
    if (labels := new.get("labels") or {}) != (old.get("labels") or {}):
        for key, value in labels.items():
            errors += named("metadata.labels", key, names.qualified_name)
            errors += named("metadata.labels", value, names.label_value)
    if (annotations := new.get("annotations") or {}) != (old.get("annotations") or {}):
        for key in annotations:
            errors += named("metadata.annotations", key.lower(), names.qualified_name)
    return errors


def _restored(old: JSONObject, converted: JSONObject) -> JSONObject:
    """Return the metadata of an object after a conversion: only its labels and annotations are the webhook's."""
    metadata = {key: value for key, value in old.items() if key not in _FROM_WEBHOOK}
    return metadata | {field: dict(converted[field]) for field in _FROM_WEBHOOK if converted.get(field)}


def _conformed(obj: JSONObject, schema: Schema) -> JSONObject:
    try:
        schema.prune(obj)
    except DecodeError as error:
        raise InternalError(f"unable to convert {_kind_text(obj)}: {error}", reason="") from error
    schema.default(obj)
    return obj


def _failed(source: str, why: str) -> InternalError:
    return InternalError(f"conversion webhook for {source} {why}", reason="")


def _kind_text(obj: JSONObject) -> str:
    return f"{GroupVersion.parse(obj['apiVersion'])}, Kind={obj.get('kind', '')}"


def _go_type(value: Any) -> str:
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "bool"
    types: dict[type, str] = {int: "int64", float: "float64", dict: "map[string]interface {}"}
    return types.get(type(value), "[]interface {}")
