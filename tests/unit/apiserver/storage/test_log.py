"""A store with a log restores its state."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from kubewright.machinery.errors import ConfigError, Gone, InternalError
from kubewright_controlplane.apiserver.storage.log import SQLiteLog
from kubewright_controlplane.apiserver.storage.store import Store

from .conftest import put


def leave(folder: Path, copy: Path) -> None:
    """Copy the files in `folder` to `copy`, as if the process were killed now."""
    copy.mkdir()
    for file in folder.glob("log.db*"):
        (copy / file.name).write_bytes(file.read_bytes())


async def test_a_store_restores_its_objects_and_revision(tmp_path: Path) -> None:
    store = Store(log=SQLiteLog(tmp_path))
    put(store, "ns/a", b"1", app="web")
    put(store, "ns/a", b"2", app="web")
    put(store, "ns/b", b"1")
    store.put("nodes", "n", b"1", {}, {"spec.unschedulable": "true"})
    store.remove("pods", "ns/b", b"1")
    await store.close()

    again = Store(log=SQLiteLog(tmp_path))
    assert again.revision == store.revision
    entry, node = again.get("pods", "ns/a"), again.get("nodes", "n")
    assert entry is not None
    assert node is not None
    assert (entry.data, entry.labels, entry.revision) == (b"2", {"app": "web"}, 3)
    assert node.fields == {"spec.unschedulable": "true"}
    assert [entry.key for entry in again.scan("pods")] == ["ns/a"]
    await again.close()


async def test_revisions_continue_after_a_restart_even_if_the_last_commit_was_a_deletion(tmp_path: Path) -> None:
    store = Store(log=SQLiteLog(tmp_path))
    put(store, "a")
    store.remove("pods", "a", b"{}")
    last = store.revision
    await store.close()
    for _ in range(2):
        again = Store(log=SQLiteLog(tmp_path))
        assert again.revision == last
        await again.close()


async def test_a_watch_from_before_a_restart_raises_gone(tmp_path: Path) -> None:
    store = Store(log=SQLiteLog(tmp_path))
    put(store, "a")
    then = store.revision
    put(store, "a")
    await store.close()
    again = Store(log=SQLiteLog(tmp_path))
    with pytest.raises(Gone):
        again.watch("pods", then)
    await again.close()


async def test_flushed_commits_survive_a_killed_process(tmp_path: Path) -> None:
    store = Store(log=SQLiteLog(tmp_path / "live"))
    put(store, "a", b"1")
    await store.flush()
    leave(tmp_path / "live", tmp_path / "copy")
    again = Store(log=SQLiteLog(tmp_path / "copy"))
    entry = again.get("pods", "a")
    assert entry is not None
    assert entry.data == b"1"
    await again.close()
    await store.close()


async def test_a_watch_from_a_lost_commit_raises_gone(tmp_path: Path) -> None:
    store = Store(log=SQLiteLog(tmp_path / "live"))
    put(store, "a")
    await store.flush()
    leave(tmp_path / "live", tmp_path / "copy")
    put(store, "lost")
    lost = store.revision
    again = Store(log=SQLiteLog(tmp_path / "copy"))
    assert again.revision > lost
    with pytest.raises(Gone):
        again.watch("pods", lost)
    await again.close()
    await store.close()


@pytest.mark.parametrize("kept", [True, False], ids=["in a folder with objects", "in a new folder"])
async def test_revisions_of_lost_commits_are_not_used_again(tmp_path: Path, kept: bool) -> None:
    first = Store(log=SQLiteLog(tmp_path / "first"))
    if kept:
        put(first, "a")
        await first.flush()
    leave(tmp_path / "first", tmp_path / "second")
    second = Store(log=SQLiteLog(tmp_path / "second"))
    leave(tmp_path / "second", tmp_path / "third")
    put(second, "lost")
    third = Store(log=SQLiteLog(tmp_path / "third"))
    assert third.revision > second.revision
    with pytest.raises(Gone):
        third.watch("pods", second.revision)
    for store in (first, second, third):
        await store.close()


async def test_a_log_drops_replaced_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubewright_controlplane.apiserver.storage.log.COMPACT_EVERY", 10)
    store = Store(log=SQLiteLog(tmp_path))
    put(store, "kept", b"1")
    for _ in range(3):
        for number in range(20):
            put(store, "a", str(number).encode())
        put(store, "gone")
        store.remove("pods", "gone", b"{}")
        await store.flush()
    await store.close()
    with closing(sqlite3.connect(tmp_path / "log.db")) as database:
        (rows,) = database.execute("SELECT count(*) FROM log").fetchone()
    assert rows == 3, "one for each object, and the last deletion"
    again = Store(log=SQLiteLog(tmp_path))
    assert [(entry.key, entry.data) for entry in again.scan("pods")] == [("a", b"19"), ("kept", b"1")]
    assert again.revision == store.revision
    await again.close()


async def test_a_folder_is_locked_by_one_server(tmp_path: Path) -> None:
    store = Store(log=SQLiteLog(tmp_path))
    with pytest.raises(ConfigError, match=r"is in use by process \d+"):
        SQLiteLog(tmp_path)
    await store.close()
    await Store(log=SQLiteLog(tmp_path)).close()


def test_the_error_of_an_unusable_folder_names_it(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a folder")
    with pytest.raises(ConfigError, match=f'data folder "{file}" cannot be used'):
        SQLiteLog(file)


async def test_the_files_are_private(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    store = Store(log=SQLiteLog(folder))
    put(store, "a")
    await store.flush()
    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())}
    assert modes.pop("data") == 0o700
    assert set(modes) >= {"log.db", "log.db-wal", "server.pid"}
    assert set(modes.values()) == {0o600}
    await store.close()


async def test_an_empty_folder_becomes_private(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    await Store(log=SQLiteLog(folder)).close()
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["log.db", "server.pid"])
def test_a_symbolic_link_in_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    other = tmp_path / "other"
    other.write_text("precious")
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / name).symlink_to(other)
    with pytest.raises(ConfigError, match="cannot be used"):
        SQLiteLog(folder)
    assert other.read_text() == "precious"


async def test_a_write_that_fails_on_disk_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = SQLiteLog(tmp_path)
    store = Store(log=log)

    def fail(rows: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(log, "_write", fail)
    put(store, "a")
    with pytest.raises(InternalError, match="the data folder cannot be written: disk I/O error"):
        await store.flush()
    await store.close()
