"""A manager: start, work, stop, and failures."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import pytest
import pytest_asyncio

from kubewright._runtime.clock import monotonic
from kubewright.apis.coordination.v1 import Lease
from kubewright.apis.core.v1 import ConfigMap, Secret
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.apis.rbac.v1 import ClusterRole, ClusterRoleBinding, RoleRef, Subject
from kubewright.apis.rbac.v1 import PolicyRule as ClusterPolicyRule
from kubewright.client import Client
from kubewright.client._config import Config
from kubewright.client._transport import HandlerTransport
from kubewright.controllers import Context, Controller, controller
from kubewright.controllers.predicates import Predicate
from kubewright.http.client import HTTPClient
from kubewright.http.message import Peer, Request, Response
from kubewright.machinery.errors import ConfigError, ConnectionFailed, LeadershipLost
from kubewright.manager import LeaderElection, Manager
from kubewright.manager._program import run_program
from kubewright.models import CustomResource, Model, PolicyRule
from kubewright.testing import Faults, VirtualClock, VirtualTimeLoop
from kubewright_controlplane.apiserver.server import APIServer

ADMIN = Peer(common_name="admin", organizations=("system:masters",))
FREE = "127.0.0.1:0"
NAMESPACE = "default"

only_ours = Predicate(lambda event: event.key.namespace == NAMESPACE and event.key.name.startswith("web"))


class NotInstalledSpec(Model):
    size: int = 1


class NotInstalled(CustomResource, group="example.com", version="v1"):
    """A kind that is not installed."""

    spec: NotInstalledSpec


class API:
    """An API server in this process, and transports to it."""

    def __init__(self) -> None:
        self.server = APIServer()
        self.admin = Client(transport=self.as_user(ADMIN))
        self.down: set[str] = set()

    def as_user(self, peer: Peer) -> HandlerTransport:
        return HandlerTransport(self.server.handle, peer=peer)

    def cuttable(self, name: str, clock: VirtualClock | None = None) -> HandlerTransport:
        """Return an administrator's transport that fails while `name` is in `down`."""

        async def handle(request: Request) -> Response:
            if name in self.down:
                raise ConnectionFailed("connection refused")
            return await self.server.handle(request)

        return HandlerTransport(handle, peer=ADMIN, clock=clock)

    async def grant(self, user: str, rules: list[PolicyRule]) -> None:
        given = [
            ClusterPolicyRule(api_groups=each.api_groups, resources=each.resources, verbs=each.verbs) for each in rules
        ]
        await self.admin.apply(ClusterRole(metadata=ObjectMeta(name=user), rules=given))
        binding = ClusterRoleBinding(
            metadata=ObjectMeta(name=user),
            role_ref=RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name=user),
            subjects=[Subject(api_group="rbac.authorization.k8s.io", kind="User", name=user)],
        )
        await self.admin.apply(binding)


@pytest_asyncio.fixture
async def api() -> AsyncIterator[API]:
    api = API()
    await api.server.start()
    yield api
    await api.server.close()


