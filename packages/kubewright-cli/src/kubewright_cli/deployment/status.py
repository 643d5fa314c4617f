"""What an operator manages: how many objects of each kind, which of them are not what they are meant to be, and why;
and the manager's own Pods."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from kubewright.apis.core.v1 import Event
from kubewright.client._client import Client
from kubewright.client._dynamic import Unstructured
from kubewright.machinery.errors import ConfigError, NotFound
from kubewright.machinery.json import JSONObject
from kubewright.models import APIResource
from kubewright_cli.deployment.convergence import hindrance
from kubewright_cli.deployment.crds import api_of
from kubewright_cli.deployment.pods import (
    deployment_of,
    is_ready,
    leader_among,
    lease_of,
    pods_of,
    restarts,
    trouble_with,
)
from kubewright_cli.manifests import Manifests


@dataclass(frozen=True, slots=True)
class ObjectStatus:
    """One object that has not converged."""

    namespace: str | None
    name: str
    why: str
    event: str
    """The last warning about it; empty when there is none."""


@dataclass(frozen=True, slots=True)
class KindStatus:
    """The objects of one kind."""

    kind: str
    group: str
    installed: bool
    total: int
    unconverged: tuple[ObjectStatus, ...]


@dataclass(frozen=True, slots=True)
class PodStatus:
    """One Pod of the manager."""

    name: str
    node: str
    ready: bool
    restarts: int
    leads: bool
    why: str
    """What is wrong with it; empty when nothing is."""


@dataclass(frozen=True, slots=True)
class OperatorStatus:
    """All of it. In JSON the names are the same, in camel case."""

    name: str
    namespace: str
    deployed: bool
    image: str
    replicas: int
    kinds: tuple[KindStatus, ...]
    pods: tuple[PodStatus, ...]

    @property
    def converged(self) -> bool:
        """It is deployed, its Pods are ready, and every object is what it is meant to be."""
        kinds = all(each.installed and not each.unconverged for each in self.kinds)
        return self.deployed and kinds and len(self.pods) >= self.replicas and all(each.ready for each in self.pods)


async def status_of(client: Client, manifests: Manifests) -> OperatorStatus:
    """The status of the operator and of what it manages, in all namespaces."""
    kinds = tuple([await _kind(client, crd) for crd in manifests.crds])
    settings = manifests.settings
    try:
        deployment = await deployment_of(client, manifests)
    except ConfigError:
        return OperatorStatus(
            settings.name, settings.namespace, deployed=False, image="", replicas=0, kinds=kinds, pods=()
        )
    containers, replicas = deployment.spec.template.spec.containers, deployment.spec.replicas
    return OperatorStatus(
        settings.name,
        settings.namespace,
        deployed=True,
        image=containers[0].image or "" if containers else "",
        replicas=1 if replicas is None else replicas,
        kinds=kinds,
        pods=await _pods(client, manifests),
    )


async def _kind(client: Client, crd: JSONObject) -> KindStatus:
    api = api_of(crd)
    try:
        found = await client.list(Unstructured.of(api))
    except NotFound:
        return KindStatus(api.kind, api.group, installed=False, total=0, unconverged=())
    wrong = [(each, why) for each in found if (why := hindrance(each)) is not None]
    warnings = await _warnings(client, api) if wrong else {}
    statuses = [
        ObjectStatus(each.metadata.namespace, each.metadata.name, why, warnings.get(each.metadata.uid or "", ""))
        for each, why in wrong
    ]
    return KindStatus(api.kind, api.group, installed=True, total=len(found), unconverged=tuple(statuses))


async def _warnings(client: Client, api: APIResource) -> dict[str, str]:
    """The last warning about each object of the kind, by the object's uid."""
    fields = {"involvedObject.kind": api.kind, "type": "Warning"}
    found = await client.list(Event, fields=fields)
    return {each.involved_object.uid or "": f"{each.reason}: {each.message}" for each in sorted(found, key=_seen_at)}


def _seen_at(event: Event) -> datetime:
    series = event.series.last_observed_time if event.series is not None else None
    times: Iterable[datetime | None] = (series, event.last_timestamp, event.event_time)
    created = event.metadata.creation_timestamp
    assert created is not None, "an API server gives every object its time"
    return next((each for each in times if each is not None), created)


async def _pods(client: Client, manifests: Manifests) -> tuple[PodStatus, ...]:
    pods = await pods_of(client, manifests)
    leader = leader_among(pods, await lease_of(client, manifests))
    statuses: list[PodStatus] = []
    for pod in pods:
        trouble = trouble_with(pod)
        why = f"{trouble.reason}{trouble.message and ': '}{trouble.message}" if trouble is not None else ""
        node = pod.spec.node_name or ""
        statuses.append(PodStatus(pod.metadata.name, node, is_ready(pod), restarts(pod), pod is leader, why))
    return tuple(statuses)
