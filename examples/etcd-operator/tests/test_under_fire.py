"""Correctness under fire: no acknowledged write is lost and no read is stale, whatever is killed, cut off or changed.

An `Observer` watches each cluster: there is one, its members are who they say, and a healthy majority stays.
"""

import os
import random
import time

import pytest
from kubewright import Config
from kubewright.apis.core.v1 import PersistentVolumeClaim, Pod, Service
from kubewright.client import HTTPTransport
from kubewright.testing import Faults, eventually

from chaos import Chaos
from clusters import Clusters, NewOperator
from etcd_operator.local import NEW, OLD
from mortal import Mortal
from observer import Observed, observed
from workload import under_load

pytestmark = pytest.mark.timeout(900)

SEEDS = [int(each) for each in os.environ.get("ETCD_SEEDS", "1,2,3").split(",")]
"""Of the random faults. `ETCD_SEEDS=17 make test-long` repeats one run."""


async def test_members_are_cut_off_and_lost_under_load(
    clusters: Clusters, account: Config, new_operator: NewOperator
) -> None:
    await clusters.create(size=3)
    async with observed(clusters) as observer, new_operator(Faults(transport=Observed(account, observer))):
        leader = (await clusters.settles(3)).status.leader
        async with under_load(clusters, clients=2) as load:
            async with clusters.cut_off(leader):
                await eventually(clusters.another_leads, leader)
            lost = await clusters.lose_volume(leader)
            await clusters.settles(3, without=lost)
    load.check(at_least=20)


async def test_an_operator_that_is_killed_after_each_write_loses_nothing(
    clusters: Clusters, account: Config, new_operator: NewOperator
) -> None:
    await clusters.create(size=1)
    async with observed(clusters) as observer:
        async with new_operator(Faults(transport=Observed(account, observer))):
            await clusters.settles(1)
        operators = Mortal(lambda: Observed(account, observer), new_operator)
        async with under_load(clusters, clients=1) as load:
            await clusters.change(size=2)
            await operators.reach(clusters.settles, 2)
    load.check(at_least=10)
    assert operators.lives > 5


@pytest.mark.long
async def test_a_cluster_grows_and_shrinks_while_the_operator_is_killed_after_each_write(
    clusters: Clusters, account: Config, new_operator: NewOperator
) -> None:
    await clusters.create(size=1)
    async with observed(clusters) as observer:
        operators = Mortal(lambda: Observed(account, observer), new_operator)
        await operators.reach(clusters.settles, 1)
        async with under_load(clusters, clients=2) as load:
            await clusters.change(size=2)
            await operators.reach(clusters.settles, 2)
            await clusters.change(size=1)
            [left] = (await operators.reach(clusters.settles, 1)).status.members
    load.check(at_least=20)
    assert operators.lives > 10
    for kind in (Pod, PersistentVolumeClaim, Service):
        assert await clusters.object_names(kind) == {left.name}


@pytest.mark.long
async def test_a_killed_member_a_paused_leader_and_a_pod_that_is_deleted_during_an_upgrade_lose_nothing(
    clusters: Clusters, account: Config, new_operator: NewOperator
) -> None:
    await clusters.create(size=3)
    async with observed(clusters) as observer, new_operator(Faults(transport=Observed(account, observer))):
        leader = (await clusters.settles(3)).status.leader
        async with under_load(clusters) as load:
            await clusters.kill("main-1")
            await clusters.settles(3)
            async with clusters.paused(leader):
                await clusters.reports("Degraded", "True", "MembersUnhealthy")
            await clusters.change(version=NEW)
            await clusters.client.delete(Pod, leader, namespace=clusters.namespace)
            await clusters.settles(3, version=NEW)
    load.check(at_least=50)


@pytest.mark.long
async def test_a_lost_volume_is_replaced_while_the_operator_is_killed_after_each_write(
    clusters: Clusters, account: Config, new_operator: NewOperator
) -> None:
    await clusters.create(size=3)
    async with observed(clusters) as observer:
        operators = Mortal(lambda: Observed(account, observer), new_operator)
        await operators.reach(clusters.settles, 3)
        async with under_load(clusters) as load:
            lost = await clusters.lose_volume("main-1")
            await operators.reach(clusters.settles, 3, without=lost)
            await clusters.change(size=1)
            await operators.reach(clusters.settles, 1)
    load.check(at_least=20)


