"""A layer holds the files, and is the same each time."""

import gzip
import hashlib
import io
import os
import tarfile
from pathlib import Path, PurePosixPath

import pytest

from kubewright_cli.image.layer import File, Layer, files_of, write_layer
from kubewright_cli.image.layout import Layout

APP = PurePosixPath("app")


def entries(layout: Layout, layer: Layer) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(layout.read(layer.blob)))) as archive:
        return archive.getmembers()


def test_a_layer_does_not_depend_on_order_times_and_owners(tmp_path: Path) -> None:
    digests: set[str] = set()
    for number, names in enumerate((("b.py", "a.py"), ("a.py", "b.py"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name in names:
            (folder / name).write_text(name)
            os.utime(folder / name, (number * 1000, number * 1000))
        digests.add(write_layer(Layout(tmp_path / "layout"), files_of(folder, APP), "").blob.digest)
    assert len(digests) == 1


def test_files_keep_path_content_links_and_executable_bit(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "bin").mkdir(parents=True)
    (source / "bin" / "tool").write_text("#!/bin/sh\n")
    (source / "bin" / "tool").chmod(0o750)
    (source / "data").write_bytes(b"\0")
    (source / "alias").symlink_to("data")
    layout = Layout(tmp_path / "layout")
    found = {
        each.name: (each.type, each.mode, each.linkname, each.uid)
        for each in entries(layout, write_layer(layout, files_of(source, APP), ""))
    }
    assert found == {
        "app": (tarfile.DIRTYPE, 0o755, "", 0),
        "app/alias": (tarfile.SYMTYPE, 0o777, "data", 0),
        "app/bin": (tarfile.DIRTYPE, 0o755, "", 0),
        "app/bin/tool": (tarfile.REGTYPE, 0o755, "", 0),
        "app/data": (tarfile.REGTYPE, 0o644, "", 0),
    }


def test_the_diff_id_is_the_digest_of_the_content(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layer = write_layer(layout, [File(APP / "a", b"x" * 100_000)], "")
    content = gzip.decompress(layout.read(layer.blob))
    assert layer.diff_id == f"sha256:{hashlib.sha256(content).hexdigest()}"


def test_files_have_the_time_of_source_date_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert {each.mtime for each in entries(layout, write_layer(layout, [File(APP / "a")], ""))} == {1700000000}
