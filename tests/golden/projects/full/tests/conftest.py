"""The operator, running against the control plane that `pytest --kubewright-target` chooses."""

from collections.abc import AsyncIterator

import pytest_asyncio
from kubewright import Manager
from kubewright.testing import Cluster

from fleet import api
from fleet.main import manager


@pytest_asyncio.fixture
async def operator(cluster: Cluster, namespace: str) -> AsyncIterator[Manager]:
    """The operator, with the permissions that its controllers declare, and no others."""
    await cluster.install(api)
    async with (
        cluster.service_account(manager.rbac_rules(), namespace=namespace) as account,
        manager.replace(config=account) as operator,
    ):
        yield operator
