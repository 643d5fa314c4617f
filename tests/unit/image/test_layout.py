"""A layout has whole blobs, and names what is complete."""

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


async def test_what_comes_is_checked_and_nothing_is_kept_of_what_is_wrong(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    blob = Descriptor.of(LAYER, b"right")
    with pytest.raises(ConfigError, match="is not what came"):
        await layout.receive(blob, chunks(b"wro", b"ng"))
    assert not layout.has(blob)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    await layout.receive(blob, chunks(b"ri", b"ght"))
    assert layout.read(blob) == b"right"


def test_a_layout_that_is_published_anew_keeps_nothing_of_the_image_before(tmp_path: Path) -> None:
    layout = write_base(tmp_path)
    stale = layout.write(LAYER, b"stale")
    layout.publish(layout.images[0], "again")
    assert not layout.has(stale)
    assert [image.name for image in layout.images] == ["again"]
    assert all(layout.has(blob) for blob in layout.closure(layout.images[0]))


def test_an_index_tells_its_platforms(tmp_path: Path) -> None:
    layout = write_base(tmp_path, (AMD64, ARM64))
    assert set(layout.platforms(layout.images[0])) == {AMD64, ARM64}


def test_what_is_not_a_layout_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is not an OCI image layout: it has no index\.json"):
        Layout(tmp_path).images  # noqa: B018 -- a property that reads


def test_an_archive_has_all_of_it(tmp_path: Path) -> None:
    layout = write_base(tmp_path / "layout")
    layout.archive(tmp_path / "image.tar")
    with tarfile.open(tmp_path / "image.tar") as archive:
        names = set(archive.getnames())
    assert names == {str(path.relative_to(layout.root)) for path in layout.root.rglob("*") if path.is_file()}
