"""The Pods of a deployed manager: their problems, the leader, and their logs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta

from kubewright.apis.apps.v1 import Deployment, ReplicaSet
from kubewright.apis.coordination.v1 import Lease
from kubewright.apis.core.v1 import ContainerStatus, Pod
from kubewright.client import Client
from kubewright.machinery.errors import BadRequest, ConfigError, ConnectionFailed, NotFound
from kubewright_cli.deployment.objects import names_of
from kubewright_cli.manifests import Manifests
from kubewright_cli.manifests.names import MANAGER
from kubewright_cli.manifests.workload import selector

CONTAINER = "manager"
"""The name of the manager's container."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A Deployment in a cluster, and its Pods."""

    title: str
    """Its name in messages."""
    namespace: str
    deployment: str
    selector: Mapping[str, str]
    """Labels of its Pods."""

    @classmethod
    def of(cls, manifests: Manifests) -> Workload:
        """Return the Deployment of a project's manager."""
        settings = manifests.settings
        return cls(settings.name, settings.namespace, names_of(manifests).of(MANAGER), selector(settings))

    async def pods(self, client: Client) -> list[Pod]:
        """Return the Pods that are not being deleted, newest first."""
        found = await client.list(Pod, namespace=self.namespace, labels=self.selector)
        alive = [each for each in found if each.metadata.deletion_timestamp is None]
        return sorted(alive, key=lambda pod: str(pod.metadata.creation_timestamp), reverse=True)


@dataclass(frozen=True, slots=True)
class PodProblem:
    """The problem of a Pod."""

    pod: str
    reason: str
    message: str
    lasting: bool
    """Waiting alone does not solve it."""
    container: str = ""
    """The container that has the problem; empty if it is the Pod's."""

    def __str__(self) -> str:
        return f"Pod {self.pod}: {self.reason}{self.message and ': '}{self.message}"


async def deployment_of(client: Client, manifests: Manifests) -> Deployment:
    """Return the manager's Deployment. Raises ConfigError if it does not exist."""
    settings = manifests.settings
    name = names_of(manifests).of(MANAGER)
    try:
        return await client.get(Deployment, name, namespace=settings.namespace)
    except NotFound:
        raise ConfigError(
            f'{settings.name} is not deployed: there is no Deployment "{name}" in namespace {settings.namespace}; '
            "`kubewright deploy` deploys it, --namespace names another namespace"
        ) from None


async def is_deployed(client: Client, manifests: Manifests) -> bool:
    """Return whether the manager's Deployment exists, and is not scaled to 0."""
    try:
        return (await deployment_of(client, manifests)).spec.replicas != 0
    except ConfigError:
        return False


async def pods_of(client: Client, manifests: Manifests) -> list[Pod]:
    """Return the manager's Pods that are not being deleted, newest first."""
    return await Workload.of(manifests).pods(client)


async def lease_of(client: Client, manifests: Manifests) -> Lease | None:
    """Return the Lease of the leader election; None if it does not exist."""
    namespace = manifests.program.lease_namespace or manifests.settings.namespace
    return await client.get_or_none(Lease, manifests.program.manager.name, namespace=namespace)


async def deployed_rival(client: Client, manifests: Manifests) -> str | None:
    """Return a warning if a Pod of the deployed manager reconciles what another process is about to reconcile."""
    pods = [each for each in await pods_of(client, manifests) if is_ready(each)]
    lease = await lease_of(client, manifests)
    leader = leader_among(pods, lease)
    if leader is None and (manifests.settings.leader_election or not pods):
        return None
    namespace, name = manifests.settings.namespace, names_of(manifests).of(MANAGER)
    holds = (
        f"holds the Lease {lease.metadata.namespace}/{lease.metadata.name}, and" if leader and lease else "runs, and"
    )
    return (
        f"Pod {namespace}/{(leader or pods[0]).metadata.name} {holds} reconciles the same objects as this process; "
        f"stop it: kubectl scale deployment {name} --namespace {namespace} --replicas=0"
    )


