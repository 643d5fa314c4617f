"""A manager of some namespaces, and with kinds that are installed later."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.apis.core.v1 import ConfigMap, Namespace, Secret
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.apis.rbac.v1 import Role, RoleBinding, RoleRef, Subject
from kubewright.client import Client
from kubewright.client._patch import MergePatch
from kubewright.client._transport import HandlerTransport
from kubewright.controllers import Context, Controller, DeletedContext, DeleteFuse, controller
from kubewright.controllers.predicates import Predicate
from kubewright.http.client import HTTPClient
from kubewright.http.message import Peer, Request, Response
from kubewright.machinery.errors import ConfigError, Gone
from kubewright.manager import Manager
from kubewright.models import CustomResource, Model, codec, custom_resource_definition
from kubewright.testing import _waiting as waiting
from kubewright_controlplane.apiserver.server import APIServer

ADMIN = Peer(common_name="admin", organizations=("system:masters",))
OPERATOR = Peer(common_name="operator")
FREE = "127.0.0.1:0"

ours = Predicate(lambda event: event.key.name.startswith("web"))


class LaterSpec(Model):
    size: int = 1


class Later(CustomResource, group="example.com", version="v1"):
    """A kind that is installed while the manager runs."""

    spec: LaterSpec


async def until(cut: asyncio.Event, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the chunks of `body`, until it ends or `cut` is set."""
    ending = asyncio.create_task(cut.wait())
    chunk: asyncio.Future[bytes | None] | None = None
    try:
        while True:
            chunk = asyncio.ensure_future(anext(body, None))
            await asyncio.wait({chunk, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not chunk.done() or (data := chunk.result()) is None:
                return
            yield data
    finally:
        ending.cancel()
        if chunk is not None:
            chunk.cancel()


class API:
    def __init__(self) -> None:
        self.server = APIServer()
        self.admin = Client(transport=HandlerTransport(self.server.handle, peer=ADMIN))
        self.sent: list[str] = []
        self.cuts: dict[str, asyncio.Event] = {}
        """By path: ends the watch on it."""
        self.in_the_gap: dict[str, Callable[[], Awaitable[None]]] = {}
        """By path: called before the next watch on it, which gets 410."""

    def as_user(self, peer: Peer) -> HandlerTransport:
        async def handle(request: Request) -> Response:
            self.sent.append(request.path)
            is_watch = "watch=true" in request.query
            if is_watch and request.path in self.in_the_gap:
                await self.in_the_gap.pop(request.path)()
                return Response(410, {"content-type": "application/json"}, Gone("too old").status.encode())
            response = await self.server.handle(request)
            if is_watch and not isinstance(response.body, bytes):
                cut = self.cuts[request.path] = asyncio.Event()
                response.body = until(cut, response.body)
            return response

        return HandlerTransport(handle, peer=peer)

    async def grant(self, namespace: str, manager: Manager) -> None:
        name = ObjectMeta(name="operator", namespace=namespace)
        await self.admin.apply(Role(metadata=name, rules=manager.rbac_rules()))
        group = "rbac.authorization.k8s.io"
        binding = RoleBinding(
            metadata=ObjectMeta(name="operator", namespace=namespace),
            role_ref=RoleRef(api_group=group, kind="Role", name="operator"),
            subjects=[Subject(api_group=group, kind="User", name="operator")],
        )
        await self.admin.apply(binding)


@pytest_asyncio.fixture
async def api() -> AsyncIterator[API]:
    api = API()
    await api.server.start()
    for name in ("blue", "green", "red"):
        await api.admin.create(Namespace(metadata=ObjectMeta(name=name)))
    yield api
    await api.server.close()


async def eventually(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - it becomes true on its own
            await asyncio.sleep(0.005)


def manager(api: API, *controllers: Controller[Any], peer: Peer = ADMIN, **options: Any) -> Manager:
    chosen: dict[str, Any] = {"transport": api.as_user(peer), "health_address": FREE, "metrics_address": "0"}
    return Manager(controllers, **(chosen | options))


def web(namespace: str, name: str = "web") -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace))


async def test_a_manager_of_two_namespaces_needs_permissions_only_in_them(api: API) -> None:
    seen: list[str] = []

    @controller(ConfigMap, owns=[Secret], predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        await ctx.apply(Secret(metadata=ObjectMeta(name="web-child"), type="Opaque"))
        everything = await ctx.list(Secret, namespace="")
        seen.append(f"{ctx.request} {len(everything)}")

    chosen = manager(api, reconcile, peer=OPERATOR, namespaces=["blue", "green"])
    for namespace in ("blue", "green"):
        await api.grant(namespace, chosen)
    await api.admin.create(web("blue"))
    async with chosen:
        await eventually(lambda: "blue/web 1" in seen)
        await api.admin.create(web("red"))
        await api.admin.create(web("green"))
        await eventually(lambda: "green/web 2" in seen)
        with pytest.raises(ConfigError, match="holds 'blue', 'green' only"):
            await chosen.client.list(Secret, namespace="red")
    assert not any(each.startswith("red") for each in seen)
    assert not any(path in ("/api/v1/configmaps", "/api/v1/secrets") for path in api.sent)


async def test_a_namespace_without_permissions_is_reported_at_the_start(api: API) -> None:
    @controller(ConfigMap)
    async def reconcile(ctx: Context[ConfigMap]) -> None: ...

    chosen = manager(api, reconcile, peer=OPERATOR, namespaces=["blue", "green"])
    await api.grant("blue", chosen)
    with pytest.raises(ConfigError) as caught:
        await asyncio.wait_for(chosen.run(), 60)
    assert "list configmaps in namespace green" in str(caught.value)
    assert "blue" not in str(caught.value)


async def test_a_namespace_that_does_not_exist_is_one_line_in_the_log(
    api: API, caplog: pytest.LogCaptureFixture
) -> None:
    @controller(ConfigMap)
    async def reconcile(ctx: Context[ConfigMap]) -> None: ...

    async with manager(api, reconcile, namespaces=["blue", "bleu"]):
        pass
    (line,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert line.msg == "Namespaces not found"
    assert vars(line)["fields"]["namespaces"] == "bleu"


async def test_a_gap_in_the_watch_of_one_namespace_does_not_affect_the_other(api: API) -> None:
    gone: list[str] = []

    @controller(ConfigMap, predicate=ours, reconcile_deleted=True)
    async def reconcile(ctx: Context[ConfigMap] | DeletedContext[ConfigMap]) -> None:
        if isinstance(ctx, DeletedContext):
            gone.append(str(ctx.request))

    chosen = manager(api, reconcile, namespaces=["blue", "green"])
    for namespace in ("blue", "green"):
        await api.admin.create(web(namespace))
    async with chosen:
        lister = chosen.client.cache.informer(ConfigMap).lister
        path = "/api/v1/namespaces/blue/configmaps"
        api.in_the_gap[path] = lambda: api.admin.delete(ConfigMap, "web", namespace="blue")
        api.cuts[path].set()
        await eventually(lambda: gone)
        assert lister.get("web", "green") is not None
    assert gone == ["blue/web"]


async def test_reads_see_own_writes_in_each_namespace(api: API) -> None:
    chosen = manager(api, namespaces=["blue", "green"])
    async with chosen:
        for number in range(20):
            for namespace in ("blue", "green"):
                await chosen.client.create(web(namespace, f"web-{number}"))
                await chosen.client.get(ConfigMap, f"web-{number}", namespace=namespace)
        found = await chosen.client.list(ConfigMap)
    assert sum(each.metadata.name.startswith("web") for each in found) == 40


async def readyz(manager: Manager) -> tuple[int, str]:
    client = HTTPClient(f"http://127.0.0.1:{manager.health_port}")
    response = await client.send(Request("GET", "/readyz"))
    text = (await response.read()).decode()
    await client.close()
    return response.status, text


async def test_a_controller_waits_for_its_kind_while_the_others_work(api: API) -> None:
    seen: list[str] = []

    @controller(Later)
    async def late(ctx: Context[Later]) -> None:
        seen.append(f"later {ctx.request}")

    @controller(ConfigMap, predicate=ours)
    async def early(ctx: Context[ConfigMap]) -> None:
        seen.append(f"early {ctx.request}")

    chosen = manager(api, late, early, wait_for_kinds=True)
    async with chosen:
        await api.admin.create(web("blue"))
        await eventually(lambda: seen)
        assert await readyz(chosen) == (
            500,
            "[-]caches failed: waiting for laters.example.com: its CustomResourceDefinition is not installed, "
            "or does not serve this version\n"
            "readyz check failed\n",
        )
        document = custom_resource_definition(Later)
        await api.admin.create(codec.from_dict(CustomResourceDefinition, document))

        one = Later(metadata=ObjectMeta(name="one", namespace="blue"), spec=LaterSpec())
        await waiting.eventually(api.admin.apply, one)
        await eventually(lambda: "later blue/one" in seen)
        assert await readyz(chosen) == (200, "ok")


async def test_a_manager_that_waits_for_a_kind_can_be_stopped(api: API) -> None:
    @controller(Later)
    async def late(ctx: Context[Later]) -> None: ...

    async with asyncio.timeout(60):
        async with manager(api, late, wait_for_kinds=True):
            pass


async def test_the_managers_fuse_applies_to_controllers_without_one_unless_mass_deletion_is_allowed(api: API) -> None:
    ended: list[str] = []

    @controller(ConfigMap, predicate=ours, writes=[Secret])
    async def sweep(ctx: Context[ConfigMap]) -> None:
        try:
            for each in await ctx.list(Secret):
                await ctx.delete(each)
        finally:
            ended.append(ctx.request.name)

    for number in range(5):
        await api.admin.create(Secret(metadata=ObjectMeta(name=f"s{number}", namespace="blue"), type="Opaque"))
    await api.admin.create(web("blue"))
    stopped = manager(api, sweep, delete_fuse=DeleteFuse(limit=2))
    async with stopped:
        await eventually(lambda: ended)
    assert len(await api.admin.list(Secret, namespace="blue")) == 3
    assert stopped.metrics.controllers["configmap"].stopped_deletes == 1
    meant = manager(api, sweep, delete_fuse=DeleteFuse(limit=2), allow_mass_deletion=True)
    async with meant:
        await api.admin.patch(ConfigMap, MergePatch({"data": {"a": "1"}}), name="web", namespace="blue")
        await eventually(lambda: len(ended) > 1)
    assert len(await api.admin.list(Secret, namespace="blue")) == 0
