"""A layout has only complete blobs, and its index names complete images."""

import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from images import AMD64, ARM64, write_base
from kubewright.machinery.errors import ConfigError
from kubewright_cli.image.content import LAYER, Descriptor
from kubewright_cli.image.layout import Layout


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def test_a_received_blob_is_checked_and_not_kept_if_it_is_wrong(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    blob = Descriptor.of(LAYER, b"right")
    with pytest.raises(ConfigError, match="expected sha256:"):
        await layout.receive(blob, chunks(b"wro", b"ng"))
    assert not layout.has(blob)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    await layout.receive(blob, chunks(b"ri", b"ght"))
    assert layout.read(blob) == b"right"


def test_publish_removes_the_blobs_of_the_previous_image(tmp_path: Path) -> None:
    layout = write_base(tmp_path)
    stale = layout.write(LAYER, b"stale")
    layout.publish(layout.images[0], "again")
    assert not layout.has(stale)
    assert [image.name for image in layout.images] == ["again"]
    assert all(layout.has(blob) for blob in layout.closure(layout.images[0]))


def test_an_index_lists_its_platforms(tmp_path: Path) -> None:
    layout = write_base(tmp_path, (AMD64, ARM64))
    assert set(layout.platforms(layout.images[0])) == {AMD64, ARM64}


def test_a_folder_without_an_index_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is not an OCI image layout: it has no index\.json"):
        Layout(tmp_path).images  # noqa: B018 -- a property that reads


def test_an_archive_has_all_files(tmp_path: Path) -> None:
    layout = write_base(tmp_path / "layout")
    layout.archive(tmp_path / "image.tar")
    with tarfile.open(tmp_path / "image.tar") as archive:
        names = set(archive.getnames())
    assert names == {str(path.relative_to(layout.root)) for path in layout.root.rglob("*") if path.is_file()}