def leader_among(pods: Sequence[Pod], lease: Lease | None) -> Pod | None:
    """Return the Pod that holds the Lease. The identity of a holder begins with the name of its Pod."""
    holder = ((lease.spec.holder_identity if lease is not None else None) or "").rpartition("_")[0]
    return next((each for each in pods if each.metadata.name == holder), None)


def is_ready(pod: Pod) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)


def restarts(pod: Pod) -> int:
    return sum(each.restart_count or 0 for each in pod.status.container_statuses)


def problem_of(pod: Pod) -> PodProblem | None:
    """Return the problem of a Pod; None if it has none."""
    name = pod.metadata.name
    for each in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = each.state.waiting if each.state is not None else None
        if waiting is not None and waiting.reason not in (None, "ContainerCreating", "PodInitializing"):
            why = _last_end(each) or waiting.message or ""
            return PodProblem(name, waiting.reason or "", why, lasting=True, container=each.name)
    if pod.status.phase == "Failed":
        return PodProblem(name, pod.status.reason or "Failed", pod.status.message or "", lasting=True)
    scheduled = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
    if scheduled is not None and scheduled.status == "False":
        return PodProblem(name, scheduled.reason or "Unschedulable", scheduled.message or "", lasting=False)
    if not is_ready(pod):
        ended = next((end for each in pod.status.container_statuses if (end := _last_end(each))), "")
        return PodProblem(name, "NotReady", ended, lasting=False)
    return None


async def images_of(client: Client, manifests: Manifests) -> set[str]:
    """Return the images of the manager's present and earlier ReplicaSets."""
    settings = manifests.settings
    sets = await client.list(ReplicaSet, namespace=settings.namespace, labels=selector(settings))
    templates = [each.spec.template for each in sets if each.spec.template is not None]
    return {container.image or "" for each in templates for container in each.spec.containers}


async def last_lines(
    client: Client, pod: str, namespace: str, count: int, container: str | None = CONTAINER
) -> list[str]:
    """Return the last lines of a container's log, or of its previous run if the current one has written nothing."""
    for previous in (False, True):
        try:
            lines = client.logs(pod, namespace=namespace, container=container, previous=previous, tail_lines=count)
            async with aclosing(lines):
                found = [line async for line in lines]
        except (NotFound, BadRequest):
            continue
        if found:
            return found
    return []


async def logs(
    client: Client,
    manifests: Manifests,
    *,
    follow: bool,
    previous: bool,
    tail: int | None,
    since: timedelta | None,
    timestamps: bool,
) -> AsyncGenerator[str]:
    """Yield the log of the leader, or of the newest Pod. `follow` continues across restarts and new Pods.

    Raises ConfigError if the manager is not deployed or has no Pods.
    """
    namespace, seen = manifests.settings.namespace, ""
    while True:
        pod = await _chosen(client, manifests)
        run = f"{pod.metadata.uid}/{restarts(pod)}"
        if seen == run:  # this container has exited, and the next has not started
            await client.clock.sleep(1.0)
            continue
        lines = client.logs(
            pod.metadata.name,
            namespace=namespace,
            container=CONTAINER,
            previous=previous,
            follow=follow,
            tail_lines=None if seen else tail,
            since=None if seen else since,
            timestamps=timestamps,
        )
        try:
            async with aclosing(lines):
                async for line in lines:
                    yield line
            seen = run
        except (ConnectionFailed, BadRequest, NotFound):
            if not follow:
                raise
            await client.clock.sleep(1.0)
        if not follow:
            return


async def _chosen(client: Client, manifests: Manifests) -> Pod:
    await deployment_of(client, manifests)
    pods = await pods_of(client, manifests)
    if not pods:
        raise ConfigError(
            f"{manifests.settings.name} has no Pods in namespace {manifests.settings.namespace}; "
            "`kubewright doctor` finds the reason"
        )
    return leader_among(pods, await lease_of(client, manifests)) or pods[0]


def _last_end(status: ContainerStatus) -> str:
    states = [status.state, status.last_state]
    ended = next((each.terminated for each in states if each is not None and each.terminated is not None), None)
    if ended is None:
        return ""
    message = f": {ended.message}" if ended.message else ""
    return f"its last run ended with exit code {ended.exit_code} ({ended.reason}){message}"
