"""What Pods take from other objects: ConfigMaps, Secrets and tokens, read from the API server when they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final, TypeVar

from kubewright.apis.authentication.v1 import BoundObjectReference, TokenRequest, TokenRequestSpec
from kubewright.apis.core.v1 import ConfigMap, Container, Pod, Secret, ServiceAccount
from kubewright.client._client import Client
from kubewright.machinery.errors import APIError, NotFound
from kubewright.models import Object

T = TypeVar("T", bound=Object)

_TOKEN_SECONDS: Final = 3600


class Missing(Exception):
    """A container can't be started until something is there; says what."""


async def config_map(client: Client, namespace: str, name: str, *, optional: bool) -> Mapping[str, bytes] | None:
    """The entries of a ConfigMap; None for an optional one that is not there. Raises Missing."""
    found = await _get(client, ConfigMap, namespace, name, optional=optional)
    if found is None:
        return None
    return {**{key: value.encode() for key, value in found.data.items()}, **found.binary_data}


async def secret(client: Client, namespace: str, name: str, *, optional: bool) -> Mapping[str, bytes] | None:
    """The entries of a Secret; None for an optional one that is not there. Raises Missing."""
    found = await _get(client, Secret, namespace, name, optional=optional)
    return None if found is None else found.data


async def token(client: Client, pod: Pod, audience: str | None, seconds: int | None) -> tuple[str, datetime]:
    """A token of the Pod's ServiceAccount that dies with the Pod, and when it ends. Raises Missing."""
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
        raise Missing(f"failed to fetch token: {error}") from error
    if answer is None or not answer.status.token or answer.status.expiration_timestamp is None:
        raise Missing(f'the API server gave no token for the ServiceAccount "{meta.namespace}/{account}"')
    return answer.status.token, answer.status.expiration_timestamp


def config_maps_of(pod: Pod) -> Iterator[str]:
    """The names of the ConfigMaps that a Pod uses. An index function."""
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
    """The names of the Secrets that a Pod uses. An index function."""
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
        raise Missing(f'{kind.__api__.kind.lower()} "{name}" not found') from None
