"""The faults of `kubewright.testing`: an operator experiences them like a failing API server."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from kubewright import Context, Manager, controller
from kubewright.apis.core.v1 import ConfigMap
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.client import Client
from kubewright.machinery.errors import APIError, Conflict, ConnectionFailed
from kubewright.testing import Cluster, Faults, eventually, failure, killed_after_each_write

COPIED = "copied-from"


@controller(ConfigMap, owns=[], writes=[ConfigMap])
async def copy_twice(ctx: Context[ConfigMap]) -> None:
    """Create two copies of each marked ConfigMap."""
    original = ctx.object
    if (original.data or {}).get("copies") is None:
        return
    for number in (1, 2):
        metadata = ObjectMeta(name=f"{original.metadata.name}-{number}", labels={COPIED: original.metadata.name})
        await ctx.apply(ConfigMap(metadata=metadata, data={"number": str(number)}))


class Copies:
    """Marked ConfigMaps and their copies."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace

    def operator(self, faults: Faults) -> Manager:
        return Manager([copy_twice], transport=faults, namespaces=self.namespace)

    async def original(self, name: str) -> None:
        metadata = ObjectMeta(name=name, namespace=self.namespace)
        await self.cluster.client.create(ConfigMap(metadata=metadata, data={"copies": "2"}))

    async def of(self, name: str) -> list[str]:
        copies = await self.cluster.client.list(ConfigMap, namespace=self.namespace, labels={COPIED: name})
        return sorted((each.data or {})["number"] for each in copies)

    async def both(self, name: str) -> None:
        assert await self.of(name) == ["1", "2"]


@pytest.fixture
def copies(cluster: Cluster, namespace: str) -> Copies:
    return Copies(cluster, namespace)


async def test_each_run_ends_after_one_more_write(copies: Copies) -> None:
    left: list[list[str]] = []
    async for faults in killed_after_each_write(copies.cluster.config):
        name = f"original-{len(left)}"
        await copies.original(name)
        async with copies.operator(faults):
            await faults.died_or(copies.both, name)
        left.append(await copies.of(name))
        async with copies.operator(Faults(copies.cluster.config)):
            await eventually(copies.both, name)
        await copies.cluster.client.delete(ConfigMap, name, namespace=copies.namespace)
    assert left == [["1"], ["1", "2"], ["1", "2"]]
    assert not faults.died
    assert faults.writes == 2


async def test_no_request_of_a_killed_operator_reaches_the_server(copies: Copies) -> None:
    faults = Faults(copies.cluster.config)
    async with copies.operator(faults):
        faults.die()
        await copies.original("unseen")
        client = Client(transport=faults)
        with pytest.raises(ConnectionFailed, match="the process is dead"):
            await client.get(ConfigMap, "unseen", namespace=copies.namespace)
    assert await copies.of("unseen") == []
    assert faults.writes == 0


async def test_a_failed_last_write_still_ends_the_run(copies: Copies) -> None:
    """The write is canceled, as pending Events are on shutdown, or fails. It may have reached the server."""
    faults = Faults(copies.cluster.config)
    faults.dies_after = 1
    sent = asyncio.Event()

    def note(_: object) -> bool:
        sent.set()
        return False

    faults.loses = note
    made = ConfigMap(metadata=ObjectMeta(name="a", namespace=copies.namespace))
    writing = asyncio.create_task(Client(transport=faults).create(made))
    await sent.wait()
    writing.cancel()
    await asyncio.wait([writing])
    assert faults.died


async def test_an_operator_is_idle_when_everything_is_written(copies: Copies) -> None:
    faults = Faults(copies.cluster.config)
    faults.lag = 0.3
    async with copies.operator(faults):
        await copies.original("original")
        await eventually(copies.both, "original")
        await faults.rest(quiet=1)
        assert faults.writes == 2


async def test_an_operator_that_keeps_writing_is_never_idle(copies: Copies) -> None:
    faults = Faults(copies.cluster.config)
    client = Client(transport=faults)

    async def write() -> None:
        number = 0
        while True:
            metadata = ObjectMeta(name=f"n-{(number := number + 1)}", namespace=copies.namespace)
            await client.create(ConfigMap(metadata=metadata))

    writing = asyncio.create_task(write())
    with pytest.raises(AssertionError, match="the operator still writes after 2 s"):
        await faults.rest(quiet=1.5, within=2)
    writing.cancel()
    await client.close()


async def test_a_check_that_fails_for_another_reason_is_reported_at_once(copies: Copies) -> None:
    async def check() -> None:
        raise ValueError("no number")

    with pytest.raises(ValueError, match="no number"):
        await Faults(copies.cluster.config).died_or(check)


async def test_delayed_watch_events_arrive_in_order(copies: Copies) -> None:
    faults = Faults(copies.cluster.config)
    faults.lag = 0.3
    loop = asyncio.get_running_loop()
    client = Client(transport=faults)
    page = await client.list(ConfigMap, namespace=copies.namespace)
    began = loop.time()
    for number in range(3):
        await copies.original(f"original-{number}")
    seen: list[str] = []
    async for event in client.watch(ConfigMap, namespace=copies.namespace, resource_version=page.resource_version):
        if hasattr(event, "object"):
            seen.append(event.object.metadata.name)
        if len(seen) == 3:
            break
    assert loop.time() - began >= 0.3
    assert seen == ["original-0", "original-1", "original-2"]
    await client.close()


async def test_the_operator_gets_the_answer_of_the_test(copies: Copies) -> None:
    faults = Faults(copies.cluster.config)
    faults.answer = lambda request: failure(409, "Conflict", "not now") if request.method == "PUT" else None
    client = Client(transport=faults)
    await copies.original("original")
    present = await client.get(ConfigMap, "original", namespace=copies.namespace)
    with pytest.raises(Conflict, match="not now"):
        await client.update(present)
    faults.calm()
    await client.update(present)
    await client.close()


async def test_the_request_of_a_lost_answer_was_carried_out(copies: Copies) -> None:
    faults = Faults(copies.cluster.config)
    faults.loses = lambda request: request.method == "POST"
    client = Client(transport=faults)
    lost = ConfigMap(metadata=ObjectMeta(name="lost", namespace=copies.namespace))
    with pytest.raises(ConnectionFailed, match="the answer is lost"):
        await client.create(lost)
    await copies.cluster.client.get(ConfigMap, "lost", namespace=copies.namespace)
    await client.close()


async def test_an_operator_survives_many_faults(copies: Copies) -> None:
    faults = Faults(copies.cluster.config)
    seen = Counter[str]()
    async with copies.operator(faults):
        faults.storm(random.Random(20261122), share=0.5)
        client = Client(transport=faults)
        for number in range(400):  # enough that every type of fault occurs
            if number < 40:
                await copies.original(f"original-{number}")
            try:
                await client.get(ConfigMap, "original-0", namespace=copies.namespace)
            except (APIError, ConnectionFailed) as error:
                seen[type(error).__name__] += 1
        faults.calm()
        for number in range(40):
            await eventually(copies.both, f"original-{number}")
    assert set(seen) == {"InternalError", "ServiceUnavailable", "TooManyRequests", "ConnectionFailed"}