class Work:
    """A reconciler that records its work, and that a test can pause."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def reconcile(self, ctx: Context[ConfigMap]) -> None:
        self.begun.append(ctx.request.name)
        await self.go_on.wait()
        await ctx.apply(Secret(metadata=ObjectMeta(name=ctx.request.name), type="Opaque"))
        self.ended.append(ctx.request.name)

    @property
    def controller(self) -> Controller[ConfigMap]:
        return controller(ConfigMap, owns=[Secret], predicate=only_ours, workers=1)(self)


@pytest.fixture
def work() -> Work:
    return Work()


def manager(api: API, work: Work, **options: object) -> Manager:
    chosen: dict[str, object] = {"transport": api.as_user(ADMIN), "health_address": FREE, "metrics_address": FREE}
    return Manager([work.controller], **(chosen | options))  # type: ignore[arg-type]


async def eventually(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - it becomes true on its own
            await asyncio.sleep(0.002)


async def stopped(manager: Manager, task: asyncio.Task[None]) -> None:
    manager.stop()
    await asyncio.wait_for(task, 60)


async def create(api: API, name: str) -> None:
    await api.admin.create(ConfigMap(metadata=ObjectMeta(name=name, namespace=NAMESPACE)))


async def started(manager: Manager) -> asyncio.Task[None]:
    task = asyncio.create_task(manager.run())
    await asyncio.sleep(0)
    await asyncio.wait_for(manager.wait_ready(), 60)
    return task


async def get(port: int, path: str) -> tuple[int, str]:
    client = HTTPClient(f"http://127.0.0.1:{port}")
    response = await client.send(Request("GET", path))
    text = (await response.read()).decode()
    await client.close()
    return response.status, text


async def test_controllers_reconcile_and_probes_and_metrics_are_served(api: API, work: Work) -> None:
    running = manager(api, work)
    task = await started(running)
    await create(api, "web")
    await eventually(lambda: work.ended)
    assert await get(running.health_port, "/healthz") == (200, "ok")
    assert await get(running.health_port, "/readyz") == (200, "ok")
    status, text = await get(running.metrics_port, "/metrics")
    assert status == 200
    assert 'controller_runtime_reconcile_total{controller="configmap",result="success"}' in text
    assert 'kubewright_cache_objects{resource="secrets"} 1.0' in text
    (size,) = [line for line in text.splitlines() if line.startswith('kubewright_cache_bytes{resource="secrets"}')]
    assert 200 < float(size.partition(" ")[2]) < 5000
    port = running.health_port
    await stopped(running, task)
    assert running.health_port == 0
    with pytest.raises(ConnectionFailed):
        await get(port, "/healthz")


async def test_a_manager_is_not_ready_before_its_caches_are_complete(api: API, work: Work) -> None:
    release = asyncio.Event()

    async def slow(request: Request) -> Response:
        if request.path == "/api/v1/secrets":
            await release.wait()
        return await api.server.handle(request)

    running = manager(api, work, transport=HandlerTransport(slow, peer=ADMIN))
    task = asyncio.create_task(running.run())
    await eventually(lambda: running.health_port)
    assert await get(running.health_port, "/healthz") == (200, "ok")
    assert await get(running.health_port, "/readyz") == (
        500,
        "[-]caches failed: not complete yet\nreadyz check failed\n",
    )
    release.set()
    await asyncio.wait_for(running.wait_ready(), 60)
    assert await get(running.health_port, "/readyz") == (200, "ok")
    await stopped(running, task)


async def test_metrics_show_the_kinds_whose_watch_fails(api: API, work: Work) -> None:
    fails = True

    async def spoilt(request: Request) -> Response:
        if fails and request.path == "/api/v1/secrets" and "watch=true" in request.query:
            return Response(503)
        return await api.server.handle(request)

    running = manager(api, work, transport=HandlerTransport(spoilt, peer=ADMIN))
    task = asyncio.create_task(running.run())
    await eventually(lambda: running.metrics_port)

    async def told(value: str) -> None:
        lines: list[str] = []
        while f'kubewright_cache_watching{{resource="secrets"}} {value}' not in lines:
            lines = (await get(running.metrics_port, "/metrics"))[1].splitlines()
        assert 'kubewright_cache_watching{resource="configmaps"} 1.0' in lines
        assert f'kubewright_cache_synced{{resource="secrets"}} {value}' in lines

    await asyncio.wait_for(told("0.0"), 60)
    fails = False
    await asyncio.wait_for(told("1.0"), 60)
    await stopped(running, task)


@pytest.mark.parametrize("address", [None, "0"])
async def test_servers_run_only_if_they_have_an_address(api: API, work: Work, address: str | None) -> None:
    running = manager(api, work, health_address=address, metrics_address=address)
    task = await started(running)
    assert (running.health_port, running.metrics_port) == (0, 0)
    await stopped(running, task)


def test_a_program_serves_probes_and_metrics_on_the_usual_ports(capsys: pytest.CaptureFixture[str]) -> None:
    program = Manager(name="operator", config=Config(server="http://127.0.0.1:9"), metrics_address="nowhere")
    with pytest.raises(SystemExit):  # released at once, because other processes on this machine use the same port
        run_program(program, [])
    assert (program.options.health_address, program.options.metrics_address) == (":8081", "nowhere")


async def test_an_address_that_is_in_use_or_invalid_is_reported_with_its_option(api: API, work: Work) -> None:
    first = manager(api, work)
    task = await started(first)
    taken = f"127.0.0.1:{first.health_port}"
    with pytest.raises(ConfigError, match=rf"metrics_address '{taken}' \(--metrics-bind-address\): .*in use"):
        await manager(api, work, metrics_address=taken).run()
    with pytest.raises(ConfigError, match=r"health_address 'eight' \(--health-probe-bind-address\) is not an address"):
        await manager(api, work, health_address="eight").run()
    await stopped(first, task)


async def test_a_kind_that_is_not_installed_fails_the_start_with_one_line(api: API) -> None:
    @controller(NotInstalled)
    async def reconcile(ctx: Context[NotInstalled]) -> None:
        pytest.fail("there is nothing to reconcile")

    stuck = Manager([reconcile], transport=api.as_user(ADMIN), health_address="0", metrics_address="0")
    with pytest.raises(ConfigError) as caught:
        await asyncio.wait_for(stuck.run(), 60)
    assert str(caught.value) == (
        "the API server does not serve notinstalleds.example.com/v1: install the CustomResourceDefinition (kubewright "
        "install, or kubectl apply -k config/crd) and start again"
    )
    with pytest.raises(ConfigError, match="stopped before it was ready"):
        await asyncio.wait_for(stuck.wait_ready(), 60)


async def test_a_missing_permission_to_read_fails_the_start_with_one_line(api: API, work: Work) -> None:
    stuck = manager(api, work, transport=api.as_user(Peer(common_name="operator")))
    rules = [each for each in stuck.rbac_rules() if each.resources != ["secrets"]]
    secrets = PolicyRule(api_groups=[""], resources=["secrets"], verbs=["create", "delete", "get", "patch", "update"])
    await api.grant("operator", [*rules, secrets])
    with pytest.raises(ConfigError) as caught:
        await asyncio.wait_for(stuck.run(), 60)
    assert str(caught.value).startswith("RBAC: not allowed to list secrets, watch secrets: apply the role")


async def test_a_missing_permission_for_the_lease_fails_the_start_with_one_line(api: API, work: Work) -> None:
    stuck = manager(api, work, transport=api.as_user(Peer(common_name="operator")), leader_election=LeaderElection())
    await api.grant("operator", stuck.rbac_rules())
    with pytest.raises(ConfigError) as caught:
        await asyncio.wait_for(stuck.run(), 60)
    leases = "leases.coordination.k8s.io in namespace default"
    assert str(caught.value).startswith(f"RBAC: not allowed to create {leases}, get {leases}, update {leases}: apply")


async def test_a_missing_permission_to_write_is_one_line_in_the_log(
    api: API, work: Work, caplog: pytest.LogCaptureFixture
) -> None:
    running = manager(api, work, transport=api.as_user(Peer(common_name="operator")))
    rules = [each for each in running.rbac_rules() if each.resources != ["events"]]
    await api.grant("operator", rules)
    task = await started(running)
    (line,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert line.msg == "Permissions missing"
    missing = str(line.__dict__["fields"]["error"])
    assert missing.startswith("RBAC: not allowed to create events.events.k8s.io, patch events.events.k8s.io: apply")
    await create(api, "web")
    await eventually(lambda: work.ended)
    await stopped(running, task)


async def test_the_declared_rules_are_sufficient(api: API, work: Work, caplog: pytest.LogCaptureFixture) -> None:
    running = manager(api, work, transport=api.as_user(Peer(common_name="operator")), leader_election=LeaderElection())
    await api.grant("operator", running.rbac_rules() + running.leader_election_rules())
    task = await started(running)
    await create(api, "web")
    await eventually(lambda: work.ended)
    await stopped(running, task)
    assert [each.msg for each in caplog.records if each.levelno >= logging.WARNING] == []


async def test_an_unreachable_server_fails_the_start_at_once(work: Work, refusing_address: str) -> None:
    config = Config(server=f"http://{refusing_address}")
    lost = Manager([work.controller], config=config, health_address="0", metrics_address="0")
    with pytest.raises(ConnectionFailed, match=refusing_address):
        await asyncio.wait_for(lost.run(), 60)


def test_two_controllers_with_the_same_name_are_rejected(work: Work) -> None:
    with pytest.raises(ConfigError, match="two controllers are named configmap"):
        Manager([work.controller, work.controller])


async def test_a_stop_lets_running_reconciles_finish_and_starts_no_others(api: API, work: Work) -> None:
    running = manager(api, work)
    task = await started(running)
    work.go_on.clear()
    await create(api, "web-1")
    await create(api, "web-2")
    await eventually(lambda: work.begun)
    running.stop()
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    await loop.settle()
    assert not task.done()
    work.go_on.set()
    await asyncio.wait_for(task, 60)
    assert work.begun == work.ended == ["web-1"]
    await api.admin.get(Secret, "web-1", namespace=NAMESPACE)


async def test_a_stop_without_a_connection_waits_for_no_watch(api: API) -> None:
    """Otherwise a reconcile that reads its own write would wait for an event that can't come."""
    faults, reading = Faults(transport=api.as_user(ADMIN)), asyncio.Event()

    async def write_and_read(ctx: Context[ConfigMap]) -> None:
        faults.lag = 1.0  # the watch does not show the write before the connection is lost
        await ctx.apply(Secret(metadata=ObjectMeta(name=ctx.request.name), type="Opaque"))
        reading.set()
        await ctx.get(Secret, ctx.request.name)

    clock = asyncio.get_running_loop().time
    async with Manager([controller(ConfigMap, owns=[Secret], predicate=only_ours)(write_and_read)], transport=faults):
        await create(api, "web")
        await reading.wait()
        faults.die()
        began = clock()
    assert clock() < began + 2  # seconds of virtual time


