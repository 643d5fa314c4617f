"""The operators of docs/recipes/pools.md: no address has two holders, and none is lost, whatever fails."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
import pytest_asyncio

from docs.snippets import loaded, programs
from kubewright import Manager, NotFound, ObjectMeta
from kubewright.client import MergePatch
from kubewright.testing import Cluster, Faults, VirtualClock, eventually, gone, killed_after_each_write

NAME: Final = "docs_recipes_pools"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The module of the page."""
    folder: Path = tmp_path_factory.mktemp("pools")
    program = next(each for each in programs() if each.name == NAME)
    (folder / f"{NAME}.py").write_text(program.source)
    return loaded(program, folder)


class Pools:
    """The pools and claims of a test's namespace."""

    def __init__(self, page: Any, cluster: Cluster, namespace: str) -> None:
        self.page, self.cluster, self.namespace = page, cluster, namespace
        self.client = cluster.client

    def operator(self, transport: Faults | None = None, clock: VirtualClock | None = None) -> Manager:
        manager: Manager = self.page.manager.replace(namespaces=self.namespace, clock=clock)
        if transport is None:
            return manager.replace(config=self.cluster.config)
        return manager.replace(transport=transport)

    async def create(self, *addresses: str, name: str = "public", cool_down: int = 0, exclude: str = "") -> Any:
        spec = self.page.AddressPoolSpec(
            addresses=[*addresses], exclude=[exclude] if exclude else [], cool_down_seconds=cool_down
        )
        metadata = ObjectMeta(name=name, namespace=self.namespace)
        return await self.client.create(self.page.AddressPool(metadata=metadata, spec=spec))

    async def claim(self, name: str, pool: str = "public") -> Any:
        metadata, spec = ObjectMeta(name=name, namespace=self.namespace), self.page.AddressClaimSpec(pool=pool)
        return await self.client.create(self.page.AddressClaim(metadata=metadata, spec=spec))

    async def change(self, name: str = "public", **spec: object) -> None:
        patch = MergePatch({"spec": spec})
        await self.client.patch(self.page.AddressPool, patch, name=name, namespace=self.namespace)

    async def release(self, name: str) -> None:
        await self.client.delete(self.page.AddressClaim, name, namespace=self.namespace)

    async def pool(self, name: str = "public") -> Any:
        return await self.client.get(self.page.AddressPool, name, namespace=self.namespace)

    async def has(self, name: str, address: str, reason: str = "Granted") -> None:
        await self.page.is_state(self.cluster, self.namespace, name, reason, address)

    async def is_free(self) -> None:
        """Assert that no address is in use, although nobody deletes one by hand."""
        assert await self.addresses() == {}
        status = (await self.pool()).status
        assert (status.free, status.held, status.cooling) == (status.total, 0, 0)

    async def addresses(self) -> dict[str, str]:
        found = await self.client.list(self.page.Address, namespace=self.namespace)
        return {each.spec.address: each.spec.claim.name for each in found}

    async def says(self, type: str, part: str) -> None:
        found = [each for each in (await self.pool()).status.conditions if each.type == type]
        assert part in "".join(f"{each.reason}: {each.message}" for each in found)


@pytest_asyncio.fixture
async def pools(page: ModuleType, cluster: Cluster, namespace: str) -> AsyncIterator[Pools]:
    await cluster.install(page.AddressPool, page.AddressClaim, page.Address, page.Machine)
    pools = Pools(page, cluster, namespace)
    yield pools
    async with pools.operator():
        await page.empty(cluster, namespace)


