"""Fixtures: the controller runs as its own ServiceAccount, with only the permissions of config/rbac."""

from collections.abc import AsyncIterator

import pytest_asyncio
from kubewright import Config
from kubewright.testing import Cluster

from foos import Foos, at_work, role
from sample_controller import api
from sample_controller.api.v1alpha1.foo import Foo
from sample_controller.controller.foo import FooController


@pytest_asyncio.fixture
async def foos(cluster: Cluster, namespace: str) -> AsyncIterator[Foos]:
    """The Foos of the test's namespace; the next test's controller, which works in all of them, finds none."""
    await cluster.install(api)
    foos = Foos(cluster, namespace)
    yield foos
    await cluster.client.delete_all_of(Foo, namespace=namespace)


@pytest_asyncio.fixture
async def account(cluster: Cluster, foos: Foos) -> AsyncIterator[Config]:
    """The controller's own credentials."""
    async with cluster.service_account(role(), namespace=foos.namespace) as account:
        yield account


@pytest_asyncio.fixture
async def controller(account: Config) -> AsyncIterator[FooController]:
    """The controller, at work."""
    async with at_work(account) as controller:
        yield controller
