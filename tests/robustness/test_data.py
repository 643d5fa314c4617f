"""A server with a data folder is killed under load, and while it starts. It keeps what it answered, nothing else."""

from __future__ import annotations

import asyncio
import random
import subprocess
from collections import defaultdict
from contextlib import aclosing
from pathlib import Path

import pytest

from integration.command import CONTROL_PLANE, Up, environment, up
from kubewright import Client, Config, ObjectMeta
from kubewright.apis.core.v1 import ConfigMap
from kubewright.machinery.errors import ConnectionFailed

CLIENTS = 4
NAMES = 20
Content = str | None
"""The value in an object; None if it was deleted."""
NOTHING: tuple[Content, int] = (None, 0)


def config_map(name: str, value: str) -> ConfigMap:
    """Return an object that contains its value three times, with much between."""
    data = {"a": value, "m": value * 100, "z": value}
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data)


def content_of(obj: ConfigMap) -> str:
    value = obj.data["a"]
    assert obj.data == config_map("", value).data, f"{obj.metadata.name} is half-written: {obj.data}"
    return value


class Load:
    """Clients that write ConfigMaps of their own, and know what was answered."""

    def __init__(self, seed: int) -> None:
        self.answered: dict[str, tuple[Content, int]] = {}
        """The content of each object after the last answered write, and its revision."""
        self.pending: defaultdict[str, set[Content]] = defaultdict(set)
        """The contents of writes that were sent since, and not answered."""
        self.revisions: dict[int, tuple[str, Content]] = {}
        """What each revision wrote, as answers and watches showed it."""
        self.writes = 0
        self._random = random.Random(seed)

    def note(self, revision: int, name: str, content: Content) -> None:
        """See that a revision is used for one write alone."""
        known = self.revisions.setdefault(revision, (name, content))
        assert known == (name, content), f"revision {revision} was {known}, and is {name}, {content} too"

    async def write(self, client: Client, number: int, began: asyncio.Event) -> None:
        """Write until the server is gone."""
        while True:
            name = f"c{number}-{self._random.randrange(NAMES)}"
            exists = self.answered.get(name, NOTHING)[0] is not None
            value = None if exists and self._random.random() < 0.3 else str(self._random.randrange(10**9))
            self.pending[name].add(value)
            newest = max(self.revisions, default=0)
            revision = 0
            try:
                if value is None:
                    await client.delete(ConfigMap, name, namespace="default")
                else:
                    write = client.update if exists else client.create
                    revision = int((await write(config_map(name, value))).metadata.resource_version)
            except (ConnectionFailed, TimeoutError):
                return
            if revision:
                assert self.writes or revision > newest, f"the first write has revision {revision} after {newest}"
                self.note(revision, name, value)
            self.answered[name] = (value, revision)
            self.pending[name].clear()
            self.writes += 1
            if self.writes >= CLIENTS:
                began.set()

    async def watch(self, client: Client, start: str) -> None:
        """Note the revisions of a watch, which may show writes that were not answered."""
        last = int(start)
        try:
            async with aclosing(client.watch(ConfigMap, namespace="default", resource_version=start)) as events:
                async for event in events:
                    obj = event.object
                    revision = int(obj.metadata.resource_version)
                    assert revision > last, f"a watch went from revision {last} to {revision}"
                    last = revision
                    self.note(revision, obj.metadata.name, None if event.type == "DELETED" else content_of(obj))
        except ConnectionFailed:
            return

    async def check(self, client: Client) -> str:
        """See that each object is as it was answered, or as a write that was not answered left it.

        Returns the revision of the list.
        """
        listed = await client.list(ConfigMap, namespace="default")
        answered = [revision for _, revision in self.answered.values()]
        assert int(listed.resource_version) >= max(answered, default=0), "the revision of lists went back"
        found = {each.metadata.name: each for each in listed}
        for name in self.answered.keys() | self.pending.keys():
            self._check_object(name, found.get(name))
        self.pending.clear()
        self.writes = 0
        return listed.resource_version

    def _check_object(self, name: str, obj: ConfigMap | None) -> None:
        before, revision = self.answered.get(name, NOTHING)
        now = content_of(obj) if obj is not None else None
        current = int(obj.metadata.resource_version) if obj is not None else 0
        assert now in {before, *self.pending[name]}, f"{name}: {now}, lost {before}"
        if obj is not None:
            assert current >= revision, f"{name} went from revision {revision} back to {current}"
            assert now != before or current == revision, f"{name}: revision {current} was answered as {revision}"
            self.note(current, name, now)
        self.answered[name] = (now, current)


def arguments(folder: Path) -> list[str]:
    return ["--bare", "--data", str(folder / "data")]


def kill_while_starting(folder: Path, seconds: float) -> None:
    process = subprocess.Popen(
        [CONTROL_PLANE, *arguments(folder)],
        cwd=folder,
        env=environment(None) | {"TMPDIR": str(folder)},
        stdout=subprocess.DEVNULL,
    )
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


async def kill_often(folder: Path, times: int, seed: int, *, starts: int) -> None:
    """Kill a loaded server at random moments, and before some of them a server that starts."""
    load, moments = Load(seed), random.Random(seed)
    for number in range(times):
        if number < starts:
            kill_while_starting(folder, moments.random())
        server = Up(folder, *arguments(folder), command=(CONTROL_PLANE,))
        try:
            async with Client(Config.from_kubeconfig(server.kubeconfig)) as client:
                start = await load.check(client)
                began = asyncio.Event()
                async with asyncio.TaskGroup() as group:
                    group.create_task(load.watch(client, start))
                    for each in range(CLIENTS):
                        group.create_task(load.write(client, each, began))
                    await began.wait()
                    await asyncio.sleep(moments.random() * 0.2)
                    server.kill()
        finally:
            server.kill()
    with up(folder, *arguments(folder), command=(CONTROL_PLANE,)) as server:
        async with Client(Config.from_kubeconfig(server.kubeconfig)) as client:
            await load.check(client)


@pytest.mark.timeout(600)
async def test_no_answered_write_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    await kill_often(tmp_path, 10, seed=1, starts=1)


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_no_answered_write_is_lost_in_200_kills(tmp_path: Path) -> None:
    await kill_often(tmp_path, 200, seed=2, starts=50)
