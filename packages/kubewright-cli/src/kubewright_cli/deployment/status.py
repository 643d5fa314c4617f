"""What an operator manages: how many objects of each kind, which of them have not converged and why; its own Pods."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from kubewright.apis.core.v1 import Event
from kubewright.client import Client, Unstructured
from kubewright.health import health_of, is_stuck, reason_not_reconciled
from kubewright.machinery.errors import ConfigError, Forbidden, InternalError
from kubewright.machinery.json import JSONObject
from kubewright.models import APIResource
from kubewright.models._schema import root_schema
from kubewright_cli.deployment.compatibility import decode_error
from kubewright_cli.deployment.conversions import is_conversion_failure
from kubewright_cli.deployment.crds import api_of, installed_crd, served_api, served_versions, terminating
from kubewright_cli.deployment.failures import FailingObject, failing_objects, seen_at
from kubewright_cli.deployment.objects import names_of
from kubewright_cli.deployment.pods import (
    deployment_of,
    is_ready,
    leader_among,
    lease_of,
    pods_of,
    problem_of,
    restarts,
)
from kubewright_cli.deployment.webhooks import WebhookProblem, webhook_problems
from kubewright_cli.manifests import Manifests
from kubewright_cli.manifests.rbac import watched_namespaces

Cause: TypeAlias = Literal["unwatched", "undecodable", "failing", "unreconciled", "stuck", "reported"]
"""Why an object has not converged: the operator does not watch its namespace, cannot decode it, fails to reconcile it,
or has never reconciled it; or the object itself reports a problem, which is stuck if it has lasted for over a
minute."""


@dataclass(frozen=True, slots=True)
class ObjectStatus:
    """One object that has not converged."""

    namespace: str | None
    name: str
    why: str
    event: str
    """The last warning about the object; empty if there is none."""
    cause: Cause


@dataclass(frozen=True, slots=True)
class KindStatus:
    """The objects of one kind."""

    kind: str
    group: str
    installed: bool
    served: tuple[str, ...] = ()
    """The versions that the cluster serves."""
    absent: tuple[str, ...] = ()
    """The program's versions that the cluster does not serve."""
    total: int = 0
    unconverged: tuple[ObjectStatus, ...] = ()
    terminating: str = ""
    """That the CRD is being deleted, and the objects that block its deletion; empty if it is not being deleted."""

    unreadable: str = ""
    """Why the objects cannot be listed: their conversion fails; empty if they can be listed."""

    @property
    def converged(self) -> bool:
        broken = self.terminating or self.unreadable
        return self.installed and not broken and not self.absent and not self.unconverged


@dataclass(frozen=True, slots=True)
class PodStatus:
    """One Pod of the manager."""

    name: str
    node: str
    ready: bool
    restarts: int
    leads: bool
    why: str
    """The problem of the Pod; empty if it has none."""


@dataclass(frozen=True, slots=True)
class OperatorStatus:
    """The operator, its Pods and the kinds it manages. JSON has the same names."""

    name: str
    namespace: str
    deployed: bool
    image: str
    replicas: int
    kinds: tuple[KindStatus, ...]
    pods: tuple[PodStatus, ...]
    needs_leader: bool = False
    """Whether the manager reconciles only while one of its Pods leads."""
    other_kinds: tuple[str, ...] = ()
    """The kinds of Kubernetes and of other projects that the operator reconciles: `Deployment.apps`."""
    failing: tuple[FailingObject, ...] = ()
    """Objects of the other kinds whose reconciles keep failing."""
    webhooks: tuple[WebhookProblem, ...] = ()
    """What is wrong with the webhooks."""

    @property
    def converged(self) -> bool:
        """The operator is deployed, its Pods are ready, one of them leads if that is needed, its webhooks can be
        called, every object has converged, and no reconcile keeps failing.
        """
        kinds = all(each.converged for each in self.kinds) and not self.failing
        kinds = kinds and not any(each.calls_fail for each in self.webhooks)
        pods = len(self.pods) >= self.replicas and all(each.ready for each in self.pods)
        led = not self.needs_leader or self.replicas == 0 or any(each.leads for each in self.pods)
        return self.deployed and kinds and pods and led


async def status_of(client: Client, manifests: Manifests) -> OperatorStatus:
    """Return the status of the operator and of the objects it manages, in all namespaces."""
    try:
        failing = await failing_objects(client, manifests)
    except Forbidden:  # only the Events know; the rest can be shown without them
        failing = []
    kinds = tuple([await kind_status(client, manifests, crd, failing) for crd in manifests.crds])
    settings, others = manifests.settings, other_kinds(manifests)
    try:
        deployment = await deployment_of(client, manifests)
    except ConfigError:
        return OperatorStatus(
            settings.name,
            settings.namespace,
            deployed=False,
            image="",
            replicas=0,
            kinds=kinds,
            pods=(),
            other_kinds=others,
            webhooks=await _webhooks(client, manifests, deployed=False),
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
        needs_leader=settings.leader_election,
        other_kinds=others,
        failing=tuple(of_other_kinds(manifests, failing)),
        webhooks=await _webhooks(client, manifests, deployed=replicas != 0),
    )


