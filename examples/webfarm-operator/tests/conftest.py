"""The operator on a control plane: the embedded one, or the one that `pytest --kubewright-target` names."""

from collections.abc import AsyncIterator

import pytest_asyncio
from kubewright import Manager
from kubewright.policies import LocalPolicies
from kubewright.testing import Cluster
from kubewright.webhooks import LocalWebhooks

from webfarm_operator import api
from webfarm_operator.api.v1.webserver import WebServer
from webfarm_operator.main import manager


@pytest_asyncio.fixture
async def operator(cluster: Cluster, namespace: str) -> AsyncIterator[Manager]:
    """The running operator, with only the permissions that its controllers declare.

    The API server calls its webhooks in this process, and evaluates its policies.
    """
    await cluster.install(api)
    local = manager.replace(
        webhook_certificate=None,
        webhook_registration=LocalWebhooks(config=cluster.config),
        policy_registration=LocalPolicies(config=cluster.config),
    )
    async with (
        cluster.service_account(manager.rbac_rules(), namespace=namespace) as account,
        local.replace(config=account) as operator,
    ):
        await operator.wait_ready()
        yield operator
        await cluster.client.delete_all_of(WebServer, namespace=namespace)
