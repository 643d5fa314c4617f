"""Fixtures: the operator runs as its own ServiceAccount, with only the permissions that its controller declares."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from kubewright import Config, Manager
from kubewright.client import Transport
from kubewright.testing import Cluster

from myweb_operator import api
from myweb_operator.main import manager
from mywebs import MyWebs, NewOperator


@pytest_asyncio.fixture
async def webs(cluster: Cluster, namespace: str) -> AsyncIterator[MyWebs]:
    """The MyWebs of the test's namespace; their node ports are released after the test."""
    await cluster.install(api)
    webs = MyWebs(cluster, namespace)
    yield webs
    await webs.clean_up()


@pytest_asyncio.fixture
async def account(cluster: Cluster, namespace: str) -> AsyncIterator[Config]:
    """The operator's own credentials."""
    async with cluster.service_account(manager.rbac_rules(), namespace=namespace) as account:
        yield account


@pytest.fixture
def new_operator() -> NewOperator:
    """Return a function that creates an operator, as a new process would."""

    def make(config: Config | Transport) -> Manager:
        return manager.replace(config=config) if isinstance(config, Config) else manager.replace(transport=config)

    return make


@pytest_asyncio.fixture
async def operator(new_operator: NewOperator, account: Config, webs: MyWebs) -> AsyncIterator[Manager]:
    """The running operator."""
    async with new_operator(account) as operator:
        yield operator