async def _webhooks(client: Client, manifests: Manifests, *, deployed: bool) -> tuple[WebhookProblem, ...]:
    try:
        problems = webhook_problems(client, manifests, deployed=deployed, probe=False)
        return tuple([each async for each in problems])
    except Forbidden:  # the rest can be shown without them
        return ()


def other_kinds(manifests: Manifests) -> tuple[str, ...]:
    """Return the kinds that the program reconciles and does not declare."""
    own = _own_kinds(manifests)
    apis = {each.kind.__api__ for each in manifests.program.manager.controllers}
    named = {f"{api.kind}{api.group and '.'}{api.group}" for api in apis if (api.group, api.kind) not in own}
    return tuple(sorted(named))


def of_other_kinds(manifests: Manifests, failing: Iterable[FailingObject]) -> list[FailingObject]:
    """Return the failing objects of kinds that the program does not declare."""
    own = _own_kinds(manifests)
    return [each for each in failing if (each.group, each.kind) not in own]


def _own_kinds(manifests: Manifests) -> set[tuple[str, str]]:
    return {(each["spec"]["group"], each["spec"]["names"]["kind"]) for each in manifests.crds}


async def kind_status(
    client: Client, manifests: Manifests, crd: JSONObject, failing: Iterable[FailingObject]
) -> KindStatus:
    """Return the objects of one kind, in all namespaces. Reads them through a version that the cluster serves."""
    own = api_of(crd)
    installed = await installed_crd(client, crd)
    if installed is None:
        return KindStatus(own.kind, own.group, installed=False)
    served = served_versions(installed)
    wanted = [each["name"] for each in crd["spec"]["versions"] if each["served"]]
    absent = tuple(each for each in wanted if each not in served)
    try:
        read = manifests.program.class_of(crd).__api__.version
        found = list(await client.list(Unstructured.of(served_api(crd, installed, read)))) if served else []
    except InternalError as error:
        if not is_conversion_failure(error):
            raise
        return KindStatus(own.kind, own.group, True, tuple(served), absent, unreadable=str(error))
    check = _ConvergenceCheck(manifests, crd, failing, client.clock.now())
    wrong = [(each, verdict) for each in found if (verdict := check(each)) is not None]
    warnings = await _warnings(client, own) if wrong else {}
    statuses = [
        ObjectStatus(each.metadata.namespace, each.metadata.name, why, warnings.get(each.metadata.uid or "", ""), cause)
        for each, (cause, why) in wrong
    ]
    doomed = "".join(each.problem for each in await terminating(client, [crd]))
    return KindStatus(own.kind, own.group, True, tuple(served), absent, len(found), tuple(statuses), doomed)


class _ConvergenceCheck:
    """Decides for objects of one kind whether they have converged."""

    def __init__(self, manifests: Manifests, crd: JSONObject, failing: Iterable[FailingObject], now: datetime) -> None:
        self._now = now
        self._failing = {each.uid: each for each in failing}
        program = manifests.program
        self._class = program.class_of(crd)
        self._conversion = program.conversion_of(self._class)
        self._has_controller = program.has_controller(self._class)
        self._namespaces = watched_namespaces(program, manifests.settings, names_of(manifests))
        properties: JSONObject = root_schema(self._class)["properties"]
        status: JSONObject = properties.get("status") or {}
        self._status_fields = frozenset(status.get("properties") or ())

    def __call__(self, obj: Unstructured) -> tuple[Cause, str] | None:
        """Return why the object has not converged; None if it has."""
        namespace = obj.metadata.namespace
        if self._has_controller and self._namespaces and namespace and namespace not in self._namespaces:
            return "unwatched", f"the operator does not watch namespace {namespace}"
        error = decode_error(self._class, obj, self._conversion)
        if error is not None:
            return "undecodable", f"the operator cannot decode it: {error}"
        failure = self._failing.get(obj.metadata.uid or "")
        if failure is not None:
            return "failing", failure.why
        why = reason_not_reconciled(obj, self._status_fields) if self._has_controller else ""
        if why and obj.metadata.deletion_timestamp is None:
            return "unreconciled", why
        health = health_of(obj)
        if health.is_ready:
            return None
        return ("stuck" if is_stuck(obj, self._now) else "reported"), health.message


async def _warnings(client: Client, api: APIResource) -> dict[str, str]:
    """Return the last warning Event about each object of the kind, by uid."""
    fields = {"involvedObject.kind": api.kind, "type": "Warning"}
    found = await client.list(Event, fields=fields)
    return {each.involved_object.uid or "": f"{each.reason}: {each.message}" for each in sorted(found, key=seen_at)}


async def _pods(client: Client, manifests: Manifests) -> tuple[PodStatus, ...]:
    pods = await pods_of(client, manifests)
    leader = leader_among(pods, await lease_of(client, manifests))
    statuses: list[PodStatus] = []
    for pod in pods:
        problem = problem_of(pod)
        why = f"{problem.reason}{problem.message and ': '}{problem.message}" if problem is not None else ""
        node = pod.spec.node_name or ""
        statuses.append(PodStatus(pod.metadata.name, node, is_ready(pod), restarts(pod), pod is leader, why))
    return tuple(statuses)
