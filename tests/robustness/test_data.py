"""A server with a data folder is killed under load: nothing that it answered is lost."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from pathlib import Path

import pytest

from integration.command import CONTROL_PLANE, Up, up
from kubewright import Client, Config, ObjectMeta
from kubewright.apis.core.v1 import ConfigMap
from kubewright.machinery.errors import ConnectionFailed

CLIENTS = 4
NAMES = 20


class Load:
    """Clients that write ConfigMaps of their own, and know what was answered."""

    def __init__(self, seed: int) -> None:
        self.answered: dict[str, str | None] = {}
        """The value of each object after the last answered write; None if it was deleted."""
        self.pending: defaultdict[str, set[str | None]] = defaultdict(set)
        """The values of writes that were sent since, and not answered."""
        self.writes = 0
        self._random = random.Random(seed)

    async def write(self, client: Client, number: int, began: asyncio.Event) -> None:
        """Write until the server is gone."""
        while True:
            name = f"c{number}-{self._random.randrange(NAMES)}"
            exists = self.answered.get(name) is not None
            value = None if exists and self._random.random() < 0.3 else str(self._random.randrange(10**9))
            self.pending[name].add(value)
            metadata = ObjectMeta(name=name, namespace="default")
            try:
                if value is None:
                    await client.delete(ConfigMap, name, namespace="default")
                elif exists:
                    await client.update(ConfigMap(metadata=metadata, data={"k": value}))
                else:
                    await client.create(ConfigMap(metadata=metadata, data={"k": value}))
            except (ConnectionFailed, TimeoutError):
                return
            self.answered[name] = value
            self.pending[name].clear()
            self.writes += 1
            if self.writes >= CLIENTS:
                began.set()

    async def check(self, client: Client) -> None:
        """See that each object is as it was answered, or as a write that was not answered left it."""
        found = {each.metadata.name: each.data["k"] for each in await client.list(ConfigMap, namespace="default")}
        for name in self.answered.keys() | self.pending.keys():
            now = found.get(name)
            assert now in {self.answered.get(name), *self.pending[name]}, f"{name}: {now}, lost {self.answered[name]}"
            self.answered[name] = now
        self.pending.clear()


def serve(folder: Path) -> Up:
    return Up(folder, "--bare", "--data", folder / "data", command=(CONTROL_PLANE,))


async def kill_often(folder: Path, times: int, seed: int) -> None:
    load, moments = Load(seed), random.Random(seed)
    for _ in range(times):
        server = serve(folder)
        try:
            config = Config.from_kubeconfig(server.kubeconfig)
            async with Client(config) as client:
                await load.check(client)
                began = asyncio.Event()
                writing = [asyncio.create_task(load.write(client, number, began)) for number in range(CLIENTS)]
                await began.wait()
                await asyncio.sleep(moments.random() * 0.2)
                server.kill()
                await asyncio.gather(*writing)
        finally:
            server.kill()
    with up(folder, "--bare", "--data", folder / "data", command=(CONTROL_PLANE,)) as server:
        async with Client(Config.from_kubeconfig(server.kubeconfig)) as client:
            await load.check(client)


async def test_no_answered_write_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    await kill_often(tmp_path, 3, seed=1)


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_no_answered_write_is_lost_in_200_kills(tmp_path: Path) -> None:
    await kill_often(tmp_path, 200, seed=2)
