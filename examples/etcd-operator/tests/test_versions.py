"""Upgrades and downgrades: one member at a time, without a lost write, and back."""

import pytest
from kubewright import Manager
from kubewright.apis.core.v1 import Pod

from clusters import Clusters
from etcd_operator.local import NEW, OLD

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("operator")]


@pytest.mark.long
async def test_a_cluster_is_upgraded_and_downgraded(clusters: Clusters, operator: Manager) -> None:
    await clusters.create(size=3, version=OLD)
    await clusters.settles(3, version=OLD)
    await clusters.put("color", "red")
    before = {name: pod.metadata.uid for name, pod in (await clusters.pods()).items()}

    await clusters.change(version=NEW)
    cluster = await clusters.settles(3, version=NEW)
    assert cluster.status.version == NEW
    after = {name: pod.metadata.uid for name, pod in (await clusters.pods()).items()}
    assert before.keys() == after.keys()
    assert not set(before.values()) & set(after.values())
    assert await clusters.read("color") == "red"

    await clusters.change(version=OLD)
    await clusters.settles(3, version=OLD)
    assert await clusters.read("color") == "red"
    await clusters.put("color", "blue")


async def test_a_version_too_far_away_is_refused(clusters: Clusters) -> None:
    await clusters.create(size=1, version=NEW)
    await clusters.settles(1, version=NEW)
    await clusters.change(version="3.5.1")
    cluster = await clusters.reports("Degraded", "True", "UnsupportedVersion")
    assert "more than one minor version" in next(
        it.message for it in cluster.status.conditions if it.type == "Degraded"
    )
    await clusters.client.delete(Pod, "main-0", namespace=clusters.namespace)  # its replacement keeps the version
    await clusters.put("color", "red")
    await clusters.change(version=NEW)
    await clusters.settles(1, version=NEW)
