"""Values that containers get from elsewhere: ConfigMaps, Secrets, tokens, and fields of their own Pod.

Objects are read from the API server when they are needed. References `$(NAME)` are replaced as in Kubernetes: a name
that is not known stays as it is, and `$$` is a dollar sign, so `$$(NAME)` is the text `$(NAME)`.

Follows https://kubernetes.io/docs/concepts/workloads/pods/downward-api/ and k8s.io/kubernetes
third_party/forked/golang/expansion.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final, TypeVar

from kubewright.apis.authentication.v1 import BoundObjectReference, TokenRequest, TokenRequestSpec
from kubewright.apis.core.v1 import ConfigMap, Container, Pod, ResourceFieldSelector, Secret, ServiceAccount
from kubewright.client._client import Client
from kubewright.machinery.errors import APIError, NotFound
from kubewright.machinery.quantity import Quantity
from kubewright.models import Object
from kubewright_controlplane.kubelet.sandbox import PodSandbox

T = TypeVar("T", bound=Object)

_TOKEN_SECONDS: Final = 3600
_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")
_LIMITED: Final = ("cpu", "memory", "ephemeral-storage")
"""Resources that are limited by the node for a container without a limit of its own."""
_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")


class SourceMissing(Exception):
    """A container can't start because a value that it refers to is missing."""


# ---- objects of the API ------------------------------------------------------------------------------------------


async def config_map(client: Client, namespace: str, name: str, *, optional: bool) -> Mapping[str, bytes] | None:
    """Return the entries of a ConfigMap; None if it is optional and missing. Raises SourceMissing."""
    found = await _get(client, ConfigMap, namespace, name, optional=optional)
    if found is None:
        return None
    return {**{key: value.encode() for key, value in found.data.items()}, **found.binary_data}


async def secret(client: Client, namespace: str, name: str, *, optional: bool) -> Mapping[str, bytes] | None:
    """Return the entries of a Secret; None if it is optional and missing. Raises SourceMissing."""
    found = await _get(client, Secret, namespace, name, optional=optional)
    return None if found is None else found.data


async def token(client: Client, pod: Pod, audience: str | None, seconds: int | None) -> tuple[str, datetime]:
    """Return a token of the Pod's ServiceAccount, bound to the Pod, and its expiry. Raises SourceMissing."""
    meta, account = pod.metadata, pod.spec.service_account_name or "default"
    spec = TokenRequestSpec(
        audiences=[audience] if audience else [],
        expiration_seconds=seconds or _TOKEN_SECONDS,
        bound_object_ref=BoundObjectReference(api_version="v1", kind="Pod", name=meta.name, uid=meta.uid),
    )
    tokens = client.subresource(ServiceAccount, account, "token", namespace=meta.namespace)
    try:
        answer = await tokens.create(TokenRequest(spec=spec))
    except APIError as error:
        raise SourceMissing(f"failed to fetch token: {error}") from error
    if answer is None or not answer.status.token or answer.status.expiration_timestamp is None:
        raise SourceMissing(f'the API server returned no token for the ServiceAccount "{meta.namespace}/{account}"')
    return answer.status.token, answer.status.expiration_timestamp


def config_maps_of(pod: Pod) -> Iterator[str]:
    """Yield the names of the ConfigMaps that a Pod uses. An index function."""
    for volume in pod.spec.volumes:
        if volume.config_map is not None:
            yield volume.config_map.name or ""
        for source in volume.projected.sources if volume.projected is not None else ():
            if source.config_map is not None:
                yield source.config_map.name or ""
    for container in _containers(pod):
        for each in container.env_from:
            if each.config_map_ref is not None:
                yield each.config_map_ref.name or ""
        for variable in container.env:
            if variable.value_from is not None and variable.value_from.config_map_key_ref is not None:
                yield variable.value_from.config_map_key_ref.name or ""


def secrets_of(pod: Pod) -> Iterator[str]:
    """Yield the names of the Secrets that a Pod uses. An index function."""
    for volume in pod.spec.volumes:
        if volume.secret is not None:
            yield volume.secret.secret_name or ""
        for source in volume.projected.sources if volume.projected is not None else ():
            if source.secret is not None:
                yield source.secret.name or ""
    for container in _containers(pod):
        for each in container.env_from:
            if each.secret_ref is not None:
                yield each.secret_ref.name or ""
        for variable in container.env:
            if variable.value_from is not None and variable.value_from.secret_key_ref is not None:
                yield variable.value_from.secret_key_ref.name or ""


def _containers(pod: Pod) -> Iterator[Container]:
    yield from pod.spec.init_containers
    yield from pod.spec.containers


async def _get(client: Client, kind: type[T], namespace: str, name: str, *, optional: bool) -> T | None:
    try:
        return await client.get(kind, name, namespace=namespace)
    except NotFound:
        if optional:
            return None
        raise SourceMissing(f'{kind.__api__.kind.lower()} "{name}" not found') from None


# ---- the downward API --------------------------------------------------------------------------------------------


def pod_field(pod: Pod, sandbox: PodSandbox, path: str) -> str:
    """Return the value of a field of the Pod. Raises KeyError if the downward API has no such field."""
    meta, spec = pod.metadata, pod.spec
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript is not None:
        values = meta.labels if subscript[1] == "labels" else meta.annotations
        return values.get(subscript[2], "")
    match path:
        case "metadata.name":
            return meta.name
        case "metadata.namespace":
            return meta.namespace or ""
        case "metadata.uid":
            return meta.uid or ""
        case "metadata.labels":
            return _lines(meta.labels)
        case "metadata.annotations":
            return _lines(meta.annotations)
        case "spec.nodeName":
            return spec.node_name or ""
        case "spec.serviceAccountName":
            return spec.service_account_name or ""
        case "status.podIP" | "status.podIPs":
            return sandbox.address
        case "status.hostIP" | "status.hostIPs":
            return sandbox.host
        case _:
            raise KeyError(path)


def container_resource(container: Container, allocatable: Mapping[str, str], selector: ResourceFieldSelector) -> str:
    """Return a limit or request of a container in units of the divisor, rounded up. Raises KeyError for other names."""
    kind, _, name = selector.resource.partition(".")
    declared = container.resources
    given = {"limits": declared.limits, "requests": declared.requests}.get(kind) if declared is not None else {}
    if given is None:
        raise KeyError(selector.resource)
    amount = given.get(name)
    if amount is None and kind == "limits" and name in _LIMITED:
        amount = allocatable.get(name)
    wanted = Quantity.of(amount or "0")
    divisor = Quantity.of(selector.divisor or "1")
    if not divisor:
        divisor = Quantity.from_int(1)
    if name == "cpu":
        return str(-(-wanted.milli_value // divisor.milli_value))
    return str(-(-wanted.value // divisor.value))


def _lines(values: Mapping[str, str]) -> str:
    """Return `key="value"` lines, with the values quoted as in Go."""
    return "\n".join(f"{key}={json.dumps(values[key], ensure_ascii=False)}" for key in sorted(values))


# ---- references --------------------------------------------------------------------------------------------------


def expand(text: str, values: Mapping[str, str]) -> str:
    """Return `text` with its references `$(NAME)` replaced by `values`."""

    def value(found: re.Match[str]) -> str:
        return "$" if found[1] is None else values.get(found[1], found[0])

    return _REFERENCE.sub(value, text)
