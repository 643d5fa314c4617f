"""Fixtures: the operator runs on the control plane that `pytest --kubewright-target` selects.

It runs as a ServiceAccount with only the permissions that its controllers declare.
"""

from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio
from kubewright import Config, Manager
from kubewright.client import Transport
from kubewright.testing import Cluster

from podset_operator import api
from podset_operator.main import manager
from podsets import PodSets


@pytest_asyncio.fixture
async def podsets(cluster: Cluster, namespace: str) -> PodSets:
    """The PodSets of the test's namespace."""
    await cluster.install(api)
    return PodSets(cluster, namespace)


@pytest_asyncio.fixture
async def account(cluster: Cluster, podsets: PodSets) -> AsyncIterator[Config]:
    """The operator's own credentials."""
    rules = manager.rbac_rules() + manager.leader_election_rules()
    async with cluster.service_account(rules, namespace=podsets.namespace) as account:
        yield account


@pytest.fixture
def new_operator(podsets: PodSets) -> Callable[[Config | Transport], Manager]:
    """Return a function that creates an operator, as a new process would."""

    def make(config: Config | Transport) -> Manager:
        operator = manager.replace(namespaces=podsets.namespace)
        return operator.replace(config=config) if isinstance(config, Config) else operator.replace(transport=config)

    return make


@pytest_asyncio.fixture
async def operator(new_operator: Callable[[Config | Transport], Manager], account: Config) -> AsyncIterator[Manager]:
    """The running operator."""
    async with new_operator(account) as operator:
        yield operator