@asynccontextmanager
async def never_held_twice(pools: Pools) -> AsyncGenerator[None]:
    """Follow all changes of claims during a block. Fail if two claims have the same address at the same time."""
    holders: dict[str, str] = {}
    now = await pools.client.list(pools.page.AddressClaim, namespace=pools.namespace)
    last = asyncio.Event()

    async def follow() -> None:
        changes = pools.client.watch(
            pools.page.AddressClaim, namespace=pools.namespace, resource_version=now.resource_version
        )
        async with aclosing(changes) as events:
            async for event in events:
                claim: Any = event.object
                address, uid = claim.status.address, claim.metadata.uid
                if event.type == "DELETED":
                    holders.pop(address, None)
                elif address:
                    assert holders.setdefault(address, uid) == uid, f"{address} has two holders"
                if claim.metadata.name == "last":
                    last.set()

    following = asyncio.create_task(follow())
    try:
        yield
        await pools.claim("last", pool="none")
        seen = asyncio.create_task(last.wait())
        await asyncio.wait({following, seen}, return_when=asyncio.FIRST_COMPLETED)
        seen.cancel()
        if following.done():
            following.result()
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def test_an_address_moves_to_the_next_claim_wherever_the_operator_is_killed(pools: Pools) -> None:
    await pools.create("192.0.2.1")
    life = 0

    async def moved(first: str, second: str) -> None:
        try:
            await pools.has(first, "192.0.2.1")
            await pools.release(first)
        except NotFound:
            pass
        await pools.has(second, "192.0.2.1")

    async with never_held_twice(pools):
        async for faults in killed_after_each_write(pools.cluster.config):
            first, second = f"a-{(life := life + 1)}", f"b-{life}"
            await pools.claim(first)
            await pools.claim(second)
            async with pools.operator(faults):
                await faults.died_or(moved, first, second)
            async with pools.operator():
                await eventually(moved, first, second)
                await pools.release(second)
                await eventually(pools.is_free)
    assert life > 8  # finalizer, two reservations, two creates, two grants, delete, release


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_two_operators_never_grant_an_address_twice_whatever_fails(pools: Pools, seed: int) -> None:
    chance = random.Random(seed)
    await pools.create("2001:db8::/126")
    storms = [Faults(pools.cluster.config), Faults(pools.cluster.config)]
    names: list[str] = []
    async with never_held_twice(pools), pools.operator(storms[0]), pools.operator(storms[1]):
        for faults in storms:
            faults.storm(chance, share=0.1)
            faults.lag = 0.05
        for number in range(12):
            await pools.claim(f"c-{number:02}")
            names.append(f"c-{number:02}")
            if len(names) > 5:
                await pools.release(names.pop(chance.randrange(len(names))))
            await asyncio.sleep(0.05)
        for faults in storms:
            faults.calm()
        while names:
            claims = await pools.client.list(pools.page.AddressClaim, namespace=pools.namespace)
            for granted in [each.metadata.name for each in claims if each.status.address]:
                await pools.release(granted)
                names.remove(granted)
            await asyncio.sleep(0.05)
        await eventually(pools.is_free)


async def test_an_address_cools_down_also_while_the_operator_is_restarted(pools: Pools) -> None:
    clock = VirtualClock(datetime(2026, 1, 1, tzinfo=UTC))
    await pools.create("192.0.2.1", cool_down=60)

    async def cooling() -> None:
        assert (await pools.pool()).status.cooling == 1

    async with pools.operator(clock=clock):
        await pools.claim("a")
        await eventually(pools.has, "a", "192.0.2.1")
        await pools.release("a")
        await pools.claim("b")
        await eventually(cooling)
        await eventually(pools.has, "b", "", "PoolExhausted")
        await pools.says("Available", "all 1 addresses are in use, 1 of them cool down, and 1 claims wait")
    later = VirtualClock(datetime(2026, 1, 1, 0, 0, 50, tzinfo=UTC))
    async with pools.operator(clock=later):
        await eventually(cooling)
        await pools.has("b", "", "PoolExhausted")
        await later.advance(11)
        await eventually(pools.has, "b", "192.0.2.1")
        await pools.change(coolDownSeconds=0)


async def test_a_pool_that_shrinks_or_is_deleted_takes_no_address_from_a_claim(pools: Pools) -> None:
    async with pools.operator():
        pool = await pools.create("192.0.2.0/30", exclude="192.0.2.0")
        await pools.claim("a")
        await eventually(pools.has, "a", "192.0.2.1")
        await pools.change(addresses=["192.0.2.2-192.0.2.3"])
        await eventually(pools.says, "Shrinking", 'kept until their claims are deleted: 192.0.2.1 (AddressClaim "a")')
        await pools.create("192.0.2.1/32", name="overlapping")
        await pools.claim("b", pool="overlapping")
        await eventually(pools.has, "b", "", "PoolExhausted")

        await pools.client.delete(pools.page.Address, "192.0.2.1", namespace=pools.namespace)
        await pools.client.delete(pool)
        await eventually(
            pools.says, "Available", "Deleting: deleted when these are free again: 192.0.2.1 (AddressClaim"
        )
        await pools.claim("late")
        await eventually(pools.has, "late", "", "PoolDeleted")
        await pools.has("a", "192.0.2.1")
        assert await pools.addresses() == {"192.0.2.1": "a"}

        await pools.release("a")
        await gone(pools.pool)
        await eventually(pools.has, "b", "192.0.2.1")
        await eventually(pools.has, "late", "", "PoolNotFound")


async def test_an_address_that_a_killed_process_requested_is_released(pools: Pools) -> None:
    await pools.create("192.0.2.0/30")
    async with pools.operator():
        claim = await pools.claim("a")
        await eventually(pools.has, "a", "192.0.2.0")
        holder = pools.page.Holder(name="a", uid=claim.metadata.uid, attempt=0)  # an earlier attempt than the claim's
        metadata = ObjectMeta(name="192.0.2.3", namespace=pools.namespace, finalizers=[pools.page.COOL_DOWN])
        spec = pools.page.AddressSpec(address="192.0.2.3", pool="public", claim=holder)
        await pools.client.create(pools.page.Address(metadata=metadata, spec=spec))
        await gone(pools.client.get, pools.page.Address, "192.0.2.3", namespace=pools.namespace)
        await pools.has("a", "192.0.2.0")


