"""Additions of an operator to its manager: resources, flags, metrics, blocking code; and running it in tests."""

from __future__ import annotations

import argparse
import asyncio
import contextvars
import inspect
import logging
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import prometheus_client
import pytest
import pytest_asyncio
import uvloop

from kubewright.apis.core.v1 import ConfigMap
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.client import Client
from kubewright.client._config import Config
from kubewright.client._transport import HandlerTransport
from kubewright.controllers import Context, Controller, controller, run_blocking
from kubewright.controllers.predicates import Predicate
from kubewright.http.message import Peer
from kubewright.machinery.errors import ConfigError, LeadershipLost
from kubewright.manager import LeaderElection, Manager
from kubewright.manager._exposition import render
from kubewright.manager._manager import ManagerChanges
from kubewright.manager._program import run_program
from kubewright.testing import eventually
from kubewright_controlplane.apiserver.server import APIServer

only_web = Predicate(lambda event: event.key.name.startswith("web"))


@pytest_asyncio.fixture
async def transport() -> AsyncIterator[HandlerTransport]:
    """An administrator's transport to an API server in this process."""
    server = APIServer()
    await server.start()
    yield HandlerTransport(server.handle, peer=Peer(common_name="admin", organizations=("system:masters",)))
    await server.close()


async def create(transport: HandlerTransport, name: str = "web") -> None:
    await Client(transport=transport).create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))


@dataclass
class Session:
    """A resource that reconciles share."""

    address: str
    open: bool = True


async def plain_function(ctx: Context[ConfigMap]) -> None:
    """Does nothing."""


noop = controller(ConfigMap)(plain_function)


def recorder(seen: list[str]) -> Controller[ConfigMap]:
    @controller(ConfigMap, predicate=only_web)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        session = ctx.resource(Session)
        assert session.open
        seen.append(f"{ctx.request.name} by {session.address}")

    return reconcile


async def test_reconciles_and_runnables_use_what_the_lifespan_opened(transport: HandlerTransport) -> None:
    seen: list[str] = []
    sessions: list[Session] = []

    @asynccontextmanager
    async def lifespan(manager: Manager) -> AsyncIterator[Session]:
        await manager.client.list(ConfigMap)  # the client works, for example to read credentials
        sessions.append(Session(manager.flags.address))
        yield sessions[-1]
        sessions[-1].open = False

    flags = argparse.Namespace(address="dns.example.com")
    manager = Manager([recorder(seen)], transport=transport, lifespan=lifespan, flags=flags)

    async def runnable() -> None:
        seen.append(manager.resource(Session).address)

    manager.add(runnable)
    await create(transport)
    async with manager:
        await eventually(lambda: check(set(seen) == {"web by dns.example.com", "dns.example.com"}))
        assert sessions[0].open
    assert not sessions[0].open


def check(condition: object) -> None:
    assert condition


async def test_a_lifespan_that_fails_ends_the_start_with_one_line(transport: HandlerTransport) -> None:
    @asynccontextmanager
    async def lifespan(manager: Manager) -> AsyncIterator[Session]:
        raise OSError("no route to dns.example.com")
        yield

    manager = Manager([recorder([])], transport=transport, lifespan=lifespan)
    with pytest.raises(ConfigError) as caught:
        await manager.run()
    assert str(caught.value) == "lifespan: opening the resources failed: OSError: no route to dns.example.com"


async def test_a_lifespan_that_fails_at_the_end_fails_the_run(transport: HandlerTransport) -> None:
    @asynccontextmanager
    async def lifespan(manager: Manager) -> AsyncIterator[None]:
        yield
        raise OSError("not flushed")

    with pytest.raises(ConfigError, match="lifespan: closing the resources failed: OSError: not flushed"):
        async with Manager(transport=transport, lifespan=lifespan):
            pass


async def test_a_manager_can_be_stopped_while_its_lifespan_opens(transport: HandlerTransport) -> None:
    opening = asyncio.Event()

    @asynccontextmanager
    async def lifespan(manager: Manager) -> AsyncIterator[None]:
        opening.set()
        await asyncio.Event().wait()
        yield

    manager = Manager(transport=transport, lifespan=lifespan)
    task = asyncio.create_task(manager.run())
    await opening.wait()
    manager.stop()
    await task


async def test_a_resource_of_another_type_is_refused_with_advice(transport: HandlerTransport) -> None:
    errors: list[str] = []

    @controller(ConfigMap, predicate=only_web)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        try:
            ctx.resource(Session)
        except ConfigError as error:
            errors.append(str(error))

    @asynccontextmanager
    async def lifespan(manager: Manager) -> AsyncIterator[str]:
        yield "a string"

    await create(transport)
    for options in ({}, {"lifespan": lifespan}):
        async with Manager([reconcile], transport=transport, **options):  # type: ignore[arg-type]
            await eventually(lambda: check(errors))
    assert errors[0].startswith("no Session is open: give the Manager a lifespan that yields one")
    assert errors[1].startswith("the lifespan yields a str, not a Session")


