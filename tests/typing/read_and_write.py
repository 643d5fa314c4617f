"""How client and cache read to a type checker: what comes back is of the kind that was asked for."""

from __future__ import annotations

from datetime import timedelta
from typing import assert_type

from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.autoscaling.v1 import Scale
from kubewright.apis.meta.v1 import LabelSelector
from kubewright.cache import Cache, CachedClient, Entry, Event, Informer, ObjectKey, Scope
from kubewright.client import (
    Bookmark,
    Client,
    MergePatch,
    ObjectList,
    PartialObjectMetadata,
    Reader,
    RESTMapper,
    Unstructured,
    WatchEvent,
)


async def read(client: Client, cache: Cache, cached: CachedClient) -> None:
    readers: list[Reader] = [client, cache, cached]
    for reader in readers:
        assert_type(await reader.get(Deployment, "web", namespace="d"), Deployment)
        assert_type(await reader.list(Deployment, labels={"app": "web"}), ObjectList[Deployment])
    assert_type(await cached.list(Deployment, owner="uid", index=("image", "nginx")), ObjectList[Deployment])
    assert_type(await client.list(Deployment, labels=LabelSelector(match_labels={"app": "web"})), ObjectList[Deployment])
    await client.list(Deployment, labels=["app=web"])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type([each.spec.replicas for each in await client.list(Deployment)], list[int | None])
    ready = await client.wait_for(Deployment, "web", lambda each: each.status.ready_replicas == 3, namespace="d")
    assert_type(ready, Deployment)
    await client.get("Deployment", "web")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await client.list(Deployment, index=("a", "b"))  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def write(client: Client, web: Deployment) -> None:
    assert_type(await client.create(web), Deployment)
    assert_type(await client.update_status(web), Deployment)
    assert_type(await client.apply(web, field_validation="Strict"), Deployment)
    assert_type(await client.apply(web, uid="u", create_only=True, dry_run=True), Deployment)
    assert_type(await client.patch(web, MergePatch({}), field_manager="me"), Deployment)
    await client.create(web, fieldmanager="me")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await client.delete(web, grace_period=timedelta(seconds=30))
    assert_type(await client.patch(Deployment, MergePatch({}), name="web", namespace="d"), Deployment)
    assert_type(await client.subresource(Deployment, "web", "scale", namespace="d").get(Scale), Scale)
    await client.delete(web)
    await client.delete(Deployment, "web", namespace="d", propagation="Foreground")
    await client.delete(Deployment)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    await client.patch(Deployment, MergePatch({}))  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    await client.apply(web, field_validation="strict")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def watch(client: Client) -> None:
    async for event in client.watch(Deployment):
        assert_type(event, WatchEvent[Deployment])
    async for either in client.watch(Deployment, bookmarks=True):
        assert_type(either, WatchEvent[Deployment] | Bookmark)


async def dynamic(client: Client) -> None:
    kind = await RESTMapper(client).kind("example.com/v1", "Foo")
    assert_type(await client.get(kind, "a"), Unstructured)
    assert_type(await client.get(PartialObjectMetadata.of(Deployment), "a", namespace="d"), PartialObjectMetadata)


def listen(client: Client) -> None:
    informer = Informer(client, Deployment, namespaces="d", indexers={"strategy": _strategy})
    assert_type(informer, Informer[Deployment])
    assert_type(informer.lister.get("web", "d"), Deployment | None)
    assert_type(informer.lister.entry(ObjectKey("d", "web")), Entry[Deployment] | None)
    informer.add_handler(on_update=_on_update)
    Cache(client, scopes={Deployment: Scope(labels="app=web", indexers={"strategy": _strategy})})


def _on_update(event: Event[Deployment]) -> None:
    if event.new is not None:
        assert_type(event.new.decode().spec.replicas, int | None)


def _strategy(web: Deployment) -> list[str]:
    return [web.metadata.name]
