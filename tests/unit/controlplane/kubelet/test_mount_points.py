"""Folders and files that the kubelet creates where programs can write: no symbolic link leads it elsewhere."""

import os
import sys
from pathlib import Path

import pytest

from kubewright_controlplane.kubelet import rootfolder
from kubewright_controlplane.kubelet.rootfolder import Mount, build

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sandboxes need Linux")


@pytest.mark.parametrize("is_file", [False, True])
def test_a_mount_below_a_subpath_that_became_a_link_creates_nothing_elsewhere(tmp_path: Path, is_file: bool) -> None:
    outside, volume, other, base = (tmp_path / each for each in ("outside", "volume", "other", "base"))
    for each in (outside, volume, base):
        each.mkdir()
    other.touch() if is_file else other.mkdir()
    (volume / "x").symlink_to(outside)
    mounts = [
        Mount(volume, "/m", read_only=False, within="x"),
        Mount(other, "/m/made/here", read_only=False),
    ]
    with pytest.raises(OSError, match="x"):
        build(tmp_path / "root", base, mounts, "/", ())
    assert not list(outside.iterdir())


def test_a_folder_that_is_replaced_by_a_link_keeps_the_mode_of_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o700)
    make = os.mkdir

    def make_and_replace(path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        make(path, mode, dir_fd=dir_fd)
        os.rmdir(path, dir_fd=dir_fd)
        os.symlink(outside, path, dir_fd=dir_fd)

    monkeypatch.setattr("os.mkdir", make_and_replace)
    with pytest.raises(OSError, match="new"):
        rootfolder.make_below(tmp_path, "new", 0o777)
    assert outside.stat().st_mode & 0o777 == 0o700
