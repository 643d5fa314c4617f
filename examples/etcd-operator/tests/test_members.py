"""The members of a cluster: how it starts, grows, shrinks, and replaces what is lost. The members are real etcds."""

from datetime import UTC, datetime, timedelta

import pytest
from kubewright import Manager
from kubewright.apis.core.v1 import PersistentVolumeClaim, Pod, Service
from kubewright.client import MergePatch
from kubewright.testing import eventually

from clusters import Clusters
from etcd_operator.api.v1.etcdcluster import MemberStatus

pytestmark = pytest.mark.timeout(300)

SERVICES = ("main", "main-0", "main-1")


@pytest.mark.long
async def test_a_cluster_starts_grows_shrinks_and_replaces_a_lost_member(clusters: Clusters, operator: Manager) -> None:
    await clusters.create(size=3)
    cluster = await clusters.settles(3)
    first = cluster.status.cluster_id
    await clusters.put("color", "red")
    assert {each.name for each in cluster.status.members} == {"main-0", "main-1", "main-2"}
    assert cluster.status.leader

    lost = await clusters.lose_volume("main-1")
    cluster = await clusters.settles(3, without=lost)
    assert await clusters.read("color") == "red"

    await clusters.change(size=1)
    cluster = await clusters.settles(1)
    assert await clusters.read("color") == "red"
    assert cluster.status.cluster_id == first
    [left] = cluster.status.members
    for kind in (Pod, PersistentVolumeClaim, Service):
        assert await clusters.object_names(kind) == {left.name}


async def test_changed_services_and_deleted_services_and_pods_come_back(clusters: Clusters, operator: Manager) -> None:
    await clusters.create(size=2)
    before = await clusters.settles(2)
    broken: list[dict[str, object]] = [
        {"selector": {"app": "another"}},
        {"ports": [{"name": "client", "port": 80}]},
        {"type": "ExternalName", "externalName": "example.com", "clusterIP": None, "clusterIPs": None},
    ]
    for name, spec in zip(SERVICES, broken, strict=True):
        await clusters.client.patch(Service, MergePatch({"spec": spec}), name=name, namespace=clusters.namespace)

    async def repaired() -> None:
        found = [await clusters.client.get(Service, name, namespace=clusters.namespace) for name in SERVICES]
        assert [it.spec.selector["etcd.kubewright.dev/task"] for it in found] == ["member"] * 3
        assert [sorted(port.port for port in it.spec.ports) for it in found] == [[2379], [2379, 2380], [2379, 2380]]
        assert [it.spec.cluster_ip for it in found[1:]] == [each.address for each in before.status.members]

    await eventually(repaired)
    for name in SERVICES:
        await clusters.client.delete(Service, name, namespace=clusters.namespace)
    await eventually(repaired)
    await clusters.put("color", "red")
    await clusters.client.delete_all_of(Pod, namespace=clusters.namespace, grace_period=0)
    await clusters.reports("Available", "False", "NoQuorum")
    after = await clusters.settles(2)
    assert after.status.cluster_id == before.status.cluster_id
    assert [each.id for each in after.status.members] == [each.id for each in before.status.members]
    assert await clusters.read("color") == "red"


@pytest.mark.long
async def test_a_member_that_has_never_started_is_given_more_time(clusters: Clusters, operator: Manager) -> None:
    await clusters.create(size=1, replace_after_seconds=2)
    await clusters.settles(1)
    await clusters.change(size=2, podTemplate={"nodeSelector": {"there-is": "none"}})

    async def waits() -> MemberStatus:
        members = (await clusters.get()).status.members
        assert len(members) == 2
        return members[1]

    async def waits_for_long() -> MemberStatus:
        member = await waits()
        assert member.unhealthy_since is not None
        assert datetime.now(UTC) - member.unhealthy_since > timedelta(seconds=4)
        return member

    first = await eventually(waits)
    assert (await eventually(waits_for_long)).id == first.id


@pytest.mark.long
async def test_a_member_whose_data_folder_was_emptied_never_votes_again(clusters: Clusters, operator: Manager) -> None:
    await clusters.create(size=3, replace_after_seconds=3)
    await clusters.settles(3)
    await clusters.put("color", "red")
    forgetful = next(each for each in (await clusters.get()).status.members if each.name == "main-0")
    await clusters.empty_data_folder("main-0")
    await clusters.kill("main-0")
    after = await clusters.settles(3, without=forgetful.id)
    assert await clusters.read("color") == "red"
    assert after.status.cluster_id
