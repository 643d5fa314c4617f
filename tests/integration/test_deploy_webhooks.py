"""Operators with webhooks are deployed, inspected and undeployed by the command line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from integration.deployed import Deployed
from integration.deployed_webhooks import WebhookProject
from kubewright import Invalid
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.testing import Cluster


class WithWebhooks(Deployed):
    project: WebhookProject

    async def strategy(self) -> str:
        crd = await self.client.get(CustomResourceDefinition, self.project.crd)
        assert crd.spec.conversion is not None
        return crd.spec.conversion.strategy


@pytest_asyncio.fixture
async def deployed(cluster: Cluster, tmp_path: Path) -> AsyncIterator[WithWebhooks]:
    found = WithWebhooks(WebhookProject(tmp_path), cluster)
    yield found
    await found.run("undeploy", "--yes", "--timeout=20")


@pytest.mark.usefixtures("processes")
async def test_webhooks_work_from_deploy_to_undeploy(deployed: WithWebhooks, namespace: str) -> None:
    project, client = deployed.project, deployed.client
    project.write(stored="v1alpha1")
    print(await deployed.good("deploy"))
    assert (await project.make(client, namespace, "one")).spec.size == 3
    with pytest.raises(Invalid, match=r"spec\.size: Invalid value: 12: must be at most 10"):
        await project.make(client, namespace, "big", size=12)
    assert await project.sizes(client, namespace) == ({"one": 3}, {"one": 3})
    print(await deployed.run("status"))
    print(await deployed.run("doctor"))
    print(await deployed.run("undeploy", "--keep-crds"))
    assert await deployed.strategy() == "None"
    print(await project.sizes(client, namespace))
    assert 0
