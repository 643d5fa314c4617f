"""Wait until a Deployment runs what was deployed, and report why it does not.

Follows kubectl's `rollout status`, which only notices a deadline. A lasting problem (repeated crashes, an image that
cannot be pulled) is reported here as soon as a Pod has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kubewright.apis.apps.v1 import Deployment, ReplicaSet
from kubewright.apis.core.v1 import Pod
from kubewright.client import Client
from kubewright.health import replicas_health
from kubewright.machinery.errors import Forbidden, KubewrightError, NotFound
from kubewright_cli.deployment.pods import (
    PodProblem,
    Workload,
    deployment_of,
    is_ready,
    last_lines,
    leader_among,
    lease_of,
    pods_of,
    problem_of,
)
from kubewright_cli.deployment.webhooks import webhook_problems
from kubewright_cli.manifests import Manifests

_PAUSE: Final = 0.25
_LINES: Final = 10
_TO_ACQUIRE: Final = 5.0
"""Seconds in which a Pod acquires a free Lease."""
_REVISION: Final = "deployment.kubernetes.io/revision"
_HASH: Final = "pod-template-hash"


class RolloutFailed(KubewrightError):
    """The Pods of a Deployment do not start. Kubernetes keeps trying."""

    def __init__(self, message: str, log: list[str]) -> None:
        super().__init__(message)
        self.log = log
        """The last lines that the failing Pod wrote."""


async def replace_pods(client: Client, workload: Workload, *, failing: bool, timeout: float) -> None:
    """Delete the Pods of a Deployment, or only the `failing` ones, so that new Pods take their place without a
    back-off.

    A Pod that failed before says nothing about what was deployed since. Waits until the deleted Pods are gone. Without
    permission to delete Pods, nothing happens.
    """
    deleted: list[Pod] = []
    for each in await workload.pods(client):
        problem = problem_of(each)
        if failing and (problem is None or not problem.lasting):
            continue
        try:
            await client.delete(each)
        except Forbidden:
            return
        except NotFound:
            continue
        deleted.append(each)
    for each in deleted:
        await client.wait_until_gone(Pod, each.metadata.name, namespace=each.metadata.namespace, timeout=timeout)


async def wait_for_rollout(
    client: Client, manifests: Manifests, *, timeout: float, report: Callable[[str], None]
) -> Deployment:
    """Wait until every replica of the manager runs what is deployed: see `wait_for_workload`.

    Raises ConfigError if the manager is not deployed.
    """
    await deployment_of(client, manifests)
    return await wait_for_workload(client, Workload.of(manifests), timeout=timeout, report=report)


async def wait_for_workload(
    client: Client, workload: Workload, *, timeout: float, report: Callable[[str], None]
) -> Deployment:
    """Wait until every replica of a Deployment runs its newest template. Calls `report` with the progress.

    Raises RolloutFailed if a Pod cannot run, or after `timeout` seconds.
    """
    deadline = client.clock.monotonic() + timeout
    while True:
        deployment = await client.get(Deployment, workload.deployment, namespace=workload.namespace)
        pods = await _newest_pods(client, workload, deployment) if _is_observed(deployment) else []
        missing = _missing(deployment, pods)
        if missing is None:
            return deployment
        report(missing)
        problems = [problem for each in pods if (problem := problem_of(each)) is not None]
        lasting = next((each for each in problems if each.lasting), None)
        if lasting is not None:
            raise await _failure(client, workload, str(lasting), lasting)
        if client.clock.monotonic() > deadline:
            why = str(problems[0]) if problems else _condition(deployment)
            first = problems[0] if problems else None
            raise await _failure(client, workload, f"after {timeout:g} s {missing}: {why}", first)
        await client.clock.sleep(_PAUSE)


async def wait_for_leader(
    client: Client, manifests: Manifests, *, timeout: float, report: Callable[[str], None]
) -> bool:
    """Wait until a Pod of the manager holds the Lease. Returns False if none does after `timeout` seconds, or after
    the time in which the Lease of an earlier leader expires.
    """
    if not manifests.settings.leader_election or manifests.settings.replicas == 0:
        return True
    deadline = client.clock.monotonic() + min(timeout, manifests.program.lease_duration + _TO_ACQUIRE)
    while leader_among(await pods_of(client, manifests), await lease_of(client, manifests)) is None:
        if client.clock.monotonic() > deadline:
            return False
        report("no Pod leads yet")
        await client.clock.sleep(_PAUSE)
    return True


async def wait_for_webhooks(
    client: Client, manifests: Manifests, *, timeout: float, report: Callable[[str], None]
) -> str:
    """Wait until the API server can call the webhooks of the program. Returns why that is not known: missing
    permissions of this client; empty if it is.

    Raises RolloutFailed after `timeout` seconds.
    """
    if not manifests.program.webhooks or manifests.settings.replicas == 0:
        return ""
    deadline = client.clock.monotonic() + timeout
    while True:
        problems = webhook_problems(client, manifests, deployed=True)
        try:
            failing = [each async for each in problems if each.calls_fail]
        except Forbidden as error:
            return str(error)
        if not failing:
            return ""
        if client.clock.monotonic() > deadline:
            name = manifests.settings.name
            raise RolloutFailed(f"the webhooks of {name} cannot be called after {timeout:g} s: {failing[0]}", [])
        report(f"{failing[0].subject}: {failing[0].problem}")
        await client.clock.sleep(_PAUSE)


def _is_observed(deployment: Deployment) -> bool:
    """Return whether the Deployment's controller has seen what was deployed. Before that its Pods are those of a past
    one.
    """
    return (deployment.status.observed_generation or 0) >= (deployment.metadata.generation or 0)


def _missing(deployment: Deployment, pods: list[Pod]) -> str | None:
    """Return what the rollout still waits for."""
    status, wanted = deployment.status, deployment.spec.replicas
    wanted = 1 if wanted is None else wanted
    if not _is_observed(deployment):
        return "the Deployment has not been processed yet"
    health = replicas_health(
        wanted,
        total=status.replicas or 0,
        updated=status.updated_replicas or 0,
        available=min(status.available_replicas or 0, sum(map(is_ready, pods))),
    )
    return None if health.is_ready else health.message


async def _newest_pods(client: Client, workload: Workload, deployment: Deployment) -> list[Pod]:
    """Return the Pods of the newest revision."""
    sets = [
        each
        for each in await client.list(ReplicaSet, namespace=deployment.metadata.namespace)
        if any(owner.uid == deployment.metadata.uid for owner in each.metadata.owner_references)
    ]
    newest = max(sets, key=_revision, default=None)
    if newest is None or _revision(newest) != int(deployment.metadata.annotations.get(_REVISION, "0")):
        return []
    return [each for each in await workload.pods(client) if _is_of(each, newest)]


def _revision(found: ReplicaSet) -> int:
    return int(found.metadata.annotations.get(_REVISION, "0"))


def _is_of(pod: Pod, found: ReplicaSet) -> bool:
    return pod.metadata.labels.get(_HASH) == found.metadata.labels.get(_HASH)


def _condition(deployment: Deployment) -> str:
    failing = [each for each in deployment.status.conditions if each.status != "True" or each.type == "ReplicaFailure"]
    return "; ".join(f"{each.reason}: {each.message}" for each in failing) or "no Pod reports a reason"


async def _failure(client: Client, workload: Workload, message: str, problem: PodProblem | None) -> RolloutFailed:
    log: list[str] = []
    if problem is not None:
        log = await last_lines(client, problem.pod, workload.namespace, _LINES, problem.container or None)
    return RolloutFailed(f"{workload.title} does not run: {message}", log)
