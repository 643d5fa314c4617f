"""Starting the real control plane, as far as it can be tested without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubewright.machinery.errors import ConfigError, DeadlineExceeded
from kubewright_controlplane.real import RealControlPlane, find_binaries


def binary(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def test_kubebuilder_assets_is_searched_for_binaries_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    binary(tmp_path / "cache" / "kubewright" / "controlplane" / "current" / "bin" / "etcd")
    binary(tmp_path / "assets" / "etcd")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    assert tmp_path / "cache" in find_binaries("etcd").parents
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    assert find_binaries("etcd") == tmp_path / "assets"


async def test_without_binaries_the_error_names_them_and_says_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    binary(tmp_path / "etcd")
    with pytest.raises(ConfigError, match=r"lacks kube-apiserver.*make controlplane"):
        async with RealControlPlane(controllers=False):
            pass


async def test_a_component_that_does_not_start_is_reported_with_the_end_of_its_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    binary(tmp_path / "kube-apiserver")
    (tmp_path / "etcd").write_text("#!/bin/sh\necho the disk is full; exit 3\n")
    (tmp_path / "etcd").chmod(0o755)
    with pytest.raises(DeadlineExceeded, match=r"(?s)etcd ended with code 3.*the disk is full"):
        async with RealControlPlane(controllers=False):
            pass
    assert not list(folder.iterdir())
