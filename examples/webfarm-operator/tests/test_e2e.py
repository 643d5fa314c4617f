"""The operator as it is deployed, with its manifests and in a Pod: `make test-e2e`.

On the embedded control plane the Pod runs this code as it is. On a cluster (`TARGET=kubeconfig`) it
runs the image that pyproject.toml names, which has to be there.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.coordination.v1 import Lease
from kubewright.testing import Cluster, eventually

PROJECT = Path(__file__).parents[1]
NAMESPACE = "webfarm-operator-system"
MANAGER = "webfarm-operator-controller-manager"


async def kubewright(cluster: Cluster, *arguments: str) -> None:
    """Run a command in this project, against the cluster of the tests."""
    environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig())}
    command = (sys.executable, "-m", "kubewright", *arguments)
    process = await asyncio.create_subprocess_exec(*command, cwd=PROJECT, env=environment)
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
