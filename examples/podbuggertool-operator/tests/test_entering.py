"""A shell in a running Pod, by `kubectl exec`."""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Final

import pytest
from kubewright import Manager
from kubewright.testing import Cluster, eventually
from kubewright_controlplane import STAND_INS

from podbuggertools import Podbuggertools

BUILT: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kubewright/controlplane/current/bin")
KUBECTL: Final = shutil.which("kubectl", path=f"{BUILT}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl")
async def test_the_container_can_be_entered(
    cluster: Cluster, tools: Podbuggertools, operator: Manager, kubewright_target: str
) -> None:
    if kubewright_target == "kubeconfig":
        pytest.skip("whether there is a shell to enter is up to the images of that cluster")
    async with cluster.images(STAND_INS):
        await tools.create_pod()
        await tools.create()
        await tools.installed()
        await eventually(runs, tools)
        ours, theirs = os.openpty()
        entered = await asyncio.create_subprocess_exec(
            str(KUBECTL), f"--kubeconfig={cluster.kubeconfig()}", f"--namespace={tools.namespace}",
            "exec", "-it", "pod", "-c", "ephemeral-busybox", "--", "sh", stdin=theirs, stdout=theirs, stderr=theirs,
        )  # fmt: skip
        os.close(theirs)
        try:
            os.write(ours, b'echo "in $HOSTNAME, $(test -t 0 && echo at a terminal)"; exit 3\n')
            said = await asyncio.to_thread(until, ours, b"in pod, at a terminal")
            assert await entered.wait() == 3, said
        finally:
            os.close(ours)
        await runs(tools)


async def runs(tools: Podbuggertools) -> None:
    states = [each.state for each in (await tools.pod()).status.ephemeral_container_statuses]
    assert [state is not None and state.running is not None for state in states] == [True], states


def until(terminal: int, text: bytes) -> bytes:
    said = b""
    while text not in said:
        said += os.read(terminal, 1024)
    return said
