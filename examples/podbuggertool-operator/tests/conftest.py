"""Fixtures: the operator runs on the control plane that `pytest --kubewright-target` selects.

It runs as a ServiceAccount with only the permissions that its controllers declare.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from kubewright import Config, Manager
from kubewright.testing import Clock, Cluster, Faults

from podbuggertool_operator.main import manager
from podbuggertools import NewOperator, Podbuggertools


@pytest_asyncio.fixture
async def tools(cluster: Cluster, namespace: str) -> Podbuggertools:
    """The Podbuggertools of the test's namespace."""
    tools = Podbuggertools(cluster, namespace)
    await tools.install()
    return tools


@pytest_asyncio.fixture
async def account(cluster: Cluster, tools: Podbuggertools) -> AsyncIterator[Config]:
    """The operator's own credentials."""
    async with cluster.service_account(manager.rbac_rules(), namespace=tools.namespace) as account:
        yield account


@pytest.fixture
def new_operator(account: Config, namespace: str) -> NewOperator:
    """Return a function that creates an operator, as a new process would."""

    def make(access: Config | Faults = account, clock: Clock | None = None) -> Manager:
        operator = manager.replace(namespaces=namespace, clock=clock)
        return operator.replace(config=access) if isinstance(access, Config) else operator.replace(transport=access)

    return make


@pytest_asyncio.fixture
async def operator(new_operator: NewOperator) -> AsyncIterator[Manager]:
    """The running operator."""
    async with new_operator() as manager:
        yield manager