async def test_the_block_of_a_manager_that_fails_is_cancelled_and_raises_the_failure(
    transport: HandlerTransport,
) -> None:
    async def fails() -> None:
        await asyncio.sleep(5)
        raise RuntimeError("out of paper")

    manager = Manager(transport=transport)
    manager.add(fails)
    with pytest.raises(RuntimeError, match="out of paper"):
        async with manager:
            await asyncio.Event().wait()
    await asyncio.sleep(1)  # the cancellation is over
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


async def test_a_cancelled_block_stops_its_manager_and_stays_cancelled(transport: HandlerTransport) -> None:
    manager = Manager(transport=transport)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5), manager:
            await asyncio.Event().wait()
    with pytest.raises(ConfigError, match="while the Manager runs"):
        _ = manager.client


async def test_a_manager_runs_once_at_a_time(transport: HandlerTransport) -> None:
    async with Manager(name="web", transport=transport) as manager:
        with pytest.raises(ConfigError, match=r"manager web runs already; use manager.replace\(\)"):
            await manager.run()


@pytest.mark.parametrize(
    ("controllers", "options", "message"),
    [
        ([plain_function], {}, "the function plain_function is none: decorate the reconcile function with @controller"),
        (noop, {}, r"Manager takes a list of controllers: write Manager\(\[plain_function\]\)"),
        (None, {}, "Manager takes a list of controllers, got a NoneType"),
        ([noop], {"leader_election": True}, r"got True: write leader_election=LeaderElection\(\.\.\.\)"),
        ([noop], {"config": "~/.kube/config"}, "config takes a Config, got '~/.kube/config'"),
        ([noop], {"namespaces": ""}, "namespaces='' has an empty name; leave namespaces out"),
        ([noop], {"namespaces": ["a", ""]}, "has an empty name; leave namespaces out"),
        ([noop], {"namespaces": []}, "namespaces=\\[\\] has no name; leave namespaces out"),
    ],
)
def test_an_argument_of_another_type_is_refused_with_what_to_write(
    controllers: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Manager(controllers, **options)


def test_config_and_transport_exclude_each_other(transport: HandlerTransport) -> None:
    with pytest.raises(ConfigError, match="give one of them"):
        Manager(config=Config("http://127.0.0.1:1"), transport=transport)


@pytest.mark.parametrize("timeout", [-1, float("nan"), timedelta(seconds=-1)])
def test_a_negative_duration_is_refused(timeout: float | timedelta) -> None:
    with pytest.raises(ConfigError, match="graceful_timeout must not be negative"):
        Manager(graceful_timeout=timeout)


def test_replace_takes_the_same_arguments_as_the_manager() -> None:
    arguments = set(inspect.signature(Manager).parameters)
    assert set(ManagerChanges.__annotations__) == arguments


async def test_a_copy_has_the_runnables_checks_and_metrics_of_the_original(transport: HandlerTransport) -> None:
    ran: list[str] = []

    async def runnable() -> None:
        ran.append("runnable")

    original = Manager([recorder([])], config=Config("http://127.0.0.1:1"), graceful_timeout=timedelta(seconds=5))
    original.add(runnable)
    original.probes.add_readyz("dns", lambda: None)
    bookings = prometheus_client.Counter("bookings", "Bookings made.", registry=None)
    original.metrics.registry.register(bookings)
    copy = original.replace(transport=transport, namespaces=["default"])
    assert copy.options.config is None
    assert copy.options.graceful_timeout == 5
    async with copy:
        await eventually(lambda: check(ran))
    bookings.inc()
    assert b"bookings_total 1.0" in render(copy.metrics, "")[1]
    assert b"kubewright_cache_objects" in render(copy.metrics, "")[1]


def test_custom_flags_reach_the_manager(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser(description="Keeps DNS records.")
    parser.add_argument("--dns-api", default="https://dns.example.com", help="address of the DNS API")
    manager = Manager(name="dns", config=Config("http://127.0.0.1:9"))
    with pytest.raises(SystemExit) as ended:
        run_program(manager, ["--dns-api=https://localhost", "--metrics-bind-address=nowhere"], parser=parser)
    assert ended.value.code == 1
    assert manager.flags.dns_api == "https://localhost"
    with pytest.raises(SystemExit):
        run_program(manager.replace(parser=parser), ["--help"])
    shown = capsys.readouterr().out
    assert "address of the DNS API" in shown
    text = " ".join(shown.split())
    assert "where /healthz and /readyz are served (default: :8081)" in text
    assert '"0" turns it off (default: nowhere)' in text
    assert "(default: console on a terminal, else json)" in text
    assert "which lasts 15 s and is renewed every 2 s" in text
    assert "--leader-elect" in shown


def test_flags_have_the_defaults_of_the_parser_until_they_are_parsed() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dns-api", default="https://dns.example.com")
    parser.add_argument("--retries", type=int, default="3")
    parser.add_argument("--zone", required=True)
    manager = Manager(name="dns", config=Config("http://127.0.0.1:9"), parser=parser)
    assert manager.replace(name="other").flags == argparse.Namespace(
        dns_api="https://dns.example.com", retries=3, zone=None
    )
    given = manager.replace(flags=argparse.Namespace(zone="example.com"))
    assert (given.flags.zone, given.flags.retries) == ("example.com", 3)
    given.flags.retries = 4
    assert given.flags.retries == 4
    with pytest.raises(SystemExit):
        run_program(manager, ["--zone=example.org", "--retries=5", "--metrics-bind-address=nowhere"])
    assert (manager.flags.zone, manager.flags.retries) == ("example.org", 5)
    with pytest.raises(SystemExit) as ended:
        run_program(Manager(name="dns", parser=parser), [])
    assert ended.value.code == 2


def test_required_flags_do_not_hide_the_defaults_of_others() -> None:
    parser = argparse.ArgumentParser()
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--file")
    source.add_argument("--url")
    parser.add_argument("zone")
    parser.add_argument("--retries", type=int, default="3")
    parser.set_defaults(mode="fast")
    manager = Manager(name="dns", parser=parser)
    assert manager.flags == argparse.Namespace(file=None, url=None, zone=None, retries=3, mode="fast")


def test_a_default_that_its_flag_does_not_accept_is_an_error() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--zone", required=True)
    parser.add_argument("--retries", type=int, default="many")
    with pytest.raises(ConfigError, match=r"Manager\(parser=...\): argument --retries: invalid int value: 'many'"):
        _ = Manager(name="dns", parser=parser).flags


def test_a_flag_that_every_operator_has_is_refused() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--namespace")
    with pytest.raises(ConfigError, match="--namespace: every operator has this flag; rename yours"):
        run_program(Manager(name="dns"), [], parser=parser)


user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")


async def test_blocking_code_runs_in_a_thread_with_the_callers_context() -> None:
    user.set("alice")
    result = await run_blocking(lambda x, y: (x + y, user.get(), threading.get_ident()), 1, y=2)
    assert result[:2] == (3, "alice")
    assert result[2] != threading.get_ident()


async def test_a_cancelled_caller_waits_for_its_blocking_code() -> None:
    began, finish, ended = threading.Event(), threading.Event(), threading.Event()

    def blocks() -> None:
        began.set()
        finish.wait()
        ended.set()

    task = asyncio.create_task(run_blocking(blocks))
    await asyncio.to_thread(began.wait)
    task.cancel()
    for _ in range(3):
        await asyncio.sleep(0)
    assert not task.done()
    finish.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_an_error_of_blocking_code_is_the_callers() -> None:
    with pytest.raises(ZeroDivisionError):
        await run_blocking(lambda: 1 / 0)


@pytest.mark.parametrize("factory", [asyncio.SelectorEventLoop, uvloop.new_event_loop])
def test_a_reconcile_that_blocks_the_event_loop_is_named(factory: Any, caplog: pytest.LogCaptureFixture) -> None:
    @controller(ConfigMap, predicate=only_web)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        time.sleep(1.6)  # noqa: ASYNC251 - this is what is tested
        done.set()

    def warnings() -> list[logging.LogRecord]:
        return [each for each in caplog.records if each.msg == "Event loop blocked"]

    async def run() -> None:
        server = APIServer()
        await server.start()
        way = HandlerTransport(server.handle, peer=Peer(common_name="admin", organizations=("system:masters",)))
        await create(way)
        async with Manager([reconcile], transport=way):
            await done.wait()
            await eventually(lambda: check(warnings()))
        await server.close()

    done = asyncio.Event()
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(run())
    fields: dict[str, Any] = warnings()[0].__dict__["fields"]
    assert fields["controller"] == "configmap"
    assert fields["object"] == "default/web"
    assert 1 <= fields["seconds"] < 20
    assert __file__ in fields["at"]


async def test_the_error_of_leadership_lost_by_blocking_code_names_the_cause(transport: HandlerTransport) -> None:
    @controller(ConfigMap, predicate=only_web)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        loop = asyncio.get_running_loop()
        loop._now += 12  # type: ignore[attr-defined] # as if it had blocked for that long

    manager = Manager([reconcile], transport=transport, leader_election=LeaderElection())
    running = asyncio.create_task(manager.run())
    await asyncio.sleep(3)
    await create(transport)
    with pytest.raises(LeadershipLost, match=r"because the event loop stood still for 1\d\.\d s: .*run_blocking"):
        await running
