"""A PodSet never has a surplus Pod, whatever is stale, lost, killed or duplicated. An `Audit` checks every event."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio
from kubewright import Config, LeaderElection, Manager, NotFound
from kubewright.client import Transport
from kubewright.http.message import Request
from kubewright.testing import Faults, killed_after_each_write

from podsets import PodSets
from podsets_audit import Audit
from podsets_held import Held

pytestmark = pytest.mark.timeout(300)

NewOperator = Callable[[Config | Transport], Manager]


@pytest_asyncio.fixture(autouse=True)
async def audit(podsets: PodSets) -> AsyncIterator[Audit]:
    async with Audit(podsets).kept() as audit:
        yield audit


async def changes(podsets: PodSets, chance: random.Random, *, count: int, seconds: float) -> None:
    """Scale a PodSet many times and delete Pods in between, all concurrently."""

    async def change() -> None:
        await asyncio.sleep(chance.uniform(0, seconds))
        await podsets.scale(replicas=chance.randrange(10))

    async def damage() -> None:
        await asyncio.sleep(chance.uniform(0, seconds))
        await delete_some(podsets, chance, 1)

    await asyncio.gather(*(change() for _ in range(count)), *(damage() for _ in range(count // 5)))


async def delete_some(podsets: PodSets, chance: random.Random, count: int) -> None:
    pods = await podsets.pods()
    for pod in chance.sample(pods, min(count, len(pods))):
        try:
            await podsets.client.delete(pod, grace_period=0)
        except NotFound:  # the operator was faster
            continue


async def test_100_concurrent_changes_with_a_stale_cache_create_no_surplus_pod(
    podsets: PodSets, account: Config, new_operator: NewOperator, audit: Audit
) -> None:
    faults = Faults(account)
    faults.lag = 0.4
    async with new_operator(faults):
        await podsets.create(replicas=5)
        await changes(podsets, random.Random(1), count=100, seconds=5)
        await podsets.scale(replicas=7)
        await podsets.completes(replicas=7)


async def test_lost_responses_create_no_surplus_pod(
    podsets: PodSets, account: Config, new_operator: NewOperator
) -> None:
    sent = Counter[str]()

    def loses(request: Request) -> bool:
        """Lose every second response."""
        if request.method == "GET" or "/namespaces/" not in request.path:
            return False
        sent[request.method] += 1
        return sent[request.method] % 2 == 1

    faults = Faults(account)
    faults.lag, faults.loses = 0.4, loses
    async with new_operator(faults):
        await podsets.create(replicas=9)
        await changes(podsets, random.Random(2), count=30, seconds=4)
        for replicas in (7, 1, 3):
            await podsets.scale(replicas=replicas)
            await podsets.completes(replicas=replicas)
    assert min(sent["POST"], sent["PUT"], sent["DELETE"]) > 3


async def test_random_faults_create_no_surplus_pod(
    podsets: PodSets, account: Config, new_operator: NewOperator
) -> None:
    chance = random.Random(3)
    faults = Faults(account)
    faults.lag = 0.1
    async with new_operator(faults):
        await podsets.create(replicas=9)
        faults.storm(chance)
        await changes(podsets, chance, count=50, seconds=6)
        faults.calm()
        await podsets.scale(replicas=7)
        await podsets.completes(replicas=7)


async def test_an_operator_killed_while_it_creates_pods_creates_no_surplus_pod(
    podsets: PodSets, account: Config, new_operator: NewOperator
) -> None:
    async for faults in killed_after_each_write(account):
        await podsets.create(replicas=3)
        async with new_operator(faults):
            await faults.died_or(podsets.is_complete, replicas=3)
        async with new_operator(account):
            await podsets.completes(replicas=3)
        await podsets.delete()


async def test_an_operator_killed_while_it_replaces_pods_creates_no_surplus_pod(
    podsets: PodSets, account: Config, new_operator: NewOperator
) -> None:
    await podsets.create()
    async for faults in killed_after_each_write(account):
        await podsets.scale(replicas=6)
        async with new_operator(account):
            await podsets.completes(replicas=6)
        await delete_some(podsets, random.Random(4), 4)
        await podsets.scale(replicas=1)
        async with new_operator(faults):
            await faults.died_or(podsets.is_complete, replicas=1)
        await podsets.scale(replicas=3)
        async with new_operator(account):
            await podsets.completes(replicas=3)


async def test_two_concurrent_operators_create_no_surplus_pod(
    podsets: PodSets, account: Config, new_operator: NewOperator
) -> None:
    chance = random.Random(5)
    quick, slow = Faults(account), Faults(account)
    quick.lag, slow.lag = 0.05, 0.4
    async with new_operator(quick), new_operator(slow):
        await podsets.create(replicas=0)
        for replicas in (3, 6, 9):
            await podsets.scale(replicas=replicas)
            for _ in range(8):
                await asyncio.sleep(chance.uniform(0, 0.3))
                await delete_some(podsets, chance, 2)
        await podsets.completes(replicas=9)


async def test_delayed_creates_of_an_earlier_operator_create_no_surplus_pod(
    podsets: PodSets, account: Config, new_operator: NewOperator
) -> None:
    late = Held(account, lambda request: request.method == "POST" and request.path.endswith("/pods"))
    async with new_operator(late):
        await podsets.create(replicas=1)
        await late.holding.wait()
        async with new_operator(account):
            await podsets.completes(replicas=1)
            late.let_go.set()
            await late.arrived.wait()
            await podsets.scale(replicas=2)
            await podsets.completes(replicas=2)


async def test_an_operator_with_an_outdated_list_creates_no_surplus_pod(
    podsets: PodSets, account: Config, new_operator: NewOperator
) -> None:
    late = Held(account, lambda request: request.method != "GET" and request.path.endswith("/podsets/x/status"))
    async with new_operator(late):
        await podsets.create(replicas=3)
        await late.holding.wait()
        async with new_operator(account):
            await podsets.completes(replicas=3)
            late.let_go.set()
            await late.arrived.wait()
            await podsets.scale(replicas=4)
            await podsets.completes(replicas=4)


async def test_a_new_leader_with_a_stale_cache_creates_no_surplus_pod(
    podsets: PodSets, account: Config, new_operator: NewOperator
) -> None:
    def candidate(config: Config | Transport) -> Manager:
        return new_operator(config).replace(leader_election=LeaderElection("podsets", podsets.namespace))

    faults = Faults(account)
    async with candidate(account):
        await podsets.create(replicas=5)
        await podsets.completes(replicas=5)
        standby = candidate(faults)
        task = asyncio.create_task(standby.run())
        await standby.wait_ready()
        faults.lag = 3
        await podsets.create("y", replicas=5)
        await podsets.scale(replicas=9)
        await podsets.completes("y", replicas=5)
        await podsets.completes(replicas=9)
    await podsets.scale(replicas=10)
    await podsets.completes(replicas=10)
    assert faults.writes > 0
    standby.stop()
    await task
