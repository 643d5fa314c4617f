"""Processes of `kubewright up`: they end with it, restart with its data, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from integration.command import cluster_of, up
from integration.programs import Programs, ended, is_alive, is_running, process_id, status
from integration.test_processes import GRACEFUL, STUBBORN
from kubewright import ObjectMeta
from kubewright.apis.apps.v1 import ReplicaSet
from kubewright.apis.core.v1 import ConfigMap, Pod
from kubewright.models import codec
from kubewright.testing import eventually


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
async def test_no_process_outlives_its_control_plane(tmp_path: Path, number: int) -> None:
    with up(tmp_path) as started:
        async with cluster_of(started) as cluster:
            programs = Programs(cluster, "default")
            await programs.run(STUBBORN)
            parent, child = map(int, (await programs.says("\n")).split())
        started.end(number)
    await ended(parent)
    await ended(child)


async def test_pods_are_restarted_with_their_control_plane(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with up(tmp_path, "--data", data) as first:
        async with cluster_of(first) as cluster:
            programs = Programs(cluster, "default")
            await programs.run(GRACEFUL)
            image = programs.image("print('did it')")
            await programs.pod([{"image": image}], "work", restartPolicy="Never")
            await programs.until(lambda pod: pod.status.phase == "Succeeded", "work")
            await programs.pod([{"image": programs.image(GRACEFUL)}], "once", restartPolicy="Never")
            await programs.until(is_running, "once")
            pid = process_id(await programs.says("\n"))
        first.end(signal.SIGKILL)
    await ended(pid)
    with up(tmp_path, "--data", data) as second:
        async with cluster_of(second) as cluster:
            programs = Programs(cluster, "default")
            pod = await programs.until(lambda pod: status(pod).restart_count == 1 and is_running(pod))
            last = status(pod).last_state
            assert last is not None
            assert last.terminated is not None
            assert last.terminated.reason == "Unknown"
            again = process_id(await programs.says("\n"))
            assert again != pid
            assert is_alive(again)
            assert process_id(await programs.log("previous=true")) == pid
            assert await programs.log(name="work") == "did it\n"
            once = await programs.until(lambda pod: pod.status.phase == "Failed", "once")
            assert status(once).restart_count == 0
        second.end(signal.SIGTERM)
    assert not is_alive(again)
    assert (data / "nodes").stat().st_mode & 0o077 == 0
    assert os.listdir(data / "nodes" / "pods")


async def test_pods_run_with_a_relative_data_folder(tmp_path: Path) -> None:
    """Volumes and mounts are links, which must not depend on the folder that they are read from."""
    with up(tmp_path, "--data", "data") as started:
        async with cluster_of(started) as cluster:
            programs = Programs(cluster, "default")
            program = "import os, time; print(open('/proc/self/cwd/data/key').read(), flush=True); time.sleep(1000)"
            await cluster.client.create(
                ConfigMap(metadata=ObjectMeta(name="settings", namespace="default"), data={"key": "value"})
            )
            await programs.pod(
                [{"image": programs.image(program), "volumeMounts": [{"name": "settings", "mountPath": "/data"}]}],
                volumes=[{"name": "settings", "configMap": {"name": "settings"}}],
            )
            assert await programs.says("value") == "value\n"
        started.end(signal.SIGTERM)


async def test_a_pod_that_cannot_be_created_waits_and_is_not_replaced(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with up(tmp_path, "--data", data) as started:
        async with cluster_of(started) as cluster:
            programs = Programs(cluster, "default")
            image = programs.image(GRACEFUL)
            (data / "nodes/pods").write_text("a file in place of the folder")
            document = {
                "metadata": {"name": "broken", "namespace": "default"},
                "spec": {
                    "replicas": 1,
                    "selector": {"matchLabels": {"app": "broken"}},
                    "template": {
                        "metadata": {"labels": {"app": "broken"}},
                        "spec": {"containers": [{"name": "c", "image": image}]},
                    },
                },
            }
            await cluster.client.create(codec.from_dict(ReplicaSet, document))

            async def waiting() -> Pod:
                pods = list(await cluster.client.list(Pod, namespace="default", labels="app=broken"))
                assert len(pods) == 1
                assert pods[0].status.container_statuses
                state = status(pods[0]).state
                assert state is not None
                assert state.waiting is not None
                assert state.waiting.reason == "CreateContainerError"
                return pods[0]

            pod = await eventually(waiting)
            assert pod.status.phase == "Pending"
            (data / "nodes/pods").unlink()
            running = await programs.until(is_running, pod.metadata.name)
            assert running.metadata.uid == pod.metadata.uid
            assert len(await cluster.client.list(Pod, namespace="default", labels="app=broken")) == 1
        started.end(signal.SIGTERM)


async def test_a_killed_control_plane_leaves_no_folder_after_the_next_start(tmp_path: Path) -> None:
    def folders() -> set[Path]:
        return set(tmp_path.glob("kubewright-*"))

    with up(tmp_path) as killed:
        async with cluster_of(killed) as cluster:
            programs = Programs(cluster, "default")
            await programs.run(GRACEFUL)
            pid = process_id(await programs.says("\n"))
        left = folders()
        assert left
        killed.end(signal.SIGKILL)
    await ended(pid)
    with up(tmp_path) as next_start:
        assert not folders() & left
        assert folders()
        with up(tmp_path, "--kubeconfig", tmp_path / "second", kubeconfig=tmp_path / "second") as second:
            assert len(folders()) == 2
            assert second.end(signal.SIGTERM) == 0
        assert len(folders()) == 1
        assert next_start.end(signal.SIGTERM) == 0
    assert not folders()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux sends a signal when a parent dies")
async def test_a_killed_test_run_leaves_no_control_plane(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from integration.command import Up; "
        "print(Up(Path(sys.argv[1])).pid, flush=True); time.sleep(1000)"
    )
    run = subprocess.Popen(  # noqa: ASYNC220 - it is killed, not awaited
        [sys.executable, "-c", program, tmp_path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    pid = int(run.stdout.readline())
    run.kill()
    run.wait()
    await ended(pid)
    assert not list(tmp_path.glob("kubewright-*"))
