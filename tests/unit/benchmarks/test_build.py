"""Building the measured programs, and the messages if they cannot be built."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.peers import CONTROLLER_RUNTIME, KOPF, KUBE_RS
from benchmarks.peers.build import HERE, build, fingerprint, pinned


@pytest.mark.parametrize("peer", [CONTROLLER_RUNTIME, KUBE_RS, KOPF])
def test_each_peers_version_is_pinned(peer: str) -> None:
    assert [part.isdigit() for part in pinned(peer).split(".")] == [True, True, True]


def test_a_missing_toolchain_is_reported_in_one_line_and_the_rest_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build([CONTROLLER_RUNTIME, KUBE_RS]) == []
    told = capsys.readouterr().err
    assert "controller-runtime omitted: it needs Go 1.26 or newer; no `go`" in told
    assert "kube-rs omitted: it needs Rust 1.88 or newer with cargo; no `cargo`" in told
    assert not list((tmp_path / "kubewright" / "benchmarks").iterdir())


def test_a_build_that_fails_says_why_and_leaves_nothing_that_looks_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "go").write_text("#!/bin/sh\necho 'go.mod requires go >= 1.26.0' >&2\nexit 1\n")
    (tmp_path / "go").chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build([CONTROLLER_RUNTIME]) == []
    assert "go.mod requires go >= 1.26.0" in capsys.readouterr().err
    assert not list((tmp_path / "cache" / "kubewright" / "benchmarks").iterdir())


def test_a_build_is_identified_by_its_sources(tmp_path: Path) -> None:
    (tmp_path / "main.go").write_text("package main\n")
    first = fingerprint(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "x.pyc").touch()
    assert fingerprint(tmp_path) == first
    (tmp_path / "main.go").write_text("package main // changed\n")
    assert fingerprint(tmp_path) != first
    assert fingerprint(tmp_path / "main.go") != fingerprint(HERE / KOPF / "requirements.txt")
