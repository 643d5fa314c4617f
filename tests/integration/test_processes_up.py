"""Processes of `kubewright up`: they end with the control plane and restart with its data."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from integration.command import cluster_of, up
from integration.programs import Programs, ended, is_alive, is_running, process_id, status
from integration.test_processes import GRACEFUL, STUBBORN


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
