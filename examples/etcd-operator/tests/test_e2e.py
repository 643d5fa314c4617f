"""The operator as it is deployed, with its manifests and in a Pod: `make test-e2e`.

On the embedded control plane the Pod runs this code as it is. On a cluster (`TARGET=kubeconfig`) it
runs the image that pyproject.toml names, which has to be there.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.coordination.v1 import Lease
from kubewright.apis.rbac.v1 import ClusterRole
from kubewright.models import codec
from kubewright.testing import Cluster, eventually

PROJECT = Path(__file__).parents[1]
NAMESPACE = "etcd-operator-system"
MANAGER = "etcd-operator-controller-manager"


async def kubewright(cluster: Cluster, *arguments: str, project: Path = PROJECT) -> None:
    """Run a command in this project, against the cluster of the tests."""
    environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig())}
    command = (sys.executable, "-m", "kubewright", *arguments)
    process = await asyncio.create_subprocess_exec(*command, cwd=project, env=environment)
    assert await process.wait() == 0


@pytest_asyncio.fixture
async def deployed(cluster: Cluster, kubewright_target: str) -> AsyncIterator[None]:
    """Deploy the operator, and remove it after the test."""
    if kubewright_target == "real":
        pytest.skip("its nodes are simulated: no Pod of a manager runs there")
    await kubewright(cluster, "deploy")
    yield
    await kubewright(cluster, "undeploy", "--yes")


async def test_the_manager_runs_and_leads(cluster: Cluster, deployed: None) -> None:
    manager = await cluster.client.get(Deployment, MANAGER, namespace=NAMESPACE)
    assert manager.status.available_replicas == 1

    async def leads() -> None:
        leases = await cluster.client.list(Lease, namespace=NAMESPACE)
        assert [(each.spec.holder_identity or "").startswith(MANAGER) for each in leases] == [True]

    await eventually(leads)


PROMETHEUS_RULES: Any = {
    "metadata": {"name": "prometheusrules.monitoring.coreos.com"},
    "spec": {
        "group": "monitoring.coreos.com",
        "names": {"kind": "PrometheusRule", "plural": "prometheusrules"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
"""As Prometheus Operator installs it, without its schema. The bundle has alert rules."""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the project, without what tools have made."""
    unwanted = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "bundle*", "dist")
    return shutil.copytree(PROJECT, tmp_path / "etcd-operator", ignore=unwanted)


@pytest.mark.long
async def test_the_bundle_is_installed_upgraded_and_removed(
    cluster: Cluster, copy: Path, kubewright_target: str
) -> None:
    if kubewright_target != "embedded":
        pytest.skip("the Pods of the manager run this code only on the embedded control plane")
    await cluster.client.create(codec.from_dict(CustomResourceDefinition, PROMETHEUS_RULES))
    await kubewright(cluster, "generate", "bundle", project=copy)
    await kubewright(cluster, "bundle", "validate", "--suite", "operatorhub", project=copy)
    await kubewright(cluster, "bundle", "run", project=copy)
    assert await version_of(cluster) == "0.1.0"
    settings = copy / "pyproject.toml"
    newer = settings.read_text().replace('version = "0.1.0"', 'version = "0.2.0"')
    settings.write_text(
        newer.replace("[tool.kubewright.bundle]", '[tool.kubewright.bundle]\nreplaces = "etcd-operator.v0.1.0"')
    )
    await kubewright(cluster, "generate", "bundle", project=copy)
    await kubewright(cluster, "bundle", "upgrade", project=copy)
    assert await version_of(cluster) == "0.2.0"
    await kubewright(cluster, "bundle", "cleanup", "etcd-operator", "--yes", project=copy)
    crds = await cluster.client.list(CustomResourceDefinition)
    assert not [each.metadata.name for each in crds if each.spec.group == "etcd.kubewright.dev"]
    assert not (await cluster.client.list(Deployment, namespace=NAMESPACE)).items
    await cluster.client.delete(CustomResourceDefinition, PROMETHEUS_RULES["metadata"]["name"])


async def version_of(cluster: Cluster) -> str:
    """Return the version of the installed bundle, whose manager is available."""
    [manager] = await cluster.client.list(Deployment, namespace=NAMESPACE)
    assert manager.status.available_replicas == 1
    roles = await cluster.client.list(ClusterRole)
    [version] = {
        each.metadata.name.split("-etcd")[0] for each in roles if each.metadata.name.startswith("etcd-operator.v")
    }
    return version.removeprefix("etcd-operator.v")
