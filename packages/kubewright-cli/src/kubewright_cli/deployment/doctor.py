"""Problems of an operator in a cluster, and what to do about them: one finding each.

Looks at the API server; at the CRDs, compared with the program's; at the objects that the operator has not reconciled,
whose reconciles keep failing, or that are stuck; at the webhooks and policies; at the Deployment, its image and its
Pods; at the permissions of its ServiceAccount, compared with those the program declares; and at the Lease. A part that
cannot be looked at is a finding, too, and the other parts follow.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Iterator
from datetime import timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.coordination.v1 import Lease
from kubewright.apis.core.v1 import Pod, ServiceAccount
from kubewright.client import Client
from kubewright.machinery.errors import (
    APIError,
    ConfigError,
    ConnectionFailed,
    Forbidden,
    InternalError,
    KubewrightError,
)
from kubewright.machinery.json import JSONObject
from kubewright.manager._preflight import Permission
from kubewright_cli.deployment import compatibility, conversions
from kubewright_cli.deployment.access import denied
from kubewright_cli.deployment.conversions import is_conversion_failure
from kubewright_cli.deployment.crds import FINISH_DELETION, LostVersions, installed_crd, is_established, terminating
from kubewright_cli.deployment.failures import FailingObject, failing_objects
from kubewright_cli.deployment.finding import Finding
from kubewright_cli.deployment.objects import Objects, names_of
from kubewright_cli.deployment.ownership import RENAME, require_own
from kubewright_cli.deployment.pods import (
    deployment_of,
    is_deployed,
    leader_among,
    lease_of,
    pods_of,
    problem_of,
    restarts,
)
from kubewright_cli.deployment.policies import left_over_policies, policy_problems
from kubewright_cli.deployment.status import Cause, kind_status, of_other_kinds
from kubewright_cli.deployment.webhooks import outdated_configurations, webhook_problems
from kubewright_cli.manifests import Manifests
from kubewright_cli.manifests.versions import lost_fields

_OFTEN: Final = 3
"""Restarts of a running Pod that make a finding."""
_SHOWN: Final = 20
"""Objects of one kind that get a finding each."""
_REMEDIES: Final[dict[Cause, str]] = {
    "unwatched": "move the object, or add the namespace to watch-namespaces in [tool.kubewright] and deploy again",
    "undecodable": compatibility.REMEDY,
    "failing": "see `kubewright logs` for where it fails",
    "unreconciled": "see `kubewright logs` for what fails",
    "stuck": "see `kubewright logs` for what fails; for an operator that no longer runs, `kubewright deploy`",
}


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = ""


async def server_version(client: Client) -> str:
    """Return the version of the API server. Raises ConnectionFailed, Unauthorized."""
    return msgspec.json.decode(await client.rest.request("GET", "/version"), type=_Version).git_version


def finding_of(subject: str, error: KubewrightError) -> Finding:
    """Return the finding that reports an error."""
    match error:
        case Forbidden():
            remedy = "use an account with this permission: --kubeconfig, --context"
        case InternalError() if is_conversion_failure(error):
            remedy = "see what is found about the webhooks"
        case ConnectionFailed():
            remedy = "check the kubeconfig, the network and the API server"
        case APIError():
            remedy = "see the message of the API server"
        case _:
            remedy = "fix this, and run `kubewright doctor` again"
    return Finding(subject, str(error), remedy)


async def examine(client: Client, manifests: Manifests, *, foreign_image: str | None = None) -> AsyncGenerator[Finding]:
    """Look at all parts. Yields each finding as soon as it is made.

    `foreign_image` is the folder of another project whose code the manager's image runs.
    """
    for lost in lost_fields(manifests.crds, manifests.program.manager):
        yield Finding(f"crd/{lost.crd}", lost.problem, lost.remedy)
    failing: list[FailingObject] = []
    try:
        failing = await failing_objects(client, manifests)
    except KubewrightError as error:
        yield finding_of("events", error)
    for crd in manifests.crds:
        name = f"crd/{crd['metadata']['name']}"
        async for finding in _guarded(name, _kind(client, crd)):
            yield finding
        async for finding in _guarded(name, _objects(client, manifests, crd, failing)):
            yield finding
    for finding in _failing(of_other_kinds(manifests, failing)):
        yield finding
    async for finding in _guarded("webhooks", _webhooks(client, manifests)):
        yield finding
    async for finding in _guarded("policies", _policies(client, manifests)):
        yield finding
    async for finding in _guarded("deployment", _deployment(client, manifests, foreign_image)):
        yield finding


async def _guarded(subject: str, findings: AsyncIterable[Finding]) -> AsyncGenerator[Finding]:
    """Yield the findings of one part; an error that ends it becomes a finding."""
    try:
        async for each in findings:
            yield each
    except KubewrightError as error:
        yield finding_of(subject, error)


async def _kind(client: Client, crd: JSONObject) -> AsyncGenerator[Finding]:
    name = crd["metadata"]["name"]
    installed = await installed_crd(client, crd)
    if installed is None:
        yield Finding(f"crd/{name}", "is not installed", "run `kubewright install` or `kubewright deploy`")
        return
    for doomed in await terminating(client, [crd]):
        yield Finding(f"crd/{name}", doomed.problem, FINISH_DELETION[0].lower() + FINISH_DELETION[1:])
        return
    if not is_established(installed):
        conditions = "; ".join(each.message or "" for each in installed.status.conditions if each.status == "False")
        yield Finding(f"crd/{name}", f"is not served: {conditions}", "see `kubectl describe crd`")
    lost = LostVersions.of(crd, installed)
    if lost is not None:
        yield Finding(f"crd/{name}", lost.problem, lost.remedy)
        return
    try:
        if await Objects(client).differs(await conversions.to_install(client, crd)):
            yield Finding(f"crd/{name}", "differs from the program's", "run `kubewright install`")
    except APIError as error:
        yield Finding(f"crd/{name}", f"the API server rejects the program's CRD: {error}", "change the types")


async def _objects(
    client: Client, manifests: Manifests, crd: JSONObject, failing: list[FailingObject]
) -> AsyncGenerator[Finding]:
    """Yield the objects that the operator has not reconciled, or cannot reconcile, or that are stuck."""
    kind = await kind_status(client, manifests, crd, failing)
    ignored = [each for each in kind.unconverged if each.cause in _REMEDIES]
    for each in ignored[:_SHOWN]:
        yield Finding(_object(kind.kind, each.name, each.namespace), each.why, _REMEDIES[each.cause])
    if len(ignored) > _SHOWN:
        more = f"{len(ignored) - _SHOWN} more objects have such problems"
        yield Finding(f"crd/{crd['metadata']['name']}", more, "see `kubewright status`")


def _failing(found: list[FailingObject]) -> Iterator[Finding]:
    for each in found[:_SHOWN]:
        yield Finding(_object(each.kind, each.name, each.namespace), each.why, _REMEDIES["failing"])
    if len(found) > _SHOWN:
        yield Finding("objects", f"the reconciles of {len(found) - _SHOWN} more fail", "see `kubewright status`")


async def _webhooks(client: Client, manifests: Manifests) -> AsyncGenerator[Finding]:
    deployed = await is_deployed(client, manifests)
    async for each in webhook_problems(client, manifests, deployed=deployed):
        yield Finding(each.subject, each.problem, each.remedy)
    if deployed:
        async for each in outdated_configurations(client, manifests):
            yield Finding(each.subject, each.problem, each.remedy)


async def _policies(client: Client, manifests: Manifests) -> AsyncGenerator[Finding]:
    async for each in left_over_policies(client, manifests):
        yield each
    if manifests.program.manager.policies and await is_deployed(client, manifests):
        async for each in policy_problems(client, manifests):
            yield each


def _object(kind: str, name: str, namespace: str | None) -> str:
    where = f" (in {namespace})" if namespace else ""
    return f"{kind.lower()}/{name}{where}"


async def _deployment(client: Client, manifests: Manifests, foreign_image: str | None) -> AsyncGenerator[Finding]:
    try:
        deployment = await deployment_of(client, manifests)
    except ConfigError as error:
        yield Finding("deployment", str(error).partition(";")[0], "run `kubewright deploy`")
        return
    try:
        await require_own(client, manifests, "")
    except ConfigError as error:
        yield Finding("deployment", str(error).rstrip(". "), RENAME)
        return
    async for finding in _guarded("rbac", _permissions(client, manifests)):
        yield finding
    if foreign_image is not None:
        problem = f"{manifests.settings.image} runs the code of another project on this control plane: {foreign_image}"
        yield Finding(
            "image", problem, "run `kubewright deploy` with an image of its own: --image, or [tool.kubewright]"
        )
    pods = await pods_of(client, manifests)
    for finding in (*_replicas(deployment, pods), *(each for pod in pods for each in _health(pod))):
        yield finding
    if manifests.settings.leader_election:
        lease = await lease_of(client, manifests)
        stale = _lease(client, pods, lease)
        if stale is not None:
            yield stale


async def _permissions(client: Client, manifests: Manifests) -> AsyncGenerator[Finding]:
    settings = manifests.settings
    name = names_of(manifests).account
    if await client.get_or_none(ServiceAccount, name, namespace=settings.namespace) is None:
        where = f'there is no ServiceAccount "{name}" in namespace {settings.namespace}'
        yield Finding("rbac", where, "run `kubewright deploy`")
        return
    missing = await denied(client, manifests, name)
    if missing:
        problem = f"ServiceAccount {settings.namespace}/{name} lacks permission to {_permissions_text(missing)}"
        yield Finding("rbac", problem, "run `kubewright deploy`: it applies the roles that the controllers need")


def _permissions_text(missing: list[Permission]) -> str:
    """Return for example `get, list widgets.example.com; create events`."""
    verbs: dict[Permission, list[str]] = {}
    for each in missing:
        verbs.setdefault(replace(each, verb="*"), []).append(each.verb)
    return "; ".join(f"{', '.join(each)} {str(what).removeprefix('* ')}" for what, each in verbs.items())


def _replicas(deployment: Deployment, pods: list[Pod]) -> list[Finding]:
    wanted = 1 if deployment.spec.replicas is None else deployment.spec.replicas
    name = deployment.metadata.name
    if wanted == 0:
        command = f"kubectl scale deployment {name} --namespace {deployment.metadata.namespace} --replicas=1"
        return [Finding("deployment", f"{name} is scaled to 0", f"run `{command}`")]
    if len(pods) >= wanted:
        return []
    failing = [each for each in deployment.status.conditions if each.type == "ReplicaFailure"]
    why = "; ".join(f"{each.reason}: {each.message}" for each in failing) or "the Deployment reports no reason"
    return [Finding("deployment", f"{name} has {len(pods)} of {wanted} Pods: {why}", "see `kubectl describe`")]


def _health(pod: Pod) -> list[Finding]:
    subject, problem = f"pod/{pod.metadata.name}", problem_of(pod)
    if problem is not None:
        text = f"{problem.reason}{problem.message and ': '}{problem.message}"
        return [Finding(subject, text, _remedy(problem.reason))]
    if restarts(pod) >= _OFTEN:
        text = f"has been restarted {restarts(pod)} times"
        return [Finding(subject, text, "see `kubewright logs --previous` for the reason")]
    return []


def _remedy(reason: str) -> str:
    if "Image" in reason:
        return "check that the image is pushed, its name is right, and the cluster can pull it (image-pull-secrets)"
    if reason == "Unschedulable":
        return "free capacity, or change node-selector, tolerations or resources in [tool.kubewright]"
    if reason == "CreateContainerConfigError":
        return "create what is missing, or change env in [tool.kubewright]"
    return "see `kubewright logs`, and `kubewright logs --previous`"


def _lease(client: Client, pods: list[Pod], lease: Lease | None) -> Finding | None:
    holder = (lease.spec.holder_identity or "") if lease is not None else ""
    if lease is None or not holder:
        return Finding("lease", "no Pod leads", "see `kubewright logs` for what prevents the manager from leading")
    age = client.clock.now() - (lease.spec.renew_time or client.clock.now())
    allowed = timedelta(seconds=lease.spec.lease_duration_seconds or 15)
    if age > allowed:
        stale = f"{holder} leads, and has not renewed its Lease for {age.total_seconds():.0f} s"
        return Finding("lease", stale, "another Pod takes over if there is one: see the Pods")
    if leader_among(pods, lease) is None:
        foreign = f"{holder} leads, and is not one of the Pods"
        return Finding("lease", foreign, "stop the other process (`kubewright run`?), or wait until its Lease expires")
    return None
