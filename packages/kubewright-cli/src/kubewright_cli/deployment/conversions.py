"""`spec.conversion` of the project's CRDs in a cluster: which process converts their objects.

It may be the deployed operator, which a Service reaches; a local run (`kubewright run`), by its URL; or none. A local
run keeps the strategy that it replaced in an annotation, and restores it at its end. So while a local run answers, a
deploy changes the annotation only.

A CRD that calls a process that does not run blocks all requests for objects in another version than the stored one:
lists, the garbage collector, and the deletion of namespaces and of the CRD itself.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncGenerator, Iterable
from copy import deepcopy
from typing import Any, Final
from urllib.parse import urlsplit

from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.client import Client, MergePatch
from kubewright.machinery.errors import InternalError
from kubewright.machinery.json import JSONObject, is_object, read_object
from kubewright.models._values import plain
from kubewright.webhooks._names import CONVERSION_BEFORE_LOCAL_RUN
from kubewright_cli.deployment.objects import Change, called

_NONE: Final[JSONObject] = {"strategy": "None", "webhook": None}
_ANSWERS_WITHIN: Final = 2.0
"""Seconds to connect to a local run."""
_NO_ADDRESS: Final = {"url": None, "service": None, "caBundle": None}


async def installed_crd(client: Client, crd: JSONObject) -> CustomResourceDefinition | None:
    """Return the CRD of that name in the cluster; None if it is not installed."""
    return await client.get_or_none(CustomResourceDefinition, crd["metadata"]["name"])


def is_conversion_failure(error: InternalError) -> bool:
    """Return whether a request failed because a conversion webhook does not answer, or answers wrongly."""
    return "conversion webhook for " in str(error)


def conversion_of(installed: CustomResourceDefinition) -> JSONObject:
    """Return `spec.conversion`."""
    found: JSONObject = plain(installed.spec.conversion) or {}
    return found


def service_of(conversion: JSONObject) -> tuple[str, str]:
    """Return the namespace and name of the Service that converts; both empty if none does."""
    service: JSONObject = _client_of(conversion).get("service") or {}
    return service.get("namespace", ""), service.get("name", "")


def url_of(conversion: JSONObject) -> str:
    """Return the URL of the process that converts; empty if none has one."""
    return _client_of(conversion).get("url") or ""


def ca_bundle_of(conversion: JSONObject) -> bytes:
    """Return the CA by which the API server recognizes the process that converts; empty if there is none."""
    return b64decode(_client_of(conversion).get("caBundle") or "")


def is_local(installed: CustomResourceDefinition) -> bool:
    """Return whether a local run has taken over the conversion."""
    return CONVERSION_BEFORE_LOCAL_RUN in installed.metadata.annotations


async def answers(url: str) -> bool:
    """Return whether a server accepts connections at the URL."""
    parts = urlsplit(url)
    try:
        async with asyncio.timeout(_ANSWERS_WITHIN):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port or 443)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def is_converted(client: Client, crd: JSONObject) -> bool:
    """Return whether a webhook converts the objects of the installed CRD."""
    installed = await installed_crd(client, crd)
    return installed is not None and conversion_of(installed).get("strategy") == "Webhook"


async def to_install(client: Client, crd: JSONObject) -> JSONObject:
    """Return the document to apply by a command that installs CRDs without an operator: it keeps the conversion of the
    installed CRD.
    """
    installed = await installed_crd(client, crd)
    if installed is None or conversion_of(installed).get("strategy") != "Webhook":
        return crd
    found = _with_conversion(crd, conversion_of(installed))
    if _has_applied_ca(client, installed):  # an apply without it would remove it
        _client_of(found["spec"]["conversion"])["caBundle"] = _client_of(conversion_of(installed))["caBundle"]
    return found


async def to_deploy(client: Client, crd: JSONObject, namespace: str) -> JSONObject:
    """Return the document to apply for an operator that is deployed in `namespace`.

    Removes the address of another process from the installed CRD before, because an apply would leave both addresses,
    and an API server accepts one. A local run that answers keeps its conversion until it ends.
    """
    installed = await installed_crd(client, crd)
    if installed is None:
        return crd
    wanted, current = crd["spec"].get("conversion"), conversion_of(installed)
    if is_local(installed) and await answers(url_of(current)):
        return _after_local_run(crd, installed, wanted)
    if is_local(installed) or _is_obstacle(current, wanted, namespace):
        await _patch(client, installed, _replacing(wanted))
    return crd


async def stop(client: Client, crds: Iterable[JSONObject], namespace: str = "") -> AsyncGenerator[Change]:
    """Set the strategy None in the CRDs whose objects the operator in `namespace` converts, or a local run that does
    not answer. Without a namespace, any process, except local runs.

    A local run that answers converts until its end, and then sets the strategy None.
    """
    for crd in crds:
        name = crd["metadata"]["name"]
        installed = await installed_crd(client, crd)
        current = conversion_of(installed) if installed is not None else {}
        if installed is None or current.get("strategy") != "Webhook":
            continue
        if is_local(installed) and await answers(url_of(current)):
            if installed.metadata.annotations[CONVERSION_BEFORE_LOCAL_RUN] != "null":
                await _patch(client, installed, None, annotation="null")
        elif is_local(installed) or namespace in ("", service_of(current)[0]):
            await _patch(client, installed, _NONE)
            yield Change(called(CustomResourceDefinition.__api__, name), "configured")


def _client_of(conversion: JSONObject) -> JSONObject:
    webhook = conversion.get("webhook")
    found = webhook.get("clientConfig") if is_object(webhook) else None
    return found if is_object(found) else {}


def _with_conversion(crd: JSONObject, conversion: JSONObject) -> JSONObject:
    """Return the CRD with a conversion, without its CA: that belongs to the process that writes it."""
    found, own = deepcopy(crd), deepcopy(conversion)
    _client_of(own).pop("caBundle", None)
    found["spec"]["conversion"] = own
    return found


def _has_applied_ca(client: Client, installed: CustomResourceDefinition) -> bool:
    """Return whether this client has applied the CA of the conversion, as `deploy` does with webhook-ca-bundle."""
    for each in installed.metadata.managed_fields:
        if (each.manager, each.operation) == (client.field_manager, "Apply"):
            fields = read_object(bytes(each.fields_v1))
            for name in ("f:spec", "f:conversion", "f:webhook", "f:clientConfig"):
                fields = fields.get(name, {})
            return "f:caBundle" in fields
    return False


def _after_local_run(crd: JSONObject, installed: CustomResourceDefinition, wanted: JSONObject | None) -> JSONObject:
    """Return the CRD with the conversion of the local run, which is to restore `wanted`."""
    found = _with_conversion(crd, conversion_of(installed))
    annotations = found["metadata"].get("annotations", {})
    restored = _with_known_ca(wanted, installed.metadata.annotations[CONVERSION_BEFORE_LOCAL_RUN])
    found["metadata"]["annotations"] = {**annotations, CONVERSION_BEFORE_LOCAL_RUN: json.dumps(restored)}
    return found


def _with_known_ca(wanted: JSONObject | None, before: str) -> JSONObject | None:
    """Return `wanted` with the CA that the replaced conversion has, if both call the same Service."""
    replaced = json.loads(before)
    if wanted is None or not is_object(replaced) or service_of(replaced) != service_of(wanted):
        return wanted
    known = {key: value for key, value in _client_of(replaced).items() if key == "caBundle"}
    found = deepcopy(wanted)
    found["webhook"]["clientConfig"] = {**known, **_client_of(found)}
    return found


def _is_obstacle(current: JSONObject, wanted: JSONObject | None, namespace: str) -> bool:
    """Return whether the installed conversion must be removed before another one is applied."""
    if current.get("strategy") != "Webhook":
        return False
    if wanted is None:
        return service_of(current)[0] == namespace
    return service_of(current) != service_of(wanted)


def _replacing(wanted: JSONObject | None) -> JSONObject:
    """Return a merge patch of `spec.conversion` that leaves nothing of the current address."""
    if wanted is None:
        return _NONE
    return {**wanted, "webhook": {**wanted["webhook"], "clientConfig": {**_NO_ADDRESS, **_client_of(wanted)}}}


async def _patch(
    client: Client, installed: CustomResourceDefinition, conversion: JSONObject | None, *, annotation: str | None = None
) -> None:
    """Change the conversion unless it is None, and the annotation of a local run: None removes it."""
    patch: dict[str, Any] = {"metadata": {"annotations": {CONVERSION_BEFORE_LOCAL_RUN: annotation}}}
    if conversion is not None:
        patch["spec"] = {"conversion": conversion}
    await client.patch(CustomResourceDefinition, MergePatch(patch), name=installed.metadata.name)
