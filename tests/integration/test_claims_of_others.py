"""Claims whose status names a volume that is bound to another claim."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubewright.apis.core.v1 import PersistentVolume, PersistentVolumeClaim, Pod
from kubewright.client import MergePatch
from kubewright.models import codec
from kubewright_controlplane import Environment
from kubewright_controlplane.kubelet.sandbox import HostFolders
from kubewright_controlplane.kubelet.sources import SourceMissing
from kubewright_controlplane.kubelet.storage import claimed_volume

SIZE = {"accessModes": ["ReadWriteOnce"]}


async def test_a_claim_that_says_it_is_bound_gets_only_its_own_volume(tmp_path: Path) -> None:
    folders = HostFolders(tmp_path, lambda: None, [tmp_path])
    namespace = "default"
    async with Environment(controllers=False) as cluster:
        spec: dict[str, Any] = {**SIZE, "resources": {"requests": {"storage": "1Mi"}}, "volumeName": "theirs"}
        document = {"metadata": {"name": "mine", "namespace": namespace}, "spec": spec}
        claim = await cluster.client.create(codec.from_dict(PersistentVolumeClaim, document))
        owner = {"namespace": namespace, "name": "theirs", "uid": "other"}
        volume = {**SIZE, "capacity": {"storage": "1Mi"}, "hostPath": {"path": str(tmp_path)}, "claimRef": owner}
        await cluster.client.create(codec.from_dict(PersistentVolume, {"metadata": {"name": "theirs"}, "spec": volume}))
        bound = MergePatch({"status": {"phase": "Bound"}})
        await cluster.client.patch(claim, bound, subresource="status")
        used = {"name": "data", "persistentVolumeClaim": {"claimName": "mine"}}
        pod = codec.from_dict(
            Pod, {"metadata": {"name": "p", "namespace": namespace}, "spec": {"containers": [], "volumes": [used]}}
        )
        with pytest.raises(SourceMissing, match="bound to another claim"):
            await claimed_volume(cluster.client, folders, pod.spec.volumes[0], pod)
        own = MergePatch({"spec": {"claimRef": {"name": "mine", "uid": claim.metadata.uid}}})
        await cluster.client.patch(PersistentVolume, own, name="theirs")
        place = await claimed_volume(cluster.client, folders, pod.spec.volumes[0], pod)
        assert place.folder == tmp_path
