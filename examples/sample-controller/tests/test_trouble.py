"""Faults between the controller and the API server: the final state is always the same."""

import asyncio
import random
from datetime import timedelta
from typing import Final

import pytest
from kubewright import Backoff, Config
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.events.v1 import Event
from kubewright.client import MergePatch
from kubewright.controllers import WorkQueue
from kubewright.testing import Faults, eventually, gone, killed_after_each_write

from foos import BeforeCreation, Foos, at_work, condition_of
from sample_controller.api.v1alpha1.foo import Foo
from sample_controller.controller.foo import FooController

SCALED_BY_HAND: Final = MergePatch({"spec": {"replicas": 9}})


async def test_a_foo_is_synced_wherever_the_controller_is_killed(foos: Foos, account: Config) -> None:
    """The controller is killed after each write that syncs, renames and scales a Foo."""

    async def was_renamed(name: str) -> None:
        foo = await foos.get(name)
        if foo.spec.deployment_name == "first":
            await foos.is_synced(name)
            await foos.change(name, deploymentName="second", replicas=3)
        await foos.is_synced(name, replicas=3)
        assert [each.metadata.name for each in await foos.deployments()] == ["second"]

    lives = 0
    async for faults in killed_after_each_write(account):
        lives += 1
        name = f"foo-{lives}"
        await foos.create(name, deployment="first")
        async with at_work(faults):
            await faults.died_or(was_renamed, name)
        async with at_work(account):
            await eventually(was_renamed, name)
            await foos.delete(name)
            await gone(foos.deployment, "second")
    assert lives > 4  # Deployment, status; new Deployment, delete of the old one, status


async def test_a_stale_cache_leads_to_one_deployment(foos: Foos, account: Config) -> None:
    faults = Faults(account)
    faults.lag = 0.3
    async with at_work(faults):
        await foos.create(replicas=1)
        await foos.synced(replicas=1)
        before = await foos.deployment()
        for replicas in (3, 2, 4):
            await foos.change(replicas=replicas)
        await foos.synced(replicas=4)
    after = await foos.deployment()
    assert after.metadata.uid == before.metadata.uid


async def test_a_stale_cache_deletes_no_deployment_that_is_wanted_again(foos: Foos, account: Config) -> None:
    """While the controller creates the second Deployment, the Foo is changed back to the first one."""

    changed_back = asyncio.Event()

    async def change_back() -> None:
        await foos.change(deploymentName="first")
        changed_back.set()

    async with at_work(BeforeCreation(account, "second", change_back)):
        await foos.create(deployment="first")
        await foos.synced()
        kept = await foos.deployment("first")
        await foos.change(deploymentName="second")
        await changed_back.wait()
        await foos.synced()
        await gone(foos.deployment, "second")
    assert (await foos.deployment("first")).metadata.uid == kept.metadata.uid


async def test_conflicts_are_retried(foos: Foos, account: Config) -> None:
    """Another client writes the same Foo and Deployment all the time."""
    faults = Faults(account)
    faults.lag = 0.05
    async with at_work(faults):
        await foos.create(replicas=1)
        for replicas in range(1, 9):
            await foos.change(replicas=replicas)
            await eventually(foos.deployment)
            await foos.client.patch(Deployment, SCALED_BY_HAND, name="web", namespace=foos.namespace)
        await foos.synced(replicas=8)


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_foos_are_synced_despite_random_faults(foos: Foos, account: Config, seed: int) -> None:
    faults = Faults(account)
    faults.storm(random.Random(seed), share=0.3)
    async with at_work(faults):
        for number in range(10):
            await foos.create(f"foo-{number}", deployment=f"web-{number}", replicas=1)
        for number in range(10):
            await foos.change(f"foo-{number}", replicas=2)
        for number in range(10):
            await foos.synced(f"foo-{number}", replicas=2)
    assert len(await foos.deployments()) == 10


async def test_changes_during_a_downtime_are_handled(foos: Foos, account: Config) -> None:
    async with at_work(account):
        await foos.create(replicas=2)
        await foos.synced()
    await foos.change(replicas=3)
    await foos.client.delete(await foos.deployment())
    async with at_work(account):
        await foos.synced(replicas=3)


async def test_a_restart_writes_nothing(foos: Foos, account: Config) -> None:
    async with at_work(account):
        await foos.create()
        await foos.synced()
    faults = Faults(account)
    async with at_work(faults) as again:
        await eventually(is_idle, again)
    assert faults.writes == 0


async def test_a_freed_name_is_taken_at_once(foos: Foos, account: Config) -> None:
    theirs = await foos.create_foreign_deployment()
    async with at_work(account) as controller:
        controller.queue = WorkQueue(backoff=Backoff(base=timedelta(hours=1)))
        await foos.create()

        async def is_rejected() -> None:
            assert condition_of(await foos.get()).reason == "ErrResourceExists"

        await eventually(is_rejected)
        await foos.client.delete(theirs)
        await foos.synced()


@pytest.mark.timeout(600)
async def test_a_thousand_foos_get_their_deployments_and_then_nothing_is_written(foos: Foos, account: Config) -> None:
    count = 1000
    faults = Faults(account)
    async with at_work(faults, workers=16) as controller:
        for number in range(count):
            await foos.create(f"foo-{number}", deployment=f"web-{number}", replicas=1)

        async def are_available(number: int) -> None:
            assert sum(each.status.available_replicas == 1 for each in await foos.all()) >= number

        async def have_events() -> None:
            events = await foos.client.list(Event, namespace=foos.namespace)
            assert sum(each.reason == "Synced" for each in events) == count

        for number in range(100, count + 1, 100):
            await eventually(are_available, number)
        assert {each.metadata.name for each in await foos.deployments()} == {f"web-{each}" for each in range(count)}
        await eventually(have_events)
        await faults.rest()

        written, annotations = faults.writes, {"note": "reconcile again"}
        for number in range(0, count, 10):
            note = MergePatch({"metadata": {"annotations": annotations}})
            await foos.client.patch(Foo, note, name=f"foo-{number}", namespace=foos.namespace)

        async def have_been_seen() -> None:
            seen = [each for each in controller.foos.lister.list() if each.metadata.annotations == annotations]
            assert len(seen) == count // 10

        await eventually(have_been_seen)
        await eventually(is_idle, controller)
        assert faults.writes == written


async def is_idle(controller: FooController) -> None:
    """Assert that the caches are synced and the queue is empty."""
    assert controller.foos.synced
    assert controller.deployments.synced
    assert controller.queue.depth == 0
    assert not list(controller.queue.in_progress())
