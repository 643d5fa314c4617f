"""Fixtures: the operator, and real etcd processes as the Pods of its members."""

from collections.abc import AsyncIterator
from functools import partial

import pytest
import pytest_asyncio
from kubewright import Config, Manager
from kubewright.testing import Cluster

from clusters import IMAGES, Clusters, NewOperator, operator_in
from etcd_operator import api
from etcd_operator.main import manager


@pytest_asyncio.fixture
async def clusters(cluster: Cluster, namespace: str, kubewright_target: str) -> AsyncIterator[Clusters]:
    """The clusters of the test's namespace, whose Pods run etcd."""
    if kubewright_target != "embedded":
        pytest.skip("members need addresses that only the embedded control plane has on this machine")
    if not IMAGES:
        pytest.skip("needs etcd: `make controlplane` builds it")
    await cluster.install(api)
    async with cluster.images(IMAGES):
        clusters = Clusters(cluster, namespace)
        yield clusters
        await clusters.clean_up()


@pytest_asyncio.fixture
async def account(cluster: Cluster, clusters: Clusters) -> AsyncIterator[Config]:
    """The operator's own credentials: only the permissions that its controllers declare."""
    async with cluster.service_account(manager.rbac_rules(), namespace=clusters.namespace) as account:
        yield account


@pytest.fixture
def new_operator(clusters: Clusters) -> NewOperator:
    """Return a function that creates an operator, as a new process would."""

    return partial(operator_in, clusters.namespace)


@pytest_asyncio.fixture
async def operator(account: Config, new_operator: NewOperator) -> AsyncIterator[Manager]:
    """The running operator."""
    async with new_operator(account) as operator:
        yield operator
