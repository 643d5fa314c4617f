"""A control plane with the operator at work: its own ServiceAccount, with the rights that its controller declares."""

from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from kubewright import Config, Manager
from kubewright.testing import Cluster, running
from webserver_operator.controller import reconcile
from webservers import WebServers


@pytest_asyncio.fixture
async def webs(cluster: Cluster, namespace: str) -> AsyncIterator[WebServers]:
    """The WebServers of the test's namespace; the node port is free again after it."""
    webs = WebServers(cluster, namespace)
    await webs.install()
    yield webs
    await webs.clean_up()


@pytest_asyncio.fixture
async def account(cluster: Cluster, webs: WebServers) -> AsyncIterator[Config]:
    """The operator's own credentials."""
    async with cluster.service_account(Manager([reconcile]).rbac_rules(), namespace=webs.namespace) as account:
        yield account


@pytest.fixture
def new_operator(account: Config) -> Callable[[], Manager]:
    """Makes an operator, as a new process would be."""

    def make() -> Manager:
        return Manager([reconcile], name="webserver-operator", config=account, health_address="0", metrics_address="0")

    return make


@pytest_asyncio.fixture
async def operator(new_operator: Callable[[], Manager]) -> AsyncIterator[Manager]:
    """The operator, at work."""
    async with running(new_operator()) as manager:
        yield manager
