"""`make controlplane` if it cannot build, and if nothing needs to be built."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "tools" / "controlplane" / "build.py"


def build(cache: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, str(SCRIPT), "--cache", str(cache))
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)


def fake_go(folder: Path, script: str) -> str:
    """Return a PATH that has only a `go` that runs `script`."""
    folder.mkdir()
    (folder / "go").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "go").chmod(0o755)
    return str(folder)


def test_without_go_one_line_says_what_is_missing_and_what_still_works(tmp_path: Path) -> None:
    done = build(tmp_path / "cache", PATH=str(tmp_path))
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "needs Go 1.26" in done.stderr
    assert "embedded control plane works without Go" in done.stderr
    assert not (tmp_path / "cache").exists()


def test_a_go_that_is_too_old_is_reported_with_its_output(tmp_path: Path) -> None:
    path = fake_go(tmp_path / "bin", "echo 'go: go.mod requires go >= 1.26.0 (running go 1.22.0)' >&2; exit 1")
    done = build(tmp_path / "cache", PATH=path)
    assert done.returncode == 1
    assert "running go 1.22.0" in done.stderr


def test_a_build_that_fails_names_the_package_and_leaves_nothing_that_looks_whole(tmp_path: Path) -> None:
    path = fake_go(tmp_path / "bin", '[ "$1" = build ] || exit 0; echo no space left >&2; exit 1')
    done = build(tmp_path / "cache", PATH=path)
    assert done.returncode == 1
    assert "go.etcd.io/etcd/server/v3` failed" in done.stderr
    assert "no space left" in done.stderr
    assert not list((tmp_path / "cache").iterdir())


def test_the_second_time_only_the_folder_is_printed(tmp_path: Path) -> None:
    stages = tmp_path / "module" / "kustomize" / "stage"
    for folder in ("pod/fast", "node/fast", "node/heartbeat-with-lease"):
        (stages / folder).mkdir(parents=True)
        (stages / folder / f"{folder.replace('/', '-')}.yaml").touch()
    path = fake_go(tmp_path / "bin", f'[ "$1" != list ] || echo {tmp_path / "module"}')
    first = build(tmp_path / "cache", PATH=path)
    assert first.returncode == 0, first.stderr
    second = build(tmp_path / "cache", PATH=str(tmp_path))
    assert (second.returncode, second.stdout, second.stderr) == (0, first.stdout, "")
    assert Path(second.stdout.strip()) == (tmp_path / "cache" / "current" / "bin").resolve()
