"""The cache with a control plane: it follows changes, and reads always include own writes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.apis.core.v1 import ConfigMap
from kubewright.apis.meta.v1 import ObjectMeta, OwnerReference
from kubewright.cache import Cache, CachedClient, Event, Informer, ObjectKey, Scope
from kubewright.client import Client, MergePatch, PartialObjectMetadata
from kubewright.machinery.errors import ConfigError, DeadlineExceeded, NotFound
from kubewright.models import CustomResource, custom_resource_definition
from kubewright.testing._cluster import Cluster
from kubewright.testing._waiting import eventually


class LateGizmo(CustomResource, group="cache.test", version="v1"):
    """LateGizmo is a kind whose CRD is installed after its informer starts."""


class LatestGizmo(CustomResource, group="cache.test", version="v1"):
    """LatestGizmo is a kind that is read before its CRD is installed."""


class Versioned(CustomResource, group="cache.test", version="v1"):
    """Versioned is a kind that gets another version."""


@pytest.fixture
def client(cluster: Cluster) -> Client:
    return cluster.client


@pytest.fixture
async def cache(client: Client, namespace: str) -> AsyncIterator[Cache]:
    cache = Cache(
        client, namespaces=namespace, scopes={ConfigMap: Scope(namespaces=namespace, indexers={"data": values})}
    )
    cache.start()
    yield cache
    await cache.stop()


@pytest.fixture
def cached(client: Client, cache: Cache) -> CachedClient:
    return CachedClient(client, cache)


def values(obj: ConfigMap) -> list[str]:
    return list(obj.data.values())


def config_map(namespace: str, name: str = "a", **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data=data)


async def test_handlers_receive_existing_objects_and_then_each_change(client: Client, namespace: str) -> None:
    await client.create(config_map(namespace, "before"))
    told: list[tuple[str, str, bool]] = []

    def tell(event: Event[ConfigMap]) -> None:
        if event.key.name != "kube-root-ca.crt":
            told.append((event.type, event.key.name, event.initial))

    informer = Informer(client, ConfigMap, namespaces=namespace)
    informer.add_handler(on_add=tell, on_update=tell, on_delete=tell)
    informer.start()
    await informer.wait_synced(60)
    assert told == [("add", "before", True)]
    obj = await client.create(config_map(namespace, "after"))
    obj = await client.patch(obj, MergePatch({"data": {"k": "1"}}))
    await client.delete(obj)

    async def complete() -> None:
        assert told[1:] == [("add", "after", False), ("update", "after", False), ("delete", "after", False)]

    await eventually(complete)
    await informer.stop()


async def test_every_read_sees_the_write_before_it(cached: CachedClient, namespace: str) -> None:
    for number in range(20):
        name = f"c{number}"
        await cached.create(config_map(namespace, name, n="0"))
        assert name in [each.metadata.name for each in await cached.list(ConfigMap, namespace=namespace)]
        for value in ("1", "2"):
            await cached.patch(ConfigMap, MergePatch({"data": {"n": value}}), name=name, namespace=namespace)
            assert (await cached.get(ConfigMap, name, namespace=namespace)).data == {"n": value}
        await cached.delete(ConfigMap, name, namespace=namespace)
        with pytest.raises(NotFound):
            await cached.get(ConfigMap, name, namespace=namespace)


async def test_concurrent_writers_each_see_their_own_writes(cached: CachedClient, namespace: str) -> None:
    async def write(name: str) -> None:
        await cached.create(config_map(namespace, name, n="0"))
        for number in range(5):
            obj = await cached.get(ConfigMap, name, namespace=namespace)
            assert obj.data == {"n": str(number)}
            obj.data["n"] = str(number + 1)
            await cached.update(obj)

    await asyncio.gather(*[write(f"w{number}") for number in range(10)])


async def test_children_are_found_by_owner_and_by_index(cached: CachedClient, namespace: str) -> None:
    owner = await cached.create(config_map(namespace, "owner"))
    reference = OwnerReference(
        api_version="v1", kind="ConfigMap", name="owner", uid=owner.metadata.uid, controller=True
    )
    child = config_map(namespace, "child", k="found")
    child.metadata.owner_references = [reference]
    await cached.create(child)
    assert [each.metadata.name for each in await cached.list(ConfigMap, owner=owner.metadata.uid)] == ["child"]
    assert [each.metadata.name for each in await cached.list(ConfigMap, index=("data", "found"))] == ["child"]


async def test_an_apply_that_changes_nothing_is_not_sent(cached: CachedClient, namespace: str) -> None:
    first = await cached.apply(config_map(namespace, k="1"))
    await cached.get(ConfigMap, "a", namespace=namespace)
    again = await cached.apply(config_map(namespace, k="1"))
    assert again.metadata.resource_version == first.metadata.resource_version
    await cached.patch(first, MergePatch({"data": {"k": "another's"}}), field_manager="another")
    assert (await cached.apply(config_map(namespace, k="1"))).data == {"k": "1"}


async def test_metadata_is_cached_without_the_whole_object(client: Client, cache: Cache, namespace: str) -> None:
    await client.create(config_map(namespace, secret="x" * 1000))
    informer = cache.informer(PartialObjectMetadata.of(ConfigMap))
    await informer.wait_synced(60)
    entry = informer.lister.entry(ObjectKey(namespace, "a"))
    assert entry is not None
    assert b"xxx" not in entry.data
    assert entry.decode().metadata.name == "a"
    assert cache.informer(PartialObjectMetadata.of(ConfigMap)) is informer


async def test_a_kind_that_is_installed_later_is_cached(cluster: Cluster, namespace: str) -> None:
    informer = Informer(cluster.client, LateGizmo, namespaces=namespace)
    informer.start()

    async def has_asked() -> None:
        assert informer.last_error is not None

    await eventually(has_asked)
    with pytest.raises(DeadlineExceeded, match="its CustomResourceDefinition is not installed"):
        await informer.wait_synced(0.01)
    await cluster.install(LateGizmo)
    await informer.wait_synced(60)
    await informer.stop()


async def test_a_read_of_a_kind_that_is_not_installed_fails_at_once(cluster: Cluster, namespace: str) -> None:
    cache = Cache(cluster.client)
    cache.start()
    with pytest.raises(ConfigError, match=r"latestgizmos\.cache\.test: its CustomResourceDefinition is not installed"):
        await cache.get(LatestGizmo, "a", namespace=namespace)
    await cluster.install(LatestGizmo)

    async def is_read() -> None:
        with suppress(ConfigError):
            assert not await cache.list(LatestGizmo, namespace=namespace)
            return
        raise AssertionError("not yet")

    await eventually(is_read)
    await cache.stop()


async def test_a_version_that_is_unserved_and_served_again_is_followed(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    await cluster.install(Versioned)
    informer = Informer(client, Versioned, namespaces=namespace)
    informer.start()
    await client.create(Versioned(metadata=ObjectMeta(name="first", namespace=namespace)))

    async def held(*names: str) -> None:
        assert [each.metadata.name for each in informer.lister.list()] == list(names)

    async def fails() -> None:
        assert isinstance(informer.last_error, NotFound)

    await eventually(held, "first")
    definition = custom_resource_definition(Versioned)
    (version,) = definition["spec"]["versions"]
    name = definition["metadata"]["name"]
    newer = version | {"name": "v2"}
    hidden = MergePatch({"spec": {"versions": [newer, version | {"served": False, "storage": False}]}})
    await client.patch(CustomResourceDefinition, hidden, name=name)
    await eventually(fails)
    await held("first")
    both = MergePatch({"spec": {"versions": [newer, version | {"storage": False}]}})
    await client.patch(CustomResourceDefinition, both, name=name)

    async def create() -> None:
        await client.create(Versioned(metadata=ObjectMeta(name="second", namespace=namespace)))

    await eventually(create)
    await eventually(held, "first", "second")
    assert informer.last_error is None
    await informer.stop()
    await client.delete(CustomResourceDefinition, name)


async def test_a_missing_permission_is_named(cluster: Cluster, namespace: str) -> None:
    async with cluster.service_account((), namespace=namespace) as config:
        client = Client(config)
        cache = Cache(client)
        cache.start()
        with pytest.raises(ConfigError, match=r"cannot (list|watch) resource .* grant list and watch on it"):
            await cache.list(ConfigMap)
        await cache.stop()
        await client.close()
