"""What is wrong with an operator in a cluster, and what to do about it: a finding each.

Looked at: the API server; the kinds, against the program's; the Deployment and its Pods; the rights of its
ServiceAccount, against what the program declares; the Lease.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from datetime import timedelta

import msgspec

from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.coordination.v1 import Lease
from kubewright.apis.core.v1 import Pod, ServiceAccount
from kubewright.client._client import Client
from kubewright.machinery.errors import ConfigError
from kubewright.manager._preflight import Permission
from kubewright_cli.deployment.access import denied
from kubewright_cli.deployment.crds import is_established
from kubewright_cli.deployment.objects import Objects, names_of
from kubewright_cli.deployment.pods import (
    deployment_of,
    leader_among,
    lease_of,
    pods_of,
    restarts,
    trouble_with,
)
from kubewright_cli.manifests import Manifests

_OFTEN = 3
"""Restarts of a Pod that runs, from which on they are told of."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong."""

    subject: str
    """What it is about: `cluster`, `crd/...`, `rbac`, `deployment`, `pod/...`, `lease`."""
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.problem}; {self.remedy}"


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = ""


async def server_version(client: Client) -> str:
    """The version of the API server. Raises ConnectionFailed, Unauthorized."""
    return msgspec.json.decode(await client.rest.request("GET", "/version"), type=_Version).git_version


async def examine(client: Client, manifests: Manifests) -> AsyncGenerator[Finding]:
    """Look at everything; each finding as it is made."""
    async for finding in _kinds(client, manifests):
        yield finding
    try:
        deployment = await deployment_of(client, manifests)
    except ConfigError as error:
        yield Finding("deployment", str(error).partition(";")[0], "run `kubewright deploy`")
        return
    async for finding in _rights(client, manifests):
        yield finding
    pods = await pods_of(client, manifests)
    for finding in (*_replicas(deployment, pods), *(each for pod in pods for each in _health(pod))):
        yield finding
    if manifests.settings.leader_election:
        lease = await lease_of(client, manifests)
        stale = _lease(client, pods, lease)
        if stale is not None:
            yield stale


async def _kinds(client: Client, manifests: Manifests) -> AsyncGenerator[Finding]:
    objects = Objects(client)
    for crd in manifests.crds:
        name = crd["metadata"]["name"]
        differs = await objects.differs(crd)
        if differs is None:
            yield Finding(f"crd/{name}", "is not installed", "run `kubewright install` or `kubewright deploy`")
            continue
        if differs:
            yield Finding(f"crd/{name}", "is not as the program declares it", "run `kubewright install`")
        installed = await client.get(CustomResourceDefinition, name)
        if not is_established(installed):
            said = "; ".join(each.message or "" for each in installed.status.conditions if each.status == "False")
            yield Finding(f"crd/{name}", f"is not served: {said}", "see `kubectl describe crd`")
        served = {each["name"] for each in crd["spec"]["versions"]}
        lost = [each for each in installed.status.stored_versions if each not in served]
        if lost:
            yield Finding(
                f"crd/{name}",
                f"there are objects stored in versions that the program does not have: {', '.join(lost)}",
                "rewrite them in another version before these go, and take them off status.storedVersions",
            )


async def _rights(client: Client, manifests: Manifests) -> AsyncGenerator[Finding]:
    settings = manifests.settings
    name = names_of(manifests).account
    if await client.get_or_none(ServiceAccount, name, namespace=settings.namespace) is None:
        where = f'there is no ServiceAccount "{name}" in namespace {settings.namespace}'
        yield Finding("rbac", where, "run `kubewright deploy`")
        return
    missing = await denied(client, manifests, name)
    if missing:
        who = f"the ServiceAccount {settings.namespace}/{name} may not {_together(missing)}"
        yield Finding("rbac", who, "run `kubewright deploy`: it applies the roles that follow from the controllers")


def _together(missing: list[Permission]) -> str:
    """`get, list widgets.example.com; create events`"""
    verbs: dict[Permission, list[str]] = {}
    for each in missing:
        verbs.setdefault(replace(each, verb="*"), []).append(each.verb)
    return "; ".join(f"{', '.join(each)} {str(what).removeprefix('* ')}" for what, each in verbs.items())


def _replicas(deployment: Deployment, pods: list[Pod]) -> list[Finding]:
    wanted = 1 if deployment.spec.replicas is None else deployment.spec.replicas
    name = deployment.metadata.name
    if wanted == 0:
        return [Finding("deployment", f"{name} is scaled to 0", f"run `kubectl scale deployment {name} --replicas=1`")]
    if len(pods) >= wanted:
        return []
    failing = [each for each in deployment.status.conditions if each.type == "ReplicaFailure"]
    why = "; ".join(f"{each.reason}: {each.message}" for each in failing) or "the Deployment does not say why"
    return [Finding("deployment", f"{name} has {len(pods)} of {wanted} Pods: {why}", "see `kubectl describe`")]


def _health(pod: Pod) -> list[Finding]:
    subject, trouble = f"pod/{pod.metadata.name}", trouble_with(pod)
    if trouble is not None:
        problem = f"{trouble.reason}{trouble.message and ': '}{trouble.message}"
        return [Finding(subject, problem, _remedy(trouble.reason))]
    if restarts(pod) >= _OFTEN:
        problem = f"has been restarted {restarts(pod)} times"
        return [Finding(subject, problem, "see `kubewright logs --previous` for its last end")]
    return []


def _remedy(reason: str) -> str:
    if "Image" in reason:
        return "is the image pushed, its name right, and its registry open to the cluster (image-pull-secrets)?"
    if reason == "Unschedulable":
        return "make room, or change node-selector, tolerations or resources in [tool.kubewright]"
    if reason == "CreateContainerConfigError":
        return "create what is missing, or change env in [tool.kubewright]"
    return "see `kubewright logs`, and `kubewright logs --previous`"


def _lease(client: Client, pods: list[Pod], lease: Lease | None) -> Finding | None:
    holder = (lease.spec.holder_identity or "") if lease is not None else ""
    if lease is None or not holder:
        return Finding("lease", "nobody leads", "see `kubewright logs` for what keeps the manager from it")
    age = client.clock.now() - (lease.spec.renew_time or client.clock.now())
    allowed = timedelta(seconds=lease.spec.lease_duration_seconds or 15)
    if age > allowed:
        stale = f"{holder} leads, and has not renewed its Lease for {age.total_seconds():.0f} s"
        return Finding("lease", stale, "another takes over when there is one: see the Pods")
    if leader_among(pods, lease) is None:
        foreign = f"{holder} leads, which is none of the Pods"
        return Finding("lease", foreign, "stop what else runs this operator (`kubewright run`?), or wait for its Lease")
    return None
