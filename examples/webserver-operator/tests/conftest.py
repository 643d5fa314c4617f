"""Fixtures: the operator runs on the control plane that `pytest --kubewright-target` selects.

It runs as a ServiceAccount with only the permissions that its controllers declare.
"""

from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio
from kubewright import Config, Manager
from kubewright.testing import Cluster, Faults

from webserver_operator import api
from webserver_operator.main import manager
from webservers import WebServers


@pytest_asyncio.fixture
async def webs(cluster: Cluster, namespace: str) -> AsyncIterator[WebServers]:
    """The WebServers of the test's namespace; the node port is released after the test."""
    await cluster.install(api)
    webs = WebServers(cluster, namespace)
    yield webs
    await webs.clean_up()


@pytest_asyncio.fixture
async def account(cluster: Cluster, webs: WebServers) -> AsyncIterator[Config]:
    """The operator's own credentials."""
    async with cluster.service_account(manager.rbac_rules(), namespace=webs.namespace) as account:
        yield account


@pytest.fixture
def new_operator(account: Config) -> Callable[..., Manager]:
    """Returns a function that creates an operator, as a new process would; with `Faults`, requests fail."""

    def make(access: Config | Faults = account) -> Manager:
        return manager.replace(config=access) if isinstance(access, Config) else manager.replace(transport=access)

    return make


@pytest_asyncio.fixture
async def operator(new_operator: Callable[..., Manager]) -> AsyncIterator[Manager]:
    """The running operator."""
    async with new_operator() as manager:
        yield manager
