"""The program: how it starts, and how it ends."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from kubewright import Client, Config
from kubewright.testing import Cluster, eventually

from foos import PROJECT, BeforeCreation, Foos, condition_of
from sample_controller.controller.foo import FooController


async def started(kubeconfig: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "sample_controller.main", f"--kubeconfig={kubeconfig}", "--log-format=console"),
        env={**os.environ, "PYTHONPATH": str(PROJECT / "src")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )


async def test_it_works_until_sigterm_and_ends_with_status_0(cluster: Cluster, foos: Foos, account: Config) -> None:
    process = await started(cluster.kubeconfig(account))
    await foos.create()
    await foos.synced()
    process.send_signal(signal.SIGTERM)
    output, _ = await process.communicate()
    said = output.decode()
    assert process.returncode == 0, said
    assert f"Deployment created  namespace={foos.namespace} foo=foo deployment=web" in said
    assert said.splitlines()[-1].endswith("Stopped")
    assert "Traceback" not in said


async def test_without_its_rights_it_says_which_and_ends(cluster: Cluster, foos: Foos) -> None:
    async with cluster.service_account([], namespace=foos.namespace) as nobody:
        process = await started(cluster.kubeconfig(nobody))
        output, _ = await process.communicate()
    said = output.decode()
    assert process.returncode == 1
    assert "foos.samplecontroller.k8s.io" in said
    assert "grant list and watch on it" in said
    assert "Traceback" not in said


async def test_what_is_in_hand_at_the_stop_is_finished(foos: Foos, account: Config) -> None:
    creating, go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        creating.set()
        await go_on.wait()

    async with Client(transport=BeforeCreation(account, "web", wait)) as client:
        running = asyncio.create_task(FooController(client).run())
        await foos.create()
        await eventually(creating.wait)
        running.cancel()
        await asyncio.sleep(0)
        assert not running.done()
        go_on.set()
        await asyncio.wait([running])
    assert condition_of(await foos.get()).status == "True"
