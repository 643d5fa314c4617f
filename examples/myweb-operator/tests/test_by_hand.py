"""The manifests that are written by hand contain all that the operator needs."""

import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from kubewright import Config, PolicyRule
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.authentication.v1 import TokenRequest, TokenRequestSpec
from kubewright.apis.core.v1 import Pod, ServiceAccount
from kubewright.apis.rbac.v1 import ClusterRole
from kubewright.apis.rbac.v1 import PolicyRule as Granted
from kubewright.machinery import yaml
from kubewright.models import codec
from kubewright.testing import Cluster, eventually
from kubewright_controlplane import Image

from myweb_operator.main import manager
from mywebctl import kubectl, needs_kubectl
from mywebs import PORT, MyWebs, NewOperator

PROJECT = Path(__file__).parents[1]
MANIFESTS = PROJECT / "manifests"
PROGRAM = Image((sys.executable, "-m", "myweb_operator.main"), env={"PYTHONPATH": str(PROJECT / "src")})


def test_the_role_grants_exactly_the_declared_permissions() -> None:
    documents = yaml.load_all((MANIFESTS / "operator.yaml").read_text())
    [role] = [codec.from_dict(ClusterRole, each) for each in documents if each["kind"] == "ClusterRole"]
    assert granted(role.rules) == granted(manager.rbac_rules())


@needs_kubectl
async def test_the_service_account_can_run_the_operator(
    webs: MyWebs, by_hand: Config, new_operator: NewOperator
) -> None:
    async with new_operator(by_hand):
        await webs.create()
        await webs.completes()
        await webs.change(nodePortNumber=PORT + 1)
        await webs.completes(port=PORT + 1)


@needs_kubectl
async def test_the_pod_runs_the_operator(
    webs: MyWebs, by_hand: Config, cluster: Cluster, kubewright_target: str
) -> None:
    if kubewright_target == "kubeconfig":
        pytest.skip("that cluster does not have the image")
    await webs.create()
    await eventually(is_available, cluster)
    await webs.completes()


@pytest_asyncio.fixture
async def by_hand(cluster: Cluster, webs: MyWebs, kubewright_target: str) -> AsyncIterator[Config]:
    """Apply the manifests. Yields the credentials of their ServiceAccount."""
    async with AsyncExitStack() as stack:
        if kubewright_target != "kubeconfig":
            await stack.enter_async_context(cluster.images({"myweb-operator:latest": PROGRAM}))
        await kubectl(cluster, "apply", f"--filename={MANIFESTS}")
        yield await credentials(cluster)
        await kubectl(cluster, "delete", f"--filename={MANIFESTS}", "--wait=false")
        await eventually(no_pods, cluster)


async def credentials(cluster: Cluster) -> Config:
    """Return credentials of the ServiceAccount `operator`."""
    tokens = cluster.client.subresource(ServiceAccount, "operator", "token", namespace="default")
    answer = await tokens.create(TokenRequest(spec=TokenRequestSpec(audiences=[])))
    assert answer is not None
    return replace(cluster.config, token=answer.status.token, client_cert=None, client_key=None)


async def is_available(cluster: Cluster) -> None:
    deployment = await cluster.client.get(Deployment, "operator", namespace="default")
    assert deployment.status.available_replicas == 1


async def no_pods(cluster: Cluster) -> None:
    assert not await cluster.client.list(Pod, namespace="default", labels={"app": "operator"})


def granted(rules: Iterable[PolicyRule | Granted]) -> set[tuple[str, str, str]]:
    """Return each verb on each resource."""
    assert not any(rule.resource_names or rule.non_resource_urls for rule in rules)
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule.api_groups
        for resource in rule.resources
        for verb in rule.verbs
    }
