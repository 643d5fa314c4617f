"""Waiting until a Deployment runs what it says, and telling why it does not.

Follows kubectl's `rollout status`, which only sees a deadline pass; what lasts (a crash again and again, an image that
can't be had) is told as soon as a Pod reports it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kubewright.apis.apps.v1 import Deployment, ReplicaSet
from kubewright.apis.core.v1 import Pod
from kubewright.client._client import Client
from kubewright.machinery.errors import KubewrightError
from kubewright_cli.deployment.pods import Trouble, deployment_of, last_lines, pods_of, trouble_with
from kubewright_cli.manifests import Manifests

_PAUSE: Final = 0.25
_LINES: Final = 10
_REVISION: Final = "deployment.kubernetes.io/revision"
_HASH: Final = "pod-template-hash"


class RolloutFailed(KubewrightError):
    """The Pods of a Deployment do not come up. Kubernetes goes on trying."""

    def __init__(self, message: str, log: list[str]) -> None:
        super().__init__(message)
        self.log = log
        """The last lines that the failing Pod wrote."""


async def wait_for_rollout(
    client: Client, manifests: Manifests, *, timeout: float, tell: Callable[[str], None]
) -> Deployment:
    """Wait until every replica of the manager runs what is deployed. `tell` is told how far it is.

    Raises RolloutFailed when a Pod can't run, or after `timeout` seconds.
    """
    deadline = client.clock.monotonic() + timeout
    while True:
        deployment = await deployment_of(client, manifests)
        missing = _missing(deployment)
        if missing is None:
            return deployment
        tell(missing)
        troubles = await _troubles(client, manifests, deployment)
        lasting = next((each for each in troubles if each.lasting), None)
        if lasting is not None:
            raise await _failure(client, manifests, str(lasting), lasting.pod)
        if client.clock.monotonic() > deadline:
            why = str(troubles[0]) if troubles else _condition(deployment)
            pod = troubles[0].pod if troubles else ""
            raise await _failure(client, manifests, f"after {timeout:g} s {missing}: {why}", pod)
        await client.clock.sleep(_PAUSE)


def _missing(deployment: Deployment) -> str | None:
    """What there is still to wait for."""
    status, wanted = deployment.status, deployment.spec.replicas
    wanted = 1 if wanted is None else wanted
    if (status.observed_generation or 0) < (deployment.metadata.generation or 0):
        return "the Deployment has not been looked at yet"
    updated = status.updated_replicas or 0
    if updated < wanted:
        return f"{updated} of {wanted} new replicas are made"
    old = (status.replicas or 0) - updated
    if old > 0:
        return f"{old} old {'replica has' if old == 1 else 'replicas have'} still to end"
    available = status.available_replicas or 0
    return f"{available} of {wanted} replicas are available" if available < wanted else None


async def _troubles(client: Client, manifests: Manifests, deployment: Deployment) -> list[Trouble]:
    """What is wrong with the Pods of the newest revision."""
    sets = [
        each
        for each in await client.list(ReplicaSet, namespace=deployment.metadata.namespace)
        if any(owner.uid == deployment.metadata.uid for owner in each.metadata.owner_references)
    ]
    newest = max(sets, key=_revision, default=None)
    if newest is None or _revision(newest) != int(deployment.metadata.annotations.get(_REVISION, "0")):
        return []
    pods = [each for each in await pods_of(client, manifests) if _is_of(each, newest)]
    return [trouble for each in pods if (trouble := trouble_with(each)) is not None]


def _revision(found: ReplicaSet) -> int:
    return int(found.metadata.annotations.get(_REVISION, "0"))


def _is_of(pod: Pod, found: ReplicaSet) -> bool:
    return pod.metadata.labels.get(_HASH) == found.metadata.labels.get(_HASH)


def _condition(deployment: Deployment) -> str:
    failing = [each for each in deployment.status.conditions if each.status != "True" or each.type == "ReplicaFailure"]
    return "; ".join(f"{each.reason}: {each.message}" for each in failing) or "no Pod says why"


async def _failure(client: Client, manifests: Manifests, message: str, pod: str) -> RolloutFailed:
    namespace = manifests.settings.namespace
    log = await last_lines(client, pod, namespace, _LINES) if pod else []
    return RolloutFailed(f"{manifests.settings.name} does not run: {message}", log)
