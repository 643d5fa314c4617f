"""The operator at work on a control plane: the embedded one, or as `pytest --target` says."""

from collections.abc import AsyncIterator

import pytest_asyncio
from kubewright import Manager
from kubewright.testing import Cluster, running

from fleet import api
from fleet.main import manager


@pytest_asyncio.fixture
async def operator(cluster: Cluster, namespace: str) -> AsyncIterator[Manager]:
    """The operator, with the rights that its controllers declare and no others."""
    await cluster.install(api)
    async with cluster.service_account(manager.rbac_rules(), namespace=namespace) as account:
        operator = Manager(
            manager.controllers,
            name=manager.name,
            config=account,
            scopes=manager.scopes,
            delete_fuse=manager.delete_fuse,
            health_address="0",
            metrics_address="0",
        )
        async with running(operator):
            yield operator
