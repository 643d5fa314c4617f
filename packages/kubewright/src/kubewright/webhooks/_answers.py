"""From a request to an answer: calls the function of a webhook, and interprets what it returns and raises."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, cast

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
from kubewright.models._merge import changed
from kubewright.models._values import encode
from kubewright.webhooks._context import AdmissionContext, BaseAdmissionContext, RawAdmissionContext, Undecodable
from kubewright.webhooks._declaration import AdmissionWebhook, Defaulter, RawWebhook, Validator
from kubewright.webhooks._review import AdmissionRequest, AdmissionResponse

_NO_CHANGE: JSONArray = []


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


async def answer(webhook: AdmissionWebhook, ctx: BaseAdmissionContext) -> AdmissionResponse:
    """Call the function of a webhook. Raises APIError if it denies the request, and any error of the function."""
    match webhook:
        case Defaulter():
            return await _default(webhook, cast("AdmissionContext[Any]", ctx))
        case Validator():
            return await _validate(webhook, cast("AdmissionContext[Any]", ctx))
        case RawWebhook():
            return await _respond(webhook, cast("RawAdmissionContext", ctx))
        case _:
            raise ConfigError(f"{webhook.name} is not made by defaulter, validator or admission_handler")


async def _default(webhook: Defaulter[Any], ctx: AdmissionContext[Any]) -> AdmissionResponse:
    result: object = webhook.function(ctx)
    if result is not None:
        if inspect.isawaitable(result):
            result = await result
        if result is not None:
            raise TypeError(f"the defaulter returned {result!r}; it must change or assign ctx.object, and return None")
    return AdmissionResponse(patch=_changes(ctx), warnings=ctx.warnings, audit_annotations=ctx.audit_annotations)


async def _validate(webhook: Validator[Any], ctx: AdmissionContext[Any]) -> AdmissionResponse:
    result = webhook.function(ctx)
    if result is not None and inspect.isawaitable(result):
        result = await result
    if result is not None:
        errors = _errors(result)
        if errors:
            kind = ctx.request.kind
            raise Invalid.of(kind.kind, kind.group, ctx.name, errors)
    return AdmissionResponse(warnings=ctx.warnings, audit_annotations=ctx.audit_annotations)


async def _respond(webhook: RawWebhook, ctx: RawAdmissionContext) -> AdmissionResponse:
    found = webhook.function(ctx)
    result = await found if inspect.isawaitable(found) else found
    if not isinstance(cast("object", result), AdmissionResponse):
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
    if ctx.before is not None and ctx.before == encode(after):
        return _NO_CHANGE
    return _patch(bytes(ctx.request.object), after)


def _patch(raw: bytes, after: Object) -> JSONArray:
    document = read_object(raw)
    before = decode_object(type(after), raw)
    return create_json_patch(document, _patched(document, before, after))


def _patched(document: JSONObject, before: Object, after: Object) -> JSONObject:
    patched = changed(document, before, after)
    if isinstance(after, Unstructured):
        head = {key: patched[key] for key in ("apiVersion", "kind", "metadata") if key in patched}
        return {**msgspec.to_builtins(after.content), **head}
    return patched
