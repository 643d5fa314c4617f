"""Reviews of objects by a webhook, without a server.

    async def test_replicas_have_a_default() -> None:
        result = await review(set_defaults, create=WebServer(spec=WebServerSpec(image="nginx")))
        assert result.object.spec.replicas == 3

The webhook gets an AdmissionReview in JSON, as an API server sends it, and its patch is applied to that JSON.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, overload

import msgspec

from kubewright._runtime.log import get_logger
from kubewright.cache._cache import Cache
from kubewright.cache._client import CachedClient
from kubewright.client._client import Client
from kubewright.client._dynamic import decode_object, encode_object
from kubewright.machinery.errors import APIError, ConfigError, Status
from kubewright.machinery.gvk import GroupVersion
from kubewright.machinery.json import JSONObject
from kubewright.machinery.patch import json_patch
from kubewright.models import Object
from kubewright.testing._decisions import USER, Decision, operation_of
from kubewright.webhooks import (
    AdmissionResponse,
    AdmissionWebhook,
    Defaulter,
    Operation,
    RawWebhook,
    User,
    Validator,
)
from kubewright.webhooks._answers import answer, context_of
from kubewright.webhooks._client import WebhookClient
from kubewright.webhooks._review import denial, read

T = TypeVar("T", bound=Object)
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Review(Decision, Generic[R]):
    """The answer of a webhook."""

    allowed: bool
    object: R
    """The object after the patch of a defaulter; otherwise as it was sent."""
    patch: list[JSONObject]
    """The operations of the patch; empty if nothing changed."""
    warnings: list[str]
    status: Status | None = None
    """Why the request was denied; None if it was allowed."""
    audit_annotations: Mapping[str, str] = field(default_factory=dict[str, str])


@overload
async def review(
    webhook: Defaulter[T] | Validator[T],
    *,
    create: T | JSONObject | None = None,
    update: T | JSONObject | None = None,
    old: T | JSONObject | None = None,
    delete: T | JSONObject | None = None,
    connect: T | JSONObject | None = None,
    name: str | None = None,
    namespace: str | None = None,
    subresource: str | None = None,
    user: User = USER,
    dry_run: bool = False,
    options: JSONObject | None = None,
    client: Client | None = None,
    resource: object = None,
) -> Review[T]: ...
@overload
async def review(
    webhook: RawWebhook,
    *,
    create: Object | JSONObject | None = None,
    update: Object | JSONObject | None = None,
    old: Object | JSONObject | None = None,
    delete: Object | JSONObject | None = None,
    connect: Object | JSONObject | None = None,
    name: str | None = None,
    namespace: str | None = None,
    subresource: str | None = None,
    user: User = USER,
    dry_run: bool = False,
    options: JSONObject | None = None,
    client: Client | None = None,
    resource: object = None,
) -> Review[JSONObject]: ...
async def review(
    webhook: AdmissionWebhook,
    *,
    create: Object | JSONObject | None = None,
    update: Object | JSONObject | None = None,
    old: Object | JSONObject | None = None,
    delete: Object | JSONObject | None = None,
    connect: Object | JSONObject | None = None,
    name: str | None = None,
    namespace: str | None = None,
    subresource: str | None = None,
    user: User = USER,
    dry_run: bool = False,
    options: JSONObject | None = None,
    client: Client | None = None,
    resource: object = None,
) -> Review[Any]:
    """Review an object that a user creates, updates (with `old`, the object before), deletes or connects to.

    An object is typed, or a JSON document, for example with fields that its class does not know.
    name, namespace: by default those of the object. A subresource with a kind of its own may need them.
    subresource: by default the first that the webhook reviews.
    client: for functions that use `ctx.client`. Without a cache, it reads from the API server.
    resource: what the manager's lifespan would yield.

    An APIError that the function raises is a denial. Raises any other error of the function, and ConfigError if the
    webhook does not review such requests.
    """
    operation, sent = operation_of("review", create, update, delete, connect, old=old)
    _check(webhook, operation)
    given = encode_object(sent) if isinstance(sent, Object) else msgspec.json.encode(sent)
    before = encode_object(old) if isinstance(old, Object) else msgspec.json.encode(old)
    document: JSONObject = msgspec.json.decode(given)
    if subresource is None:
        subresource = webhook.registration.resources[0].partition("/")[2]
    metadata: JSONObject = document.get("metadata", {})
    request = {
        "uid": str(uuid.uuid4()),
        "kind": _kind(document),
        "resource": _resource(webhook),
        "subResource": subresource,
        "name": metadata.get("name", "") if name is None else name,
        "namespace": metadata.get("namespace", "") if namespace is None else namespace,
        "operation": operation,
        "userInfo": user,
        "object": None if operation == "DELETE" else msgspec.Raw(given),
        "oldObject": msgspec.Raw(given if operation == "DELETE" else before),
        "dryRun": dry_run,
        "options": options,
    }
    response = await _answer(webhook, request, client, resource)
    patched = json_patch(document, list(response.patch)) if response.patch else document
    kind: type[Object] | None = getattr(webhook, "kind", None)
    return Review(
        allowed=response.allowed,
        object=patched if kind is None else decode_object(kind, msgspec.json.encode(patched)),
        patch=list(response.patch),
        warnings=list(response.warnings),
        status=response.status,
        audit_annotations=response.audit_annotations,
    )


async def _answer(
    webhook: AdmissionWebhook, request: JSONObject, client: Client | None, resource: object
) -> AdmissionResponse:
    body = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    _, asked = read(msgspec.json.encode(body))
    if client is not None and not isinstance(client, CachedClient):
        client = WebhookClient(client, Cache(client))
    logger = get_logger("kubewright.webhook").bind(webhook=webhook.name)
    ctx = context_of(webhook, asked, client=client, logger=logger, resource=resource)
    try:
        return await answer(webhook, ctx, webhook.registration.timeout_seconds)
    except APIError as error:
        denied = denial(error.status)
        return AdmissionResponse(allowed=False, status=denied.status, warnings=ctx.warnings)


def _check(webhook: AdmissionWebhook, operation: Operation) -> None:
    known = webhook.registration.operations
    if operation not in known and "*" not in known:
        raise ConfigError(
            f"review: {webhook.name} does not review {operation}, so that the API server would not call it; "
            f"its operations are {', '.join(known)}"
        )


def _kind(document: JSONObject) -> dict[str, str]:
    version = GroupVersion.parse(document["apiVersion"])
    return {"group": version.group, "version": version.version, "kind": document["kind"]}


def _resource(webhook: AdmissionWebhook) -> dict[str, str]:
    made = webhook.registration
    return {
        "group": made.groups[0],
        "version": made.versions[0],
        "resource": made.resources[0].partition("/")[0],
    }