async def test_reconciles_that_exceed_the_graceful_timeout_are_cancelled(api: API, work: Work) -> None:
    running = manager(api, work, graceful_timeout=timedelta(milliseconds=20))
    task = await started(running)
    work.go_on.clear()
    await create(api, "web")
    await eventually(lambda: work.begun)
    await stopped(running, task)
    assert work.ended == []


async def test_a_stopped_manager_can_run_again(api: API, work: Work) -> None:
    running = manager(api, work)
    for name in ("web-1", "web-2"):
        task = await started(running)
        await create(api, name)
        await eventually(lambda name=name: name in work.ended)  # type: ignore[misc]
        await stopped(running, task)


async def test_runnables_run_with_the_controllers_and_end_with_them(api: API, work: Work) -> None:
    seen: list[str] = []
    running = manager(api, work)

    async def watch_the_clock() -> None:
        seen.append(f"up, with {type(running.client).__name__}")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("down")

    running.add(watch_the_clock)
    task = await started(running)
    await eventually(lambda: seen)
    await stopped(running, task)
    assert seen == ["up, with CachedClient", "down"]


@pytest.mark.parametrize("needs_leader", [True, False])
async def test_a_runnable_that_fails_stops_the_manager_gracefully(api: API, work: Work, needs_leader: bool) -> None:
    async def fails() -> None:
        raise RuntimeError("no more paper")

    running = manager(api, work)
    running.add(fails, needs_leader=needs_leader)
    with pytest.raises(RuntimeError, match="no more paper"):
        await asyncio.wait_for(running.run(), 60)


