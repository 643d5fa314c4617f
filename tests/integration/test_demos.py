"""The demo of every example reaches its states and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from integration.nodeports import on_its_node_port

ROOT = Path(__file__).parents[2]
DEMOS = sorted(ROOT.glob("examples/*/demo.py"))
SAMPLE = "webserver-operator"


async def run(demo: Path, target: str, folder: Path) -> tuple[int | None, str]:
    environment = {**os.environ, "PYTHONPATH": str(demo.parent / "src"), "TMPDIR": str(folder)}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(demo),
        f"--target={target}",
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return process.returncode, output.decode()


def marks(demo: Path) -> list[pytest.MarkDecorator]:
    own = on_its_node_port(demo)
    return [own] if demo.parent.name == SAMPLE else [own, pytest.mark.long]


@pytest.mark.parametrize("demo", [pytest.param(each, id=each.parent.name, marks=marks(each)) for each in DEMOS])
async def test_a_demo_reaches_all_its_states(demo: Path, tmp_path: Path, kubewright_target: str) -> None:
    if kubewright_target == "kubeconfig":
        pytest.skip("a demo starts its own control plane")
    status, output = await run(demo, kubewright_target, tmp_path)
    assert status == 0, output
    assert "All states were reached" in output
    assert os.listdir(tmp_path) == []
