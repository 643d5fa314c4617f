"""Controllers on an API server in the same process. Tests see their requests and can make them fail."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from kubewright.apis.core.v1 import ConfigMap, Secret
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.cache import Cache, Scope
from kubewright.client._client import Client
from kubewright.client._transport import HandlerTransport
from kubewright.controllers import Controller, EventRecord, EventRecorder
from kubewright.controllers._loop import ControlLoop
from kubewright.controllers._reconcile import ControllerObserver, Failure, Outcome
from kubewright.controllers._tracing import Tracing
from kubewright.controllers.predicates import Predicate
from kubewright.http.message import Peer, Request, Response
from kubewright.models import Object
from kubewright.testing import VirtualClock, VirtualTimeLoop
from kubewright_controlplane.apiserver.server import APIServer

T = TypeVar("T", bound=Object)

ADMIN = Peer(common_name="admin", organizations=("system:masters",))
NAMESPACE = "default"

ours = Predicate(lambda event: event.key.namespace == NAMESPACE and event.key.name != "kube-root-ca.crt")
"""A predicate that ignores the objects of the cluster itself."""


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the logged errors."""
    return [each.msg for each in caplog.records if each.levelno >= logging.ERROR]


class Told(ControllerObserver):
    """Records the observer calls of a controller."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.failures: list[Failure] = []
        self.loops = 0
        self.stopped = 0
        self.paused_now = 0

    def reconciled(self, outcome: Outcome, seconds: float) -> None:
        self.outcomes.append(outcome)

    def failed(self, failure: Failure) -> None:
        self.failures.append(failure)

    def looping(self) -> None:
        self.loops += 1

    def deletes_stopped(self) -> None:
        self.stopped += 1

    def paused(self, objects: int) -> None:
        self.paused_now = objects


class RecordedEvents(EventRecorder):
    """Records the Events of controllers."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def record(self, event: EventRecord, /) -> None:
        regarding = event.regarding
        self.lines.append(f'{event.type} {event.reason} {regarding.kind} "{regarding.metadata.name}": {event.note}')


class Workshop:
    """An API server, an administrator's client, and the controllers that a test runs."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.told = Told()
        self._events = RecordedEvents()
        self.events = self._events.lines
        """The Events that controllers recorded."""
        self.sent: list[tuple[str, str]] = []
        """Method and path of the controllers' writes."""
        self.spoil: Callable[[Request], Response | None] = lambda request: None
        """Returns an answer in place of the server's, or None."""
        self.answered: Callable[[Request, Response], Response] = lambda request, response: response
        """Changes the answer to a write of the controllers."""
        self.meanwhile: Callable[[Request], Awaitable[None]] | None = None
        """Called once, before the controller's next write arrives."""
        self._server = APIServer()
        self.admin = Client(transport=HandlerTransport(self._server.handle, peer=ADMIN), field_manager="admin")
        self._caches: list[Cache] = []
        self._running: list[tuple[ControlLoop[Any], asyncio.Task[None]]] = []

    async def open(self) -> None:
        await self._server.start()

    async def close(self) -> None:
        for loop, task in self._running:
            loop.close()
            await task
        for cache in self._caches:
            await cache.stop()
        await self._server.close()

    async def run(self, controller: Controller[Any], *, tracing: Tracing | None = None) -> ControlLoop[Any]:
        """Run `controller`, and wait until it has nothing to do."""
        client = Client(
            transport=HandlerTransport(self._handle, peer=ADMIN, clock=self.clock),
            field_manager="operator",
            clock=self.clock,
        )
        scopes: dict[type[Object], Scope] = {kind: Scope(keep_managed_fields=True) for kind in controller.owns}
        scopes[controller.kind] = Scope(indexers=controller.indexers)
        cache = Cache(client, scopes=scopes)
        loop = ControlLoop(
            controller,
            client,
            cache,
            events=self._events,
            observer=self.told,
            delete_fuse=controller.delete_fuse,
            tracing=tracing,
            clock=self.clock,
        )
        loop.start()
        cache.start()
        self._caches.append(cache)
        await cache.wait_synced()
        self._running.append((loop, asyncio.create_task(loop.run())))
        await self.settle()
        return loop

    async def settle(self) -> None:
        """Wait until every task waits. No time passes."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        await loop.settle()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until every task waits, and check the condition."""
        await self.settle()
        assert condition()

    async def stop(self, loop: ControlLoop[Any]) -> asyncio.Task[None]:
        """Stop gracefully. The task then ends."""
        task = next(task for each, task in self._running if each is loop)
        loop.close()
        await self.settle()
        return task

    async def create(self, obj: T) -> T:
        created = await self.admin.create(obj)
        await self.settle()
        return created

    async def _handle(self, request: Request) -> Response:
        if request.method != "GET":
            self.sent.append((request.method, request.path))
            meanwhile, self.meanwhile = self.meanwhile, None
            if meanwhile is not None:
                await meanwhile(request)
        spoiled = self.spoil(request)
        if spoiled is not None:
            return spoiled
        response = await self._server.handle(request)
        return response if request.method == "GET" else self.answered(request, response)


def config_map(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=NAMESPACE), data=data)


def secret(name: str, **labels: str) -> Secret:
    return Secret(metadata=ObjectMeta(name=name, namespace=NAMESPACE, labels=labels), type="Opaque")
