"""The operator on a control plane: the embedded one, or the one that `pytest --kubewright-target` names."""

from collections.abc import AsyncIterator

import pytest_asyncio
from kubewright import Manager
from kubewright.testing import Cluster
from kubewright.webhooks import LocalWebhooks

from fleet import api
from fleet.main import manager


@pytest_asyncio.fixture
async def operator(cluster: Cluster, namespace: str) -> AsyncIterator[Manager]:
    """The running operator, with only the permissions that it declares. Tests register its webhooks, if it has any."""
    await cluster.install(api)
    async with (
        cluster.service_account(manager.rbac_rules(), namespace=namespace) as account,
        manager.replace(config=account, webhook_registration=LocalWebhooks(config=cluster.config)) as operator,
    ):
        yield operator