async def test_one_of_two_managers_leads_and_the_other_takes_over_when_it_stops(api: API) -> None:
    first_work, second_work = Work(), Work()
    election = LeaderElection(retry_period=timedelta(milliseconds=20))
    first, second = (manager(api, each, leader_election=election) for each in (first_work, second_work))
    first_task = await started(first)
    await create(api, "web-1")
    await eventually(lambda: first_work.ended)
    early: list[str] = []

    async def standby() -> None:
        early.append("runs while standing by")

    second.add(standby, needs_leader=False)
    second_task = await started(second)
    await eventually(lambda: early)
    assert (first.metrics.leading, second.metrics.leading) == (True, False)
    await create(api, "web-2")
    await eventually(lambda: "web-2" in first_work.ended)
    assert second_work.begun == []
    await stopped(first, first_task)
    await eventually(lambda: {"web-1", "web-2"} <= set(second_work.ended))
    lease = await api.admin.get(Lease, "configmap", namespace=NAMESPACE)
    assert lease.spec.lease_transitions == 1
    await stopped(second, second_task)


async def test_a_standby_can_be_stopped(api: API) -> None:
    first, second = (manager(api, Work(), leader_election=LeaderElection()) for _ in range(2))
    first_task = await started(first)
    second_task = await started(second)
    await stopped(second, second_task)
    assert not first_task.done()
    await stopped(first, first_task)


async def test_a_manager_that_loses_its_lease_cancels_its_work_and_fails(api: API, work: Work) -> None:
    alone = {"health_address": "0", "metrics_address": "0"}
    running = manager(api, work, transport=api.cuttable("first"), leader_election=LeaderElection(), **alone)
    task = await started(running)
    work.go_on.clear()
    await create(api, "web")
    await eventually(lambda: work.begun)
    api.down.add("first")
    lost_at = monotonic()
    with pytest.raises(LeadershipLost, match="Lease default/configmap: not renewed within 10 s; stopping"):
        await task
    assert monotonic() - lost_at <= 11
    assert work.ended == []


def test_the_client_exists_only_while_the_manager_runs(api: API, work: Work) -> None:
    with pytest.raises(ConfigError, match="while the Manager runs"):
        _ = manager(api, work).client
