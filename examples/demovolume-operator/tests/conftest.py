"""Fixtures: the operator runs on the control plane that `pytest --kubewright-target` selects."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from kubewright import Config, Manager
from kubewright.testing import Clock, Cluster, Faults

from demovolume_operator import api
from demovolume_operator.main import manager
from demovolumes import NewOperator, Volumes


@pytest_asyncio.fixture
async def volumes(cluster: Cluster, namespace: str) -> AsyncIterator[Volumes]:
    """The volumes of the test's namespace."""
    await cluster.install(api)
    volumes = Volumes(cluster, namespace)
    yield volumes
    await volumes.clean_up()


@pytest_asyncio.fixture
async def account(cluster: Cluster, volumes: Volumes) -> AsyncIterator[Config]:
    """The operator's own credentials: only the permissions that its controllers declare."""
    async with cluster.service_account(manager.rbac_rules(), namespace=volumes.namespace) as account:
        yield account


@pytest.fixture
def new_operator(volumes: Volumes) -> NewOperator:
    """Return a function that creates an operator, as a new process would."""

    def make(access: Config | Faults, clock: Clock | None = None) -> Manager:
        operator = manager.replace(namespaces=volumes.namespace, clock=clock)
        return operator.replace(config=access) if isinstance(access, Config) else operator.replace(transport=access)

    return make


@pytest_asyncio.fixture
async def operator(account: Config, new_operator: NewOperator) -> AsyncIterator[Manager]:
    """The running operator."""
    async with new_operator(account) as operator:
        yield operator
