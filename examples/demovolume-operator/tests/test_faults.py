"""Faults between the operator and the API server: all work is done, and done once."""

import asyncio
import random

import pytest
from kubewright import Config
from kubewright.apis.core.v1 import PersistentVolumeClaim
from kubewright.testing import Faults, eventually, killed_after_each_write

from demovolumes import NewOperator, Volumes

MANY = 1000

pytestmark = pytest.mark.timeout(600)


async def grown(volumes: Volumes, name: str) -> None:
    """Assert that the volume was expanded from 1 to 2 GiB. Make the next change for it if needed."""
    volume = await volumes.get(name)
    claim = await volumes.claim(name)
    assert claim.spec.resources is not None
    if volume.spec.size == 1:
        assert claim.status.phase == "Bound"
        await volumes.change(name, size=2)
    if claim.spec.resources.requests == {"storage": "2Gi"} and claim.status.capacity == {"storage": "1Gi"}:
        await volumes.expand(name, "2Gi")
    volume = await volumes.get(name)
    assert volume.status.capacity == "2Gi"
    assert [each.reason for each in volume.status.conditions] == ["Bound"]
    assert volume.status.observed_generation == volume.metadata.generation


async def test_a_volume_is_created_and_expanded_wherever_the_operator_is_killed(
    volumes: Volumes, account: Config, new_operator: NewOperator
) -> None:
    await volumes.offer()
    life = 0
    async for faults in killed_after_each_write(account):
        name = f"data-{(life := life + 1)}"
        await volumes.add_storage("1Gi")
        await volumes.create(name)
        async with new_operator(faults):
            await faults.died_or(grown, volumes, name)
        async with new_operator(account):
            await eventually(grown, volumes, name)
    assert life > 4  # claim created, status written, claim expanded, status written


async def test_a_claim_is_replaced_once_wherever_the_operator_is_killed(
    volumes: Volumes, account: Config, new_operator: NewOperator
) -> None:
    life = 0
    async for faults in killed_after_each_write(account):
        name = f"data-{(life := life + 1)}"
        async with new_operator(account):
            await volumes.create(name)
            await volumes.reaches("ClaimPending", name)
        async with volumes.claim_history() as claims:
            await volumes.rebuild(name, volume=name)
            async with new_operator(faults):
                await faults.died_or(volumes.comes_to, "Succeeded", "Rebuilt", name)
            async with new_operator(account):
                operation = await volumes.comes_to("Succeeded", "Rebuilt", name)
                await volumes.reaches("ClaimPending", name)
            replaced, new = await claims.of(name, 2)
            assert (replaced, new) == (operation.status.replaced_claim_uid, operation.status.new_claim_uid)
    assert life > 4  # uid recorded, claim deleted, claim created, phase recorded


async def test_a_claim_is_replaced_once_with_a_stale_cache(
    volumes: Volumes, account: Config, new_operator: NewOperator
) -> None:
    faults = Faults(account)
    faults.lag = 0.3
    async with volumes.claim_history() as claims, new_operator(faults):
        await volumes.create()
        await volumes.rebuild("one")
        await volumes.rebuild("two")
        one = await volumes.comes_to("Succeeded", "Rebuilt", "one")
        two = await volumes.comes_to("Succeeded", "Rebuilt", "two")
        first, second, _ = await claims.of("data", 3)
        assert {one.status.replaced_claim_uid, two.status.replaced_claim_uid} == {first, second}


async def test_two_operators_at_once_replace_a_claim_once(
    volumes: Volumes, account: Config, new_operator: NewOperator
) -> None:
    """Leader election prevents this. The guarantee holds even if leader election fails."""
    stale = Faults(account)
    stale.lag = 0.2
    async with volumes.claim_history() as claims, new_operator(account), new_operator(stale):
        await volumes.create()
        await eventually(volumes.claim)
        await volumes.rebuild()
        operation = await volumes.comes_to("Succeeded", "Rebuilt")
        await volumes.reaches("ClaimPending")
        await stale.rest()  # the second operator has seen it
        replaced, new = await claims.of("data", 2)
        assert (replaced, new) == (operation.status.replaced_claim_uid, operation.status.new_claim_uid)


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_each_claim_is_replaced_once_despite_random_faults(
    seed: int, volumes: Volumes, account: Config, new_operator: NewOperator
) -> None:
    names = [f"data-{number}" for number in range(20)]
    faults = Faults(account)
    async with volumes.claim_history() as claims, new_operator(faults):
        faults.storm(random.Random(seed), share=0.2)
        for name in names:
            await volumes.create(name)
            await volumes.rebuild(name, volume=name)
        await volumes.comes_to("Succeeded", "Rebuilt", names[0])
        faults.calm()
        for name in names:
            operation = await volumes.comes_to("Succeeded", "Rebuilt", name)
            replaced, new = await claims.of(name, 2)
            assert (replaced, new) == (operation.status.replaced_claim_uid, operation.status.new_claim_uid)
            await volumes.reaches("ClaimPending", name)


async def test_a_restart_writes_nothing(volumes: Volumes, account: Config, new_operator: NewOperator) -> None:
    await volumes.offer("1Gi")
    async with new_operator(account):
        await volumes.create()
        await volumes.reaches("Bound")
        await volumes.create("other")
        await volumes.rebuild(volume="other")
        await volumes.comes_to("Succeeded", "Rebuilt")
        await volumes.reaches("ClaimPending", "other")
    faults = Faults(account)
    async with new_operator(faults) as again:

        async def all_seen() -> None:
            seen = [sum(each.outcomes.values()) for each in again.metrics.controllers.values()]
            assert min(seen) >= 1
            assert sum(seen) >= 3

        await eventually(all_seen)
        assert faults.writes == 0


async def test_a_thousand_volumes_get_their_claims_and_then_nothing_is_written(
    volumes: Volumes, account: Config, new_operator: NewOperator
) -> None:
    faults = Faults(account)
    async with new_operator(faults):
        for first in range(0, MANY, 50):
            await asyncio.gather(*(volumes.create(f"data-{number}") for number in range(first, first + 50)))
        for number in range(MANY):
            await volumes.reaches("ClaimPending", f"data-{number}")
        claims = await volumes.client.list(PersistentVolumeClaim, namespace=volumes.namespace)
        assert len({claim.metadata.owner_references[0].uid for claim in claims}) == MANY
        await faults.rest()
