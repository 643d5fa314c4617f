"""Paths of Pods that run as processes do not lead out of the Pod's folder."""

from __future__ import annotations

from pathlib import Path

from integration.programs import Programs
from integration.programs import programs as programs
from kubewright import ObjectMeta
from kubewright.apis.core.v1 import ConfigMap, Pod
from kubewright.testing import Cluster

SHOW = "import os; print(os.path.realpath(os.environ['CONTAINER_SANDBOX_MOUNT_POINT']), os.getcwd())"


async def test_mounts_messages_and_working_folders_stay_in_the_pod(
    programs: Programs, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    out = f"/../../../../../../../../../..{tmp_path}"
    await cluster.client.create(ConfigMap(metadata=ObjectMeta(name="own", namespace=namespace), data={"k": "new"}))
    container = {
        "image": programs.image(SHOW),
        "workingDir": f"{out}/work",
        "terminationMessagePath": f"{out}/precious",
        "volumeMounts": [
            {"name": "own", "mountPath": f"{out}/precious", "subPath": "k"},
            {"name": "own", "mountPath": f"{out}/new"},
        ],
    }
    mounts_only = container | {"terminationMessagePath": "/m"}
    await programs.pod([mounts_only], volumes=[{"name": "own", "configMap": {"name": "own"}}], restartPolicy="Never")
    await programs.until(has_ended)
    await programs.pod([container | {"volumeMounts": []}], name="q", restartPolicy="Never")
    await programs.until(has_ended, "q")
    assert precious.read_text() == "kept"
    assert not precious.is_symlink()
    assert [each.name for each in tmp_path.iterdir()] == ["precious"]
    root, folder = (await programs.log()).split()
    assert Path(folder) == Path(f"{root}{tmp_path}/work")


def has_ended(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")