@pytest.mark.long
async def test_a_member_that_stays_cut_off_from_the_others_or_from_the_operator_is_replaced(
    clusters: Clusters, account: Config, new_operator: NewOperator
) -> None:
    await clusters.create(size=3, replace_after_seconds=5)
    async with observed(clusters) as observer, new_operator(Faults(transport=Observed(account, observer))):
        await clusters.settles(3)
        async with under_load(clusters) as load:
            for away in (clusters.cut_off, clusters.hidden):
                lost = (await clusters.settles(3)).status.members[1]
                async with away(lost.name):
                    await eventually(clusters.is_removed, lost.id)
                await clusters.settles(3, without=lost.id)
    load.check(at_least=20)


@pytest.mark.long
async def test_versions_go_up_and_down_while_the_operator_is_killed_after_each_write(
    clusters: Clusters, account: Config, new_operator: NewOperator
) -> None:
    await clusters.create(size=3, version=OLD)
    async with observed(clusters) as observer:
        operators = Mortal(lambda: Observed(account, observer), new_operator)
        await operators.reach(clusters.settles, 3)
        async with under_load(clusters) as load:
            for version in (NEW, OLD, NEW):
                await clusters.change(version=version)
                await operators.reach(clusters.settles, 3, version=version)
    load.check(at_least=50)


@pytest.mark.long
async def test_a_change_of_mind_in_the_middle_of_an_upgrade_loses_nothing(
    clusters: Clusters, account: Config, new_operator: NewOperator
) -> None:
    await clusters.create(size=3, version=OLD)
    async with observed(clusters) as observer:
        operators = Mortal(lambda: Observed(account, observer), new_operator)
        await operators.reach(clusters.settles, 3)
        async with under_load(clusters) as load:
            await clusters.change(version=NEW)
            await operators.reach(clusters.some_member_has, NEW)
            await clusters.change(version=OLD)
            await operators.reach(clusters.settles, 3, version=OLD)
    load.check(at_least=50)


@pytest.mark.long
async def test_a_restore_happens_once_wherever_the_operator_is_killed(
    clusters: Clusters, account: Config, new_operator: NewOperator
) -> None:
    operators = Mortal(lambda: HTTPTransport(account), new_operator)
    await clusters.claim()
    await clusters.create(size=1)
    await operators.reach(clusters.settles, 1)
    await clusters.put("color", "red")
    await operators.reach(clusters.back_up)
    await clusters.put("color", "blue")
    restore = await operators.reach(clusters.restore)
    assert restore.status.phase == "Succeeded", restore.status
    cluster = await operators.reach(clusters.settles, 1)
    assert cluster.status.epoch.number == 1
    assert await clusters.read("color") == "red"
    assert operators.lives > 15


@pytest.mark.long
async def test_a_backup_is_restored_under_load_while_the_operator_is_killed_after_each_write(
    clusters: Clusters, account: Config, new_operator: NewOperator
) -> None:
    await clusters.claim()
    await clusters.create(size=3)
    async with observed(clusters) as observer:
        operators = Mortal(lambda: Observed(account, observer), new_operator)
        await operators.reach(clusters.settles, 3)
        async with under_load(clusters) as load:
            await load.goes_on(50)
            start = time.monotonic()
            backup = await operators.reach(clusters.back_up)
            end = time.monotonic()
            assert backup.status.phase == "Succeeded", backup.status
            await load.goes_on(50)
            restore = await operators.reach(clusters.restore)
            assert restore.status.phase == "Succeeded", restore.status
            await operators.reach(clusters.settles, 3)
            await load.goes_on(50)
    load.check_restored((start, end), at_least=150)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
async def test_random_faults_under_load(
    clusters: Clusters, account: Config, new_operator: NewOperator, seed: int
) -> None:
    chance = random.Random(seed)
    await clusters.create(size=3, replace_after_seconds=20)
    async with observed(clusters) as observer:
        faults = Faults(transport=Observed(account, observer))
        async with new_operator(faults):
            await clusters.settles(3)
            async with under_load(clusters, seed=seed) as load:
                faults.storm(chance, share=0.1)
                await Chaos(clusters, observer, chance).cause(12)
                faults.calm()
                await clusters.change(size=3, version=OLD)  # both may have been changed
                await clusters.settles(3, version=OLD)
    load.check(at_least=50)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
async def test_random_faults_while_operators_are_killed(
    clusters: Clusters, account: Config, new_operator: NewOperator, seed: int
) -> None:
    chance = random.Random(seed)
    await clusters.create(size=3, replace_after_seconds=20)
    async with observed(clusters) as observer:
        operators = Mortal(lambda: Observed(account, observer), new_operator, chance)
        await operators.reach(clusters.settles, 3)
        async with under_load(clusters, seed=seed) as load:
            await operators.reach(Chaos(clusters, observer, chance).cause, 12)
            await clusters.change(size=3, version=OLD)
            await operators.reach(clusters.settles, 3, version=OLD)
    load.check(at_least=50)
    assert operators.lives > 3
