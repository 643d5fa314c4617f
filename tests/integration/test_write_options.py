"""What can be asked for with a write: to try it alone, on conditions, and what becomes of what hangs on it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from kubewright.apis.core.v1 import ConfigMap, Endpoints
from kubewright.apis.meta.v1 import ObjectMeta, OwnerReference
from kubewright.client import Client, JSONPatch, MergePatch, Propagation, StrategicPatch
from kubewright.machinery.errors import BadRequest, Conflict, Invalid, NotFound
from kubewright.testing import Cluster, eventually, gone


@pytest.fixture
def client(cluster: Cluster) -> Client:
    return cluster.client


def config_map(namespace: str, name: str = "a", *, owner: ConfigMap | None = None, **data: str) -> ConfigMap:
    metadata = ObjectMeta(name=name, namespace=namespace, labels={"app": "a"})
    if owner is not None:
        reference = OwnerReference(
            api_version="v1", kind="ConfigMap", name=owner.metadata.name, uid=owner.metadata.uid,
            block_owner_deletion=True,
        )  # fmt: skip
        metadata.owner_references = [reference]
    return ConfigMap(metadata=metadata, data=data)


TRIALS: dict[str, Callable[[Client, ConfigMap], Awaitable[object]]] = {
    "create": lambda client, obj: client.create(config_map(obj.metadata.namespace, "b"), dry_run=True),
    "update": lambda client, obj: client.update(changed(obj), dry_run=True),
    "merge patch": lambda client, obj: client.patch(obj, MergePatch({"data": {"k": "2"}}), dry_run=True),
    "strategic patch": lambda client, obj: client.patch(obj, StrategicPatch({"data": {"k": "2"}}), dry_run=True),
    "JSON patch": lambda client, obj: client.patch(
        obj, JSONPatch([{"op": "replace", "path": "/data/k", "value": "2"}]), dry_run=True
    ),
    "apply": lambda client, obj: client.apply(config_map(obj.metadata.namespace, k="2"), dry_run=True),
    "delete": lambda client, obj: client.delete(obj, dry_run=True),
    "delete_all_of": lambda client, obj: client.delete_all_of(
        ConfigMap, namespace=obj.metadata.namespace, labels="app=a", dry_run=True
    ),
}


def changed(obj: ConfigMap) -> ConfigMap:
    obj.data["k"] = "2"
    return obj


@pytest.mark.parametrize("verb", TRIALS)
async def test_a_trial_changes_nothing(client: Client, namespace: str, verb: str) -> None:
    made = await client.create(config_map(namespace, k="1"))
    version = made.metadata.resource_version
    await TRIALS[verb](client, made)
    found = await client.list(ConfigMap, namespace=namespace, labels="app=a")
    assert [(each.metadata.resource_version, each.data) for each in found] == [(version, {"k": "1"})]


async def test_a_delete_on_the_condition_of_a_version_spares_what_changed(client: Client, namespace: str) -> None:
    old = await client.create(config_map(namespace, k="1"))
    new = await client.patch(old, MergePatch({"data": {"k": "2"}}))
    with pytest.raises(Conflict, match="ResourceVersion in record"):
        await client.delete(old, resource_version=old.metadata.resource_version)
    with pytest.raises(Conflict):
        await client.delete(ConfigMap, "a", namespace=namespace, uid="another")
    await client.delete(new, resource_version=new.metadata.resource_version)
    with pytest.raises(NotFound):
        await client.get(ConfigMap, "a", namespace=namespace)


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_what_an_object_owns_goes_with_it(client: Client, namespace: str, propagation: Propagation) -> None:
    owner = await client.create(config_map(namespace))
    await client.create(config_map(namespace, "child", owner=owner))
    await client.delete(owner, propagation=propagation)
    await gone(client.get, ConfigMap, "a", namespace=namespace)
    if propagation == "Foreground":
        with pytest.raises(NotFound):
            await client.get(ConfigMap, "child", namespace=namespace)
    await gone(client.get, ConfigMap, "child", namespace=namespace)


async def test_what_an_object_owns_is_left_when_it_is_to_be_orphaned(client: Client, namespace: str) -> None:
    owner = await client.create(config_map(namespace))
    await client.create(config_map(namespace, "child", owner=owner))
    await client.delete(owner, propagation="Orphan")
    await gone(client.get, ConfigMap, "a", namespace=namespace)

    async def is_orphaned() -> None:
        assert (await client.get(ConfigMap, "child", namespace=namespace)).metadata.owner_references == []

    await eventually(is_orphaned)


async def test_unknown_fields_are_refused_in_every_kind_of_write(client: Client, namespace: str) -> None:
    made = await client.create(config_map(namespace))
    unknown = {"bogus": 1}
    for patch in (
        MergePatch(unknown),
        StrategicPatch(unknown),
        JSONPatch([{"op": "add", "path": "/bogus", "value": 1}]),
    ):
        with pytest.raises((BadRequest, Invalid), match=r'unknown field "bogus"'):
            await client.patch(made, patch, field_validation="Strict")
        await client.patch(made, patch, field_validation="Ignore")


async def test_warnings_of_the_server_reach_who_asked_for_them(cluster: Cluster, namespace: str) -> None:
    warnings: list[str] = []
    async with Client(cluster.config, on_warning=warnings.append) as client:
        await client.list(Endpoints, namespace=namespace)
    assert warnings == ["v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"]
