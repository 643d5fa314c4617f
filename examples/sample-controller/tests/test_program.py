"""Start and shutdown of the program."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from kubewright import Client, Config
from kubewright.testing import Cluster, eventually

from foos import PROJECT, BeforeCreation, Foos, condition_of
from sample_controller.controller.foo import FooController


async def started(kubeconfig: Path, *flags: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "sample_controller.main", f"--kubeconfig={kubeconfig}", "--log-format=console", *flags),
        env={**os.environ, "PYTHONPATH": str(PROJECT / "src")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )


async def test_the_program_stops_on_sigterm_with_status_0(cluster: Cluster, foos: Foos, account: Config) -> None:
    process = await started(cluster.kubeconfig(account))
    await foos.create()
    await foos.synced()
    process.send_signal(signal.SIGTERM)
    output, _ = await process.communicate()
    log = output.decode()
    assert process.returncode == 0, log
    assert f"Deployment created  namespace={foos.namespace} foo=foo deployment=web" in log
    assert log.splitlines()[-1].endswith("Controller stopped")
    assert "Traceback" not in log


async def test_the_program_names_a_missing_permission_and_exits(cluster: Cluster, foos: Foos) -> None:
    async with cluster.service_account([], namespace=foos.namespace) as account:
        process = await started(cluster.kubeconfig(account), "--sync-timeout=10")
        output, _ = await process.communicate()
    log = output.decode()
    assert process.returncode == 1
    assert "foos.samplecontroller.k8s.io" in log
    assert "grant list and watch on it" in log
    assert "Traceback" not in log


async def test_a_running_sync_finishes_on_shutdown(foos: Foos, account: Config) -> None:
    creating, proceed = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        creating.set()
        await proceed.wait()

    async with Client(transport=BeforeCreation(account, "web", wait)) as client:
        running = asyncio.create_task(FooController(client).run())
        await foos.create()
        await eventually(creating.wait)
        running.cancel()
        await asyncio.sleep(0)
        assert not running.done()
        proceed.set()
        await asyncio.wait([running])
    assert condition_of(await foos.get()).status == "True"
