"""What goes wrong between the controller and its API server, and what comes of it: the same in the end."""

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


async def test_killed_after_any_write_of_a_foos_life_the_next_process_ends_it(foos: Foos, account: Config) -> None:
    """Create, a Deployment of another name, replicas: each write may be the last one of a process."""

    async def lived(name: str) -> None:
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
            await faults.died_or(lived, name)
        async with at_work(account):
            await eventually(lived, name)
            await foos.delete(name)
            await gone(foos.deployment, "second")
    assert lives > 4  # a Deployment, a status; another Deployment, a delete, a status


async def test_a_cache_that_is_late_leads_to_one_deployment_and_no_write_too_many(foos: Foos, account: Config) -> None:
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


async def test_a_late_cache_deletes_no_deployment_that_is_wanted_again(foos: Foos, account: Config) -> None:
    """While the controller makes the Deployment of another name, the Foo wants the first one again."""

    async def think_again() -> None:
        await foos.change(deploymentName="first")

    async with at_work(BeforeCreation(account, "second", think_again)):
        await foos.create(deployment="first")
        await foos.synced()
        kept = await foos.deployment("first")
        await foos.change(deploymentName="second")
        await eventually(foos.deployment, "second")
        await gone(foos.deployment, "second")
        await foos.synced()
    assert (await foos.deployment("first")).metadata.uid == kept.metadata.uid


async def test_conflicts_are_taken_up_again(foos: Foos, account: Config) -> None:
    """Somebody else writes the same Foo and the same Deployment all the time."""
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
async def test_it_comes_through_a_storm_of_failures(foos: Foos, account: Config, seed: int) -> None:
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


async def test_what_changed_while_there_was_no_controller_is_made_good(foos: Foos, account: Config) -> None:
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
        await eventually(has_worked, again)
    assert faults.writes == 0


async def test_a_name_that_is_freed_is_taken_at_once(foos: Foos, account: Config) -> None:
    theirs = await foos.create_foreign_deployment()
    async with at_work(account) as controller:
        controller.queue = WorkQueue(backoff=Backoff(base=timedelta(hours=1)))
        await foos.create()

        async def is_refused() -> None:
            assert condition_of(await foos.get()).reason == "ErrResourceExists"

        await eventually(is_refused)
        await foos.client.delete(theirs)
        await foos.synced()


@pytest.mark.timeout(600)
async def test_a_thousand_foos_get_their_deployments_and_then_nothing_is_written(foos: Foos, account: Config) -> None:
    count = 1000
    faults = Faults(account)
    async with at_work(faults, workers=16) as controller:
        for number in range(count):
            await foos.create(f"foo-{number}", deployment=f"web-{number}", replicas=1)

        async def are_available(so_many: int) -> None:
            assert sum(each.status.available_replicas == 1 for each in await foos.all()) >= so_many

        async def are_told_of() -> None:
            told = await foos.client.list(Event, namespace=foos.namespace)
            assert sum(each.reason == "Synced" for each in told) == count

        for so_many in range(100, count + 1, 100):
            await eventually(are_available, so_many)
        assert {each.metadata.name for each in await foos.deployments()} == {f"web-{each}" for each in range(count)}
        await eventually(are_told_of)
        await faults.rest()

        written, looked_again = faults.writes, {"note": "look again"}
        for number in range(0, count, 10):
            note = MergePatch({"metadata": {"annotations": looked_again}})
            await foos.client.patch(Foo, note, name=f"foo-{number}", namespace=foos.namespace)

        async def have_been_seen() -> None:
            seen = [each for each in controller.foos.lister.list() if each.metadata.annotations == looked_again]
            assert len(seen) == count // 10

        await eventually(have_been_seen)
        await eventually(has_worked, controller)
        assert faults.writes == written


async def has_worked(controller: FooController) -> None:
    """Its caches are complete, and there is nothing to do."""
    assert controller.foos.synced
    assert controller.deployments.synced
    assert controller.queue.depth == 0
    assert not list(controller.queue.in_progress())
