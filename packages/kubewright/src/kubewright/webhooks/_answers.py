"""From a request to an answer: calls the function of a webhook, and interprets what it returns and raises."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Sequence
from typing import Any, Final, cast

import msgspec

from kubewright._runtime.log import StructuredLogger
from kubewright.cache._client import CachedClient
from kubewright.client._dynamic import Unstructured, decode_object
from kubewright.machinery.errors import ConfigError, Invalid
from kubewright.machinery.fields import FieldError
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONArray, JSONObject, read_object
from kubewright.machinery.patch import create_json_patch
from kubewright.models import Object
from kubewright.models._merge import Field, changed, fields_changed_since, with_fields
from kubewright.webhooks._context import AdmissionContext, BaseAdmissionContext, RawAdmissionContext, Undecodable
from kubewright.webhooks._declaration import AdmissionWebhook, Defaulter, RawWebhook, Validator
from kubewright.webhooks._review import AdmissionRequest, AdmissionResponse

_NO_CHANGE: JSONArray = []
_read_parts: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class ReviewTimedOut(TimeoutError):
    """A review has taken longer than the API server waits. What it waited for was cancelled."""


def context_of(
    webhook: AdmissionWebhook,
    request: AdmissionRequest,
    *,
    client: CachedClient | None,
    logger: StructuredLogger,
    resource: object,
) -> BaseAdmissionContext:
    """Return the context of one call. Raises BadRequest if the request is not about the webhook's kind."""
    if isinstance(webhook, (Defaulter, Validator)):
        kind: type[Object] = cast("Any", webhook).kind
        _check_kind(kind, request.kind)
        watched = isinstance(webhook, Defaulter)
        return AdmissionContext(kind, request, client=client, logger=logger, resource=resource, watched=watched)
    return RawAdmissionContext(request, client=client, logger=logger, resource=resource)


def answer(webhook: AdmissionWebhook, ctx: BaseAdmissionContext, seconds: float) -> Awaitable[AdmissionResponse]:
    """Call the function of a webhook, for `seconds` at most if it waits.

    Raises APIError if it denies the request, ReviewTimedOut, and any error of the function.
    """
    match webhook:
        case Defaulter():
            return _default(webhook, cast("AdmissionContext[Any]", ctx), seconds)
        case Validator():
            return _validate(webhook, cast("AdmissionContext[Any]", ctx), seconds)
        case RawWebhook():
            return _respond(webhook, cast("RawAdmissionContext", ctx), seconds)
        case _:
            raise ConfigError(f"{webhook.name} is not made by defaulter, validator or admission_handler")


async def _default(webhook: Defaulter[Any], ctx: AdmissionContext[Any], seconds: float) -> AdmissionResponse:
    result: object = webhook.function(ctx)
    if result is not None and inspect.isawaitable(result):
        result = await within(seconds, result)
    if result is not None:
        raise TypeError(f"the defaulter returned {result!r}; it must change or assign ctx.object, and return None")
    return AdmissionResponse(patch=_changes(ctx), warnings=ctx.warnings, audit_annotations=ctx.audit_annotations)


async def _validate(webhook: Validator[Any], ctx: AdmissionContext[Any], seconds: float) -> AdmissionResponse:
    result: object = webhook.function(ctx)
    if result is not None and inspect.isawaitable(result):
        result = await within(seconds, result)
    if result is not None:
        errors = _errors(result)
        if errors:
            kind = ctx.request.kind
            raise Invalid.of(kind.kind, kind.group, ctx.name, errors)
    return AdmissionResponse(warnings=ctx.warnings, audit_annotations=ctx.audit_annotations)


async def _respond(webhook: RawWebhook, ctx: RawAdmissionContext, seconds: float) -> AdmissionResponse:
    result: object = webhook.function(ctx)
    if inspect.isawaitable(result):
        result = await within(seconds, result)
    if not isinstance(result, AdmissionResponse):
        raise TypeError(f"the webhook returned {result!r}; it must return an AdmissionResponse")
    if result.patch and not webhook.registration.mutating:
        raise TypeError("the webhook returned a patch, but is a validating one; declare it with mutating=True")
    return AdmissionResponse(
        allowed=result.allowed,
        status=result.status,
        patch=result.patch if result.allowed else (),
        warnings=[*ctx.warnings, *result.warnings],
        audit_annotations={**ctx.audit_annotations, **result.audit_annotations},
    )


async def within(seconds: float, answering: Awaitable[object]) -> object:
    """Await something for `seconds` at most. Raises ReviewTimedOut."""
    timeout = asyncio.timeout(seconds)
    try:
        async with timeout:
            return await answering
    except TimeoutError as error:
        if timeout.expired():
            raise ReviewTimedOut(f"no answer within {seconds:g} s") from error
        raise


def _check_kind(kind: type[Object], given: GroupVersionKind) -> None:
    api = kind.__api__
    if (given.kind, given.group, given.version) != (api.kind, api.group, api.version):
        raise Undecodable(
            f"the review is of a {given}, but this webhook reviews {api.gvk}: compare its rules and its path in the "
            f"webhook configuration"
        )


def _errors(result: object) -> Sequence[FieldError]:
    if isinstance(result, (list, tuple)):
        errors = cast("Sequence[object]", result)
        if all(isinstance(each, FieldError) for each in errors):
            return cast("Sequence[FieldError]", errors)
    raise TypeError(f"the validator returned {result!r}; it must return None or a list of FieldErrors")


def _changes(ctx: AdmissionContext[Any]) -> JSONArray:
    """Return the JSON patch of what a defaulter changed: the differences between the decoded object before and after,
    applied to the object as it came.
    """
    after: Object | None = ctx.used_object
    if after is None or ctx.operation == "DELETE":
        return _NO_CHANGE
    raw = bytes(ctx.request.object)
    if isinstance(after, Unstructured) or ctx.before is None:
        return _patch(raw, after)
    fields = fields_changed_since(ctx.before, after)
    return _patch_of_fields(raw, after, fields) if fields else _NO_CHANGE


def _patch(raw: bytes, after: Object) -> JSONArray:
    document = read_object(raw)
    patched = changed(document, decode_object(type(after), raw), after)
    if isinstance(after, Unstructured):
        head: JSONObject = {key: patched[key] for key in ("apiVersion", "kind", "metadata") if key in patched}
        patched = {**msgspec.to_builtins(after.content), **head}
    return create_json_patch(document, patched)


def _patch_of_fields(raw: bytes, after: Object, fields: Sequence[Field]) -> JSONArray:
    """Return the patch of these fields alone. The rest of the document is not decoded."""
    parts = _read_parts(raw)
    document: JSONObject = {wire: msgspec.json.decode(parts[wire]) for _, wire, _ in fields if wire in parts}
    return create_json_patch(document, with_fields(document, decode_object(type(after), raw), after, fields))
