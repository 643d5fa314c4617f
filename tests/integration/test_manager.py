"""A manager in its own process: startup, shutdown, leader election, and errors that end it."""

import asyncio
import json
import os
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from integration import gizmo_operator
from integration.command import NO_SERVERS
from integration.gizmo_operator import Gizmo, GizmoSpec, reconcile
from kubewright.apis.coordination.v1 import Lease
from kubewright.apis.core.v1 import ConfigMap
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.client import MergePatch
from kubewright.controllers._loop import PAUSED
from kubewright.http.client import HTTPClient
from kubewright.http.message import Request, Response
from kubewright.manager import Manager
from kubewright.models import Object
from kubewright.testing import Cluster, Faults, eventually
from kubewright.testing import failure as failure_of
from kubewright_controlplane.ports import free_port

ARGUMENTS = ("--log-format=json", *NO_SERVERS)


@pytest_asyncio.fixture
async def gizmos(cluster: Cluster) -> None:
    await cluster.install(Gizmo)


class Process:
    """A running operator and its log."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.lines: list[dict[str, object]] = []
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            self.lines.append(json.loads(line))

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    async def ended(self) -> int:
        """Wait for the exit. Returns the status."""
        status = await self._process.wait()
        await self._reading
        return status

    async def says(self, message: str) -> dict[str, object]:
        """Wait for a line with a message. Returns the first one."""

        async def find() -> dict[str, object]:
            found = [line for line in self.lines if line["msg"] == message]
            assert found, self.lines
            return found[0]

        return await eventually(find)

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self.ended()


@asynccontextmanager
async def operator(kubeconfig: Path, namespace: str, *arguments: str) -> AsyncIterator[Process]:
    """Run the gizmo operator as a process for the duration of the block."""
    program = Path(gizmo_operator.__file__)
    command: Sequence[str] = (sys.executable, str(program), f"--namespace={namespace}", *ARGUMENTS, *arguments)
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    started = await asyncio.create_subprocess_exec(*command, env=environment, stderr=asyncio.subprocess.PIPE)
    process = Process(started)
    try:
        yield process
    finally:
        await process.kill()


def version_of(obj: Object) -> int:
    return int(obj.metadata.resource_version)


def gizmo(namespace: str, name: str = "g", *, parts: int = 1, slow: bool = False) -> Gizmo:
    return Gizmo(metadata=ObjectMeta(name=name, namespace=namespace), spec=GizmoSpec(parts=parts, slow=slow))


async def parts_of(cluster: Cluster, namespace: str) -> set[str]:
    found = await cluster.client.list(ConfigMap, namespace=namespace)
    return {each.metadata.name for each in found} - {"kube-root-ca.crt"}


async def versions_of(cluster: Cluster, namespace: str) -> dict[str, str]:
    """Wait until all parts are blue. Returns their colors and resource versions by name."""

    async def check() -> dict[str, str]:
        found = [each for each in await cluster.client.list(ConfigMap, namespace=namespace) if "color" in each.data]
        assert [each.data["color"] for each in found] == ["blue", "blue"]
        return {each.metadata.name: each.metadata.resource_version for each in found}

    return await eventually(check)


async def next_holder(cluster: Cluster, lease: Lease) -> Lease:
    """Return the Lease at the first change of its holder, also if that is in the past."""
    since, namespace = lease.metadata.resource_version, lease.metadata.namespace
    async with aclosing(cluster.client.watch(Lease, namespace=namespace, resource_version=since)) as events:
        async for event in events:
            if event.object.spec.holder_identity != lease.spec.holder_identity:
                return event.object
    raise AssertionError("the watch has ended")


async def has_parts(cluster: Cluster, namespace: str, names: set[str]) -> None:
    assert await parts_of(cluster, namespace) == names


async def test_sigterm_ends_a_manager_with_status_0_and_a_released_lease(
    cluster: Cluster, namespace: str, gizmos: None
) -> None:
    kubeconfig = cluster.kubeconfig(replace(cluster.config, namespace=namespace))
    async with operator(kubeconfig, namespace) as process:
        await cluster.client.create(gizmo(namespace, parts=2))
        await eventually(has_parts, cluster, namespace, {"g-0", "g-1"})
        lease = await cluster.client.get(Lease, "gizmo-operator", namespace=namespace)
        assert lease.spec.holder_identity
        assert lease.spec.holder_identity.startswith(f"{socket.gethostname()}_")
        process.signal(signal.SIGTERM)
        assert await process.ended() == 0
        assert [line for line in process.lines if line["level"] not in ("info", "debug")] == []
    lease = await cluster.client.get(Lease, "gizmo-operator", namespace=namespace)
    assert not lease.spec.holder_identity


async def test_a_manager_works_with_its_generated_permissions(cluster: Cluster, namespace: str, gizmos: None) -> None:
    manager = Manager([reconcile])
    rules = manager.rbac_rules() + manager.leader_election_rules()
    async with cluster.service_account(rules, namespace=namespace) as account:
        kubeconfig = cluster.kubeconfig(replace(account, namespace=namespace))
        async with operator(kubeconfig, namespace) as process:
            await cluster.client.create(gizmo(namespace))
            await eventually(has_parts, cluster, namespace, {"g-0"})
            process.signal(signal.SIGINT)
            assert await process.ended() == 0
            assert [line for line in process.lines if line["level"] not in ("info", "debug")] == []


async def test_a_reconcile_that_runs_at_sigterm_is_finished(cluster: Cluster, namespace: str, gizmos: None) -> None:
    async with operator(cluster.kubeconfig(), namespace, "--leader-elect=false") as process:
        await cluster.client.create(gizmo(namespace, parts=2, slow=True))
        await process.says("Half done")
        process.signal(signal.SIGTERM)
        assert await process.ended() == 0
    assert await parts_of(cluster, namespace) == {"g-0", "g-1"}


async def test_the_lease_is_released_after_the_last_reconcile_and_the_standby_takes_over(
    cluster: Cluster, namespace: str, gizmos: None
) -> None:
    kubeconfig = cluster.kubeconfig(replace(cluster.config, namespace=namespace))
    async with operator(kubeconfig, namespace) as first:
        await first.says("Controllers started")
        lease = await cluster.client.get(Lease, "gizmo-operator", namespace=namespace)
        async with operator(kubeconfig, namespace) as second:
            await second.says("Other leader found")
            await cluster.client.create(gizmo(namespace, parts=3, slow=True))
            await first.says("Half done")
            first.signal(signal.SIGTERM)
            released = await next_holder(cluster, lease)
            assert not released.spec.holder_identity, "the Lease was released and did not have to expire"
            found = await cluster.client.list(ConfigMap, namespace=namespace)
            versions = [version_of(each) for each in found if "color" in each.data]
            assert len(versions) == 3
            assert max(versions) < version_of(released)
            assert await first.ended() == 0
            await second.says("Controllers started")


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_second_signal_ends_a_manager_at_once(
    cluster: Cluster, namespace: str, gizmos: None, stop: signal.Signals
) -> None:
    async with operator(cluster.kubeconfig(), namespace, "--leader-elect=false") as process:
        await cluster.client.create(gizmo(namespace, parts=60, slow=True))
        await process.says("Half done")
        process.signal(stop)
        await process.says("Stop signal received, a second one exits immediately")
        process.signal(stop)
        assert await process.ended() == 1
        assert process.lines[-1]["msg"] == "Second signal received, exiting immediately"


async def test_when_the_leader_is_killed_the_standby_takes_over(cluster: Cluster, namespace: str, gizmos: None) -> None:
    kubeconfig = cluster.kubeconfig(replace(cluster.config, namespace=namespace))
    async with operator(kubeconfig, namespace) as first:
        await first.says("Controllers started")
        async with operator(kubeconfig, namespace) as second:
            await second.says("Other leader found")
            await first.kill()
            await cluster.client.create(gizmo(namespace))
            await second.says("Controllers started")
            await eventually(has_parts, cluster, namespace, {"g-0"})


async def test_a_leader_that_was_suspended_during_a_reconcile_writes_nothing_after_it_resumes(
    cluster: Cluster, namespace: str, gizmos: None
) -> None:
    kubeconfig = cluster.kubeconfig(replace(cluster.config, namespace=namespace))
    async with operator(kubeconfig, namespace) as first:
        await first.says("Controllers started")
        obj = await cluster.client.create(gizmo(namespace, parts=2, slow=True))
        await first.says("Half done")
        first.signal(signal.SIGSTOP)
        async with operator(kubeconfig, namespace) as second:
            await second.says("Controllers started")
            patch = MergePatch({"spec": {"color": "blue", "slow": False}})
            await cluster.client.patch(obj, patch)
            await eventually(has_parts, cluster, namespace, {"g-0", "g-1"})
            versions = await versions_of(cluster, namespace)
            first.signal(signal.SIGCONT)
            assert await first.ended() == 1
            assert first.lines[-1]["msg"] == "Manager failed"
            error = str(first.lines[-1]["error"])
            assert error.startswith(f"Lease {namespace}/gizmo-operator: ")
            assert "the event loop stood still for" in error
            assert await versions_of(cluster, namespace) == versions


async def test_an_operator_that_is_killed_repeatedly_still_converges(
    cluster: Cluster, namespace: str, gizmos: None
) -> None:
    kubeconfig = cluster.kubeconfig()
    names = [f"g{number}" for number in range(20)]
    for name in names:
        await cluster.client.create(gizmo(namespace, name, parts=2))
    for round_ in range(5):
        async with operator(kubeconfig, namespace, "--leader-elect=false") as process:
            await process.says("Controllers started")
            for name in names:
                patch = MergePatch({"spec": {"parts": (round_ + len(name)) % 4}})
                await cluster.client.patch(Gizmo, patch, name=name, namespace=namespace)
            await process.kill()
    async with operator(kubeconfig, namespace, "--leader-elect=false"):
        wanted = {f"{name}-{part}" for name in names for part in range((4 + len(name)) % 4)}
        await eventually(has_parts, cluster, namespace, wanted)


async def failure(kubeconfig: Path, namespace: str, *arguments: str) -> str:
    """Return the one line that an operator prints if it cannot start."""
    async with operator(kubeconfig, namespace, *arguments) as process:
        assert await process.ended() == 1
        *before, last = process.lines
        assert [line for line in before if line["level"] != "info"] == []
        assert last["msg"] == "Manager failed"
        return str(last["error"])


async def test_an_unreachable_server_is_reported_in_one_line(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    port = free_port()
    nowhere = cluster.kubeconfig(replace(cluster.config, server=f"https://127.0.0.1:{port}"))
    assert f"127.0.0.1:{port}" in await failure(nowhere, namespace)
    assert str(tmp_path / "none") in await failure(tmp_path / "none", namespace)


async def test_missing_permissions_are_reported_in_one_line(cluster: Cluster, namespace: str, gizmos: None) -> None:
    async with cluster.service_account([], namespace=namespace) as account:
        error = await failure(cluster.kubeconfig(account), namespace, "--leader-elect=false")
    assert error.startswith("RBAC: not allowed to get gizmos.kubewright.test in namespace")
    assert "kubewright generate" in error


async def test_missing_credentials_are_reported_in_one_line(cluster: Cluster, namespace: str, gizmos: None) -> None:
    nobody = replace(cluster.config, token=None, client_cert=None, client_key=None)
    error = await failure(cluster.kubeconfig(nobody), namespace, "--leader-elect=false")
    assert error.startswith("the API server treats this process as system:anonymous")


async def test_an_occupied_port_is_reported_in_one_line(cluster: Cluster, namespace: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        error = await failure(cluster.kubeconfig(), namespace, f"--health-probe-bind-address={address}")
    assert error.startswith(f"health_address '{address}' (--health-probe-bind-address): ")


async def test_wrong_flags_are_reported_with_the_valid_ones(cluster: Cluster, namespace: str) -> None:
    program = Path(gizmo_operator.__file__)
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(program), "--leader-elect=perhaps", stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()
    assert process.returncode == 2
    assert b"'perhaps' is neither true nor false" in said


async def scrape(port: int, token: str) -> int:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    client = HTTPClient(f"https://localhost:{port}", ssl=context)
    headers = {"authorization": f"Bearer {token}"} if token else {}
    response = await client.send(Request("GET", "/metrics", headers))
    await client.close()
    return response.status


async def test_with_metrics_secure_only_permitted_users_read_metrics(
    cluster: Cluster, namespace: str, gizmos: None
) -> None:
    port, manager = free_port(), Manager([reconcile])
    kubeconfig = cluster.kubeconfig(replace(cluster.config, namespace=namespace))
    flags = ("--metrics-secure", f"--metrics-bind-address=127.0.0.1:{port}")
    async with (
        cluster.service_account(manager.metrics_reader_rules(), namespace=namespace) as reader,
        cluster.service_account(manager.metrics_auth_rules(), namespace=namespace) as stranger,
        operator(kubeconfig, namespace, *flags) as process,
    ):
        await process.says("Controllers started")
        assert await scrape(port, "") == 401
        assert await scrape(port, str(stranger.token)) == 403

        async def may() -> None:
            assert await scrape(port, str(reader.token)) == 200

        await eventually(may)


async def test_an_operator_of_two_namespaces_ignores_the_third(cluster: Cluster, namespace: str, gizmos: None) -> None:
    async with cluster.namespace() as second, cluster.namespace() as third:
        kubeconfig = cluster.kubeconfig(replace(cluster.config, namespace=namespace))
        async with operator(kubeconfig, f"{namespace},{second}") as process:
            await process.says("Controllers started")
            for each in (third, namespace, second):
                await cluster.client.create(gizmo(each))
            for each in (namespace, second):
                await eventually(has_parts, cluster, each, {"g-0"})
            assert await parts_of(cluster, third) == set()


async def test_a_fight_with_another_manager_is_logged_with_the_field_and_the_manager(
    cluster: Cluster, namespace: str, gizmos: None
) -> None:
    kubeconfig = cluster.kubeconfig(replace(cluster.config, namespace=namespace))
    async with operator(kubeconfig, namespace) as process:
        await cluster.client.create(gizmo(namespace))

        async def undo() -> None:
            part = await cluster.client.get(ConfigMap, "g-0", namespace=namespace)
            assert part.data == {"color": "red"}
            change = MergePatch({"data": {"color": "blue"}})
            await cluster.client.patch(part, change, field_manager="meddler")

        for _ in range(10):
            await eventually(undo)
        line = await process.says("Hot loop: writes of a reconcile undone by another client")
        told = {key: line[key] for key in ("level", "object", "field", "found", "written", "managers")}
        assert told == {
            "level": "warning",
            "object": f"ConfigMap {namespace}/g-0",
            "field": "data.color",
            "found": '"blue"',
            "written": '"red"',
            "managers": "meddler",
        }


async def test_a_paused_object_is_not_reconciled_until_the_annotation_is_removed(
    cluster: Cluster, namespace: str, gizmos: None
) -> None:
    kubeconfig = cluster.kubeconfig(replace(cluster.config, namespace=namespace))
    async with operator(kubeconfig, namespace) as process:
        paused = gizmo(namespace)
        paused.metadata.annotations[PAUSED] = "true"
        made = await cluster.client.create(paused)
        await process.says("Object paused")
        assert await parts_of(cluster, namespace) == set()
        await cluster.client.patch(made, MergePatch({"metadata": {"annotations": {PAUSED: None}}}))
        await eventually(has_parts, cluster, namespace, {"g-0"})


async def test_startup_survives_temporary_errors_of_the_server(cluster: Cluster, namespace: str, gizmos: None) -> None:
    asked: set[str] = set()
    lost: set[str] = set()

    def answer(request: Request) -> Response | None:
        if request.target in asked:
            return None
        asked.add(request.target)
        return failure_of(503, "ServiceUnavailable")

    def loses(request: Request) -> bool:
        is_first = "accessreviews" in request.target and request.target not in lost
        lost.add(request.target)
        return is_first

    async with cluster.service_account(Manager([reconcile]).rbac_rules(), namespace=namespace) as account:
        faults = Faults(account)
        faults.answer, faults.loses = answer, loses
        async with Manager([reconcile], transport=faults, namespaces=namespace):
            await cluster.client.create(Gizmo(metadata=ObjectMeta(name="g", namespace=namespace), spec=GizmoSpec()))
            await eventually(cluster.client.get, ConfigMap, "g-0", namespace=namespace)
    assert any("accessreviews" in each for each in asked & lost)
