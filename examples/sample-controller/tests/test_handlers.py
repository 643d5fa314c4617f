"""From events to requests: which Foos a change adds to the queue."""

from collections.abc import AsyncIterator

import pytest_asyncio
from kubewright import Client, Config
from kubewright.cache import Event
from kubewright.controllers import Request, WorkQueue
from kubewright.testing import eventually

from foos import Foos
from sample_controller.controller.deployment import deployment_for
from sample_controller.controller.foo import FooController


@pytest_asyncio.fixture
async def listening(account: Config) -> AsyncIterator[FooController]:
    """A controller that watches Deployments and has no workers."""
    async with Client(account) as client:
        controller = FooController(client)
        controller.deployments.start()
        yield controller
        await controller.deployments.stop()


async def test_a_resync_of_a_deployment_adds_no_request(foos: Foos, listening: FooController) -> None:
    await foos.client.create(deployment_for(await foos.create()))
    key = Request(foos.namespace, "web")
    await eventually(holds, listening, key)
    entry = listening.deployments.lister.entry(key)
    queue = listening.queue = WorkQueue()
    listening.deployment_changed(Event("update", key, entry, entry, initial=True))
    assert queue.depth == 0
    listening.deployment_changed(Event("add", key, None, entry))
    async with queue.take() as request:
        assert request == Request(foos.namespace, "foo")


async def test_a_deployment_without_an_owner_adds_no_request(foos: Foos, listening: FooController) -> None:
    theirs = await foos.create_foreign_deployment()
    key = Request(foos.namespace, theirs.metadata.name)
    await eventually(holds, listening, key)
    queue = listening.queue = WorkQueue()
    listening.deployment_changed(Event("add", key, None, listening.deployments.lister.entry(key)))
    assert queue.depth == 0


async def holds(controller: FooController, key: Request) -> None:
    assert controller.deployments.lister.entry(key) is not None