async def test_claims_are_served_in_the_order_of_their_age(pools: Pools) -> None:
    await pools.create("192.0.2.1")
    names = [f"c-{number}" for number in range(4)]
    for name in names:
        await pools.claim(name)
    served: list[str] = []

    async def next_one() -> None:
        granted = [name for name, value in (await claims()).items() if value]
        assert len(granted) == 1
        served.extend(granted)

    async def claims() -> dict[str, str]:
        found = await pools.client.list(pools.page.AddressClaim, namespace=pools.namespace)
        return {each.metadata.name: each.status.address for each in found}

    async with pools.operator():
        while len(served) < len(names):
            await eventually(next_one)
            await pools.release(served[-1])
    assert served == names


async def test_machines_never_share_an_address_wherever_their_operator_is_killed(pools: Pools) -> None:
    page, client = pools.page, pools.client
    await pools.create("192.0.2.1")
    hypervisor = page.Hypervisor()

    def machines(transport: Faults) -> Manager:
        manager = Manager([page.machine_controller(hypervisor)], name="machines", transport=transport)
        return manager.replace(namespaces=pools.namespace)

    async def replaced(old: str, new: str) -> None:
        uids = [each.metadata.uid for each in await client.list(page.Machine, namespace=pools.namespace)]
        assert len(hypervisor.running) == 1
        assert set(hypervisor.running) <= set(uids)
        if len(uids) == 2:
            await client.delete(page.Machine, old, namespace=pools.namespace)
        running = await client.get(page.Machine, new, namespace=pools.namespace)
        assert hypervisor.running == {running.metadata.uid: "192.0.2.1"}
        assert await pools.addresses() == {"192.0.2.1": new}

    async def stopped() -> None:
        assert not await client.list(page.AddressClaim, namespace=pools.namespace)
        assert not await client.list(page.Machine, namespace=pools.namespace)
        await pools.is_free()

    life = 0
    async with pools.operator():
        async for faults in killed_after_each_write(pools.cluster.config):
            old, new = f"a-{(life := life + 1)}", f"b-{life}"
            for name in (old, new):
                metadata = ObjectMeta(name=name, namespace=pools.namespace)
                spec = page.MachineSpec(address_pool="public")
                await client.create(page.Machine(metadata=metadata, spec=spec))
            async with machines(faults):
                await faults.died_or(replaced, old, new)
            async with machines(Faults(pools.cluster.config)):
                await eventually(replaced, old, new)
                await client.delete(page.Machine, new, namespace=pools.namespace)
                await eventually(stopped)
        assert hypervisor.running == {}
    assert life > 6


@pytest.mark.parametrize(
    ("addresses", "exclude", "total", "first"),
    [
        (["192.0.2.7"], [], 1, "192.0.2.7"),
        (["192.0.2.0/30"], ["192.0.2.0", "192.0.2.3"], 2, "192.0.2.1"),
        (["192.0.2.8-192.0.2.11", "192.0.2.0/29", "192.0.2.4/30"], ["192.0.2.2-192.0.2.9"], 4, "192.0.2.0"),
        (["10.0.0.0/8"], ["10.0.0.0/9"], 2**23, "10.128.0.0"),
        (["2001:db8::/64"], ["2001:db8::"], 2**64 - 1, "2001:db8::1"),
        (["192.0.2.0/30"], ["192.0.0.0/16"], 0, None),
    ],
)
def test_blocks_and_exclusions_are_ranges(
    page: Any, addresses: list[str], exclude: list[str], total: int, first: str | None
) -> None:
    space = page.space_of(page.AddressPoolSpec(addresses=addresses, exclude=exclude))
    number = next(space.numbers(), None)
    assert space.total == total
    assert (None if number is None else str(space.address(number))) == first


@pytest.mark.parametrize(
    ("addresses", "message"),
    [
        (["192.0.2.300"], "spec.addresses[0]: '192.0.2.300' does not appear to be an IPv4 or IPv6 network"),
        (["192.0.2.1", "192.0.2.1/24"], "spec.addresses[1]: 192.0.2.1/24 has host bits set"),
        (["192.0.2.9-192.0.2.1"], "spec.addresses[0]: 192.0.2.9-192.0.2.1 is not a range"),
        (["192.0.2.1", "2001:db8::1"], "a pool has IPv4 or IPv6 addresses, not both"),
    ],
)
def test_a_wrong_block_is_named(page: Any, addresses: list[str], message: str) -> None:
    with pytest.raises(ValueError, match="spec") as refused:
        page.space_of(page.AddressPoolSpec(addresses=addresses))
    assert message in str(refused.value)
