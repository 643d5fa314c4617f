"""kubectl, as tests run it: the one that was built for the real control plane, or the user's own."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest
from kubewright.testing import Cluster

BUILT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kubewright/controlplane/current/bin")
KUBECTL = shutil.which("kubectl", path=BUILT) or shutil.which("kubectl")
needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="needs kubectl")


async def kubectl(cluster: Cluster, *arguments: str) -> str:
    """Return the output of a command that must succeed."""
    assert KUBECTL is not None
    kubeconfig = cluster.kubeconfig()
    process = await asyncio.create_subprocess_exec(
        KUBECTL,
        f"--kubeconfig={kubeconfig}",
        f"--cache-dir={kubeconfig}.cache",  # the default cache keeps the list of kinds for hours
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complaint = await process.communicate()
    assert process.returncode == 0, complaint.decode()
    return said.decode()
