"""One controller at work: from events to requests, from requests to reconciles.

Guarantees
    After `start`, each object that exists and each event that passes the predicates leads to a reconcile.
    No object is in two reconciles at a time.
    Nothing that a reconciler raises ends the loop.
How a reconcile ends, and what becomes of it then: `kubewright.controller.outcome`.

Follows controller-runtime's pkg/internal/controller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar

from kubewright.cache.cache import Cache
from kubewright.cache.client import CachedClient
from kubewright.cache.entry import Event, ObjectKey
from kubewright.cache.informer import Informer
from kubewright.controller.context import Context
from kubewright.controller.controller import Controller
from kubewright.controller.events import EventRecorder, NoEvents
from kubewright.controller.finalizer import add_finalizer, remove_finalizer
from kubewright.controller.handlers import EventHandler, enqueue_mapped, enqueue_object, enqueue_owner
from kubewright.controller.log import StructuredLogger, get_logger
from kubewright.controller.observer import ControllerObserver
from kubewright.controller.outcome import (
    Failure,
    Outcome,
    ReconcileTimeout,
    classify,
    explains_itself,
    unwrapped,
)
from kubewright.controller.predicates import Predicate
from kubewright.controller.queue import LOW_PRIORITY, QueueClosed, WorkQueue
from kubewright.controller.reconcile import Request, Result
from kubewright.machinery.clock import Clock, SystemClock
from kubewright.machinery.errors import NotFound
from kubewright.models import Object

T = TypeVar("T", bound=Object)

_PATIENCE: Final = 5
"""Conflicts in a row after which they are told of: something else keeps writing the same fields."""

_SHOWN_CAUSES: Final = 4
"""Causes that are kept for one reconcile. There can be thousands."""

_TURN: Final = 64
"""Reconciles after which a worker lets others run, should none of them have waited for anything."""

_Cause: TypeAlias = tuple[str, str, ObjectKey]
"""Kind of the object that changed, what became of it, and which it was."""


class ControlLoop(Generic[T]):
    """A controller, started on one cache. `start`, then `run`; `close` ends it gracefully."""

    def __init__(
        self,
        controller: Controller[T],
        client: CachedClient,
        cache: Cache,
        *,
        events: EventRecorder | None = None,
        observer: ControllerObserver | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.controller = controller
        self._client = client
        self._cache = cache
        self._events = events or NoEvents()
        self._observer = observer or ControllerObserver()
        self._clock: Clock = clock or SystemClock()
        self._log = get_logger(f"kubewright.controller.{controller.name}").bind(controller=controller.name)
        self._owns = frozenset(controller.owns)
        self._timeout = controller.timeout.total_seconds() if controller.timeout else None
        self._endings: list[Callable[[], None]] = []
        self._causes: dict[Request, list[_Cause]] = {}
        self.queue = WorkQueue(backoff=controller.backoff, clock=self._clock, observer=self._observer)

    def start(self) -> None:
        """Begin to listen. Requests gather in the queue, each once, until `run` works on them."""
        mine = self.controller
        own = self._cache.informer(mine.kind)
        self._listen(own, enqueue_object, mine.predicate)
        for kind in mine.owns:
            informer = self._cache.informer(kind)
            self._listen(informer, enqueue_owner(mine.kind), None)
        for watch in mine.watches:
            informer = self._cache.informer(watch.kind)
            self._listen(informer, enqueue_mapped(watch.map, own.lister), watch.predicate)
        for kind in mine.reads:
            self._cache.informer(kind)
        self._endings += [source.subscribe(self.queue.add) for source in mine.sources]

    async def run(self) -> None:
        """Work until `close`. Cancelled, it gives up the reconciles that run."""
        async with asyncio.TaskGroup() as group:
            for number in range(self.controller.workers):
                group.create_task(self._work(), name=f"{self.controller.name}-{number}")

    def close(self) -> None:
        """Listen and hand out no more; `run` returns when the reconciles that run are done."""
        for end in self._endings:
            end()
        self._endings.clear()
        self.queue.close()

    def _listen(self, informer: Informer[Any], handler: EventHandler[Any], predicate: Predicate | None) -> None:
        kind = informer.kind.__api__.kind

        def hear(event: Event[Any]) -> None:
            try:
                if predicate is None or predicate(event):
                    priority = LOW_PRIORITY if event.initial else 0
                    for request in handler(event):
                        self._note(request, (kind, event.type, event.key))
                        self.queue.add(request, priority=priority)
            except Exception:  # noqa: BLE001 - the user's code; other events must not suffer
                self._log.exception("Event not handled", event=event.type, object=str(event.key))

        registration = informer.add_handler(on_add=hear, on_update=hear, on_delete=hear)
        self._endings.append(registration.remove)

    def _note(self, request: Request, cause: _Cause) -> None:
        """Keep why `request` is asked for, for the log. A reconciler does not see it: it looks at state alone."""
        causes = self._causes.get(request)
        if causes is None:
            self._causes[request] = [cause]
        elif len(causes) < _SHOWN_CAUSES:
            causes.append(cause)

    async def _work(self) -> None:
        done = 0
        while True:
            try:
                async with self.queue.take() as request:
                    await self._attempt(request)
            except QueueClosed:
                return
            except _TryAgain:
                pass
            done += 1
            if done % _TURN == 0:
                await asyncio.sleep(0)

    async def _attempt(self, request: Request) -> None:
        """One reconcile, told of and judged. Raises _TryAgain for one to be repeated after the backoff."""
        started = self._clock.monotonic()
        attempt = self.queue.failures(request) + 1
        causes = self._causes.pop(request, ())
        outcome = Outcome.SUCCESS
        error: BaseException | None = None
        try:
            outcome = await self._bounded(request, attempt)
        except asyncio.CancelledError as cancelled:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            error = cancelled  # not of us: something that the reconciler waited for was cancelled
        except Exception as raised:  # noqa: BLE001 - nothing that a reconciler raises ends the worker
            error = unwrapped(raised)
        again = False
        if error is not None:
            outcome, again = self._judge(error, request, attempt, self._about(request, attempt, causes))
        seconds = self._clock.monotonic() - started
        self._observer.reconciled(outcome, seconds)
        if self._log.isEnabledFor(logging.DEBUG):
            log = self._about(request, attempt, causes)
            log.debug("Reconcile ended", outcome=outcome.value, seconds=seconds)
        if again:
            raise _TryAgain from error

    async def _bounded(self, request: Request, attempt: int) -> Outcome:
        """The reconcile within its time, and what its result asks for."""
        if self._timeout is None:
            result = await self._reconcile(request, attempt)
        else:
            limit = asyncio.timeout(self._timeout)
            try:
                async with limit:
                    result = await self._reconcile(request, attempt)
            except TimeoutError as error:
                if limit.expired():
                    raise ReconcileTimeout(
                        f"the reconcile took longer than {self._timeout:g} s and was cancelled"
                    ) from error
                raise
        if result is None or result.requeue_after is None:
            return Outcome.SUCCESS
        self.queue.add(request, after=result.requeue_after)
        return Outcome.REQUEUE_AFTER

    async def _reconcile(self, request: Request, attempt: int) -> Result | None:
        mine = self.controller
        obj = await self._fetch(request)
        deleting = obj is not None and obj.metadata.deletion_timestamp is not None
        if obj is not None and mine.finalizer is not None:
            if not deleting:
                obj = await add_finalizer(self._client, obj, mine.finalizer)
            elif mine.finalizer in obj.metadata.finalizers:
                return await self._finalize(mine.finalizer, obj, self._context(request, attempt, obj))
        if (obj is None or deleting) and not mine.deleted:
            return None
        return await mine.reconcile(self._context(request, attempt, obj))

    async def _fetch(self, request: Request) -> T | None:
        try:
            return await self._client.get(self.controller.kind, request.name, namespace=request.namespace)
        except NotFound:
            return None

    async def _finalize(self, finalizer: str, obj: T, context: Context[T]) -> Result | None:
        finalize = self.controller.finalize
        result = await finalize(context) if finalize is not None else None
        if result is None or result.requeue_after is None:
            await remove_finalizer(self._client, obj, finalizer)
        return result

    def _context(self, request: Request, attempt: int, obj: T | None) -> Context[T]:
        return Context(
            self.controller.kind,
            request,
            obj,
            attempt=attempt,
            owns=self._owns,
            client=self._client,
            events=self._events,
            logger=self._log,
        )

    def _judge(
        self, error: BaseException, request: Request, attempt: int, log: StructuredLogger
    ) -> tuple[Outcome, bool]:
        """How a reconcile that raised `error` ended, and whether it is to be repeated. Logged and counted here."""
        failure = classify(error, self.controller.kind, request)
        if failure is Failure.GONE:
            return Outcome.SUCCESS, False
        if failure is Failure.CONFLICT:
            level = logging.WARNING if attempt > _PATIENCE else logging.DEBUG
            log.log(level, "Object changed meanwhile", error=str(error))
            return Outcome.REQUEUE, True
        self._observer.failed(failure)
        terminal = failure is Failure.TERMINAL
        log.error(
            "Reconcile failed for good" if terminal else "Reconcile failed",
            error=f"{type(error).__name__}: {error}",
            exc_info=None if explains_itself(error) else error,
        )
        return Outcome.ERROR, not terminal

    def _about(self, request: Request, attempt: int, causes: Sequence[_Cause]) -> StructuredLogger:
        """For lines about one reconcile: which object, which attempt, and what asked for it."""
        shown = ", ".join(f"{kind} {key} {event}" for kind, event, key in causes) or None
        return self._log.bind(namespace=request.namespace, name=request.name, attempt=attempt, causes=shown)


class _TryAgain(Exception):
    """The request comes again after its backoff; what went wrong has been told."""
