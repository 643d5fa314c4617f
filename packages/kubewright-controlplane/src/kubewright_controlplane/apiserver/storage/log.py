"""The log on disk: every commit is appended to a SQLite table, which is replayed at start.

Commits gather while the log's thread writes a batch, and form the next batch. A request is answered when its batch is
on disk (`flush`), so no answered write is lost when the process or the machine stops. Watches may have shown a commit
that is lost; its revision is not used again, so that clients that have seen it get an error and list again, instead of
waiting for events. Rows that later ones replace are deleted at start and at intervals.

Only the user of the process can read the files. A symbolic link in place of one of them is refused.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

import msgspec

from kubewright._runtime.log import get_logger
from kubewright.machinery.errors import ConfigError, InternalError
from kubewright_controlplane.apiserver.storage.events import Entry, Event

_log = get_logger(__name__)

Row: TypeAlias = tuple[int, str, str, bytes | None, bytes]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS log (
    revision INTEGER PRIMARY KEY,
    resource TEXT NOT NULL,
    key TEXT NOT NULL,
    data BLOB,
    selectors BLOB NOT NULL
)
"""
_DROP_SUPERSEDED = """
DELETE FROM log WHERE revision < (SELECT max(revision) FROM log)
AND (data IS NULL OR revision NOT IN (SELECT max(revision) FROM log GROUP BY resource, key))
"""
_START = "INSERT OR IGNORE INTO log VALUES (?, '', '', NULL, x'')"
"""The row that marks the start of a process, written before its first revision, because all its commits may be lost."""
_LOST_AT_MOST = 1_000_000
"""The number of revisions that are skipped after a process that did not close its log."""

COMPACT_EVERY = 50_000
"""The number of rows between two cleanups."""


class SQLiteLog:
    """A log in the file `log.db` of a folder. It creates the folder if needed and locks it.

    Without `sync`, a crash of the machine may lose the last commits. Raises ConfigError if another server uses the
    folder, or if it is not writable.
    """

    def __init__(self, folder: Path, *, sync: bool = True) -> None:
        self._pending: list[Row] = []
        self._appended = 0
        self._commits = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        """Who waits until as many commits are on disk, in order."""
        self._writing: asyncio.Task[None] | None = None
        self._failure: sqlite3.Error | None = None
        self._closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kubewright-log")
        self._database = _open(folder, sync=sync)

    def load(self) -> tuple[dict[str, dict[str, Entry]], int]:
        database = self._database
        (last,) = database.execute("SELECT max(revision) FROM log").fetchone()
        (closed,) = database.execute("PRAGMA user_version").fetchone()
        if last is None:
            last = 1
        elif not closed:
            last += _LOST_AT_MOST
        database.execute("PRAGMA user_version = 0")
        with database:
            database.execute(_START, (last,))
            self._drop_superseded()
        kept: dict[str, dict[str, Entry]] = {}
        rows = database.execute("SELECT revision, resource, key, data, selectors FROM log WHERE data IS NOT NULL")
        for revision, resource, key, data, selectors in rows:
            labels, fields = msgspec.json.decode(selectors)
            kept.setdefault(resource, {})[key] = Entry(key, revision, data, labels, fields)
        return kept, last

    def append(self, event: Event) -> None:
        if self._failure is not None:
            raise self._unwritable()
        entry = event.entry
        self._commits += 1
        if event.type == "DELETED":
            self._pending.append((event.revision, event.resource, entry.key, None, b""))
        else:
            selectors = msgspec.json.encode((entry.labels, entry.fields))
            self._pending.append((event.revision, event.resource, entry.key, entry.data, selectors))
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write_pending())

    async def _write_pending(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._pending:
                rows, self._pending = self._pending, []
                await loop.run_in_executor(self._thread, self._write, rows)
                written = self._commits - len(self._pending)
                while self._waiting and self._waiting[0][0] <= written:
                    _wake(self._waiting.popleft()[1], None)
        except sqlite3.Error as error:
            self._failure = error
            _log.critical("Data folder write failed, further writes are rejected", exc_info=error)
        finally:
            self._writing = None
            for _, future in self._waiting:
                _wake(future, self._unwritable())
            self._waiting.clear()

    def _unwritable(self) -> InternalError:
        return InternalError(f"the data folder cannot be written: {self._failure or 'the server stops'}")

    def _write(self, rows: list[Row]) -> None:
        self._appended += len(rows)
        with self._database:
            self._database.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?)", rows)
            if self._appended >= COMPACT_EVERY:
                self._drop_superseded()
                self._appended = 0

    def _drop_superseded(self) -> None:
        """Keep the last row of each key. Of deletions, keep only the last commit, which holds the revision."""
        self._database.execute(_DROP_SUPERSEDED)

    async def flush(self) -> None:
        if self._writing is not None:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((self._commits, future))
            await future

    async def close(self) -> None:
        if self._writing is not None:
            await self._writing
        if self._closed:
            return
        self._closed = True
        self._thread.shutdown()
        if self._failure is None:
            self._database.execute("PRAGMA user_version = 1")
        self._database.close()


def _wake(future: asyncio.Future[None], error: Exception | None) -> None:
    if future.done():  # the client has gone
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


def _open(folder: Path, *, sync: bool) -> sqlite3.Connection:
    """Open the database for this process alone. SQLite's lock ends with the process."""
    owner = folder / "server.pid"
    try:
        _make_private(folder)
        os.close(_open_private(folder / "log.db"))  # SQLite gives its other files the same permissions
        database = sqlite3.connect(folder / "log.db", check_same_thread=False, timeout=0)
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(f"PRAGMA synchronous = {'FULL' if sync else 'OFF'}")
        database.execute(_SCHEMA)
        with os.fdopen(_open_private(owner), "w") as file:
            file.truncate()
            file.write(f"{os.getpid()}\n")
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise ConfigError(f'data folder "{folder}" cannot be used: {error}') from error
        by = f"process {owner.read_text().strip()}" if owner.exists() else "another process"
        raise ConfigError(
            f'data folder "{folder}" is in use by {by}; stop that server, or choose another folder'
        ) from error
    except (OSError, sqlite3.DatabaseError) as error:
        raise ConfigError(f'data folder "{folder}" cannot be used: {error}') from error
    return database


def _make_private(folder: Path) -> None:
    """Create a folder for this user alone. An existing one must be this user's, and is made private if it is empty."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.getuid() not in (0, folder.stat().st_uid):
        raise PermissionError("it belongs to another user")
    if not any(folder.iterdir()):
        folder.chmod(0o700)


def _open_private(path: Path) -> int:
    """Open a file, which may not exist, for this user alone. Raises OSError, also for a symbolic link."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor
