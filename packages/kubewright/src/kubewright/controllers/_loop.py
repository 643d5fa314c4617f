"""One controller at work: from events to requests, from requests to reconciles.

Guarantees
    After `start`, each object that exists and each event that passes the predicates leads to a reconcile.
    No object is in two reconciles at a time.
    Nothing that a reconciler raises ends the loop.
How a reconcile ends, and what becomes of it then: `kubewright.controllers._outcome`.

Follows controller-runtime's pkg/internal/controller.
"""

from __future__ import annotations

import asyncio
import logging
import random
from datetime import timedelta
from typing import Final, Generic, TypeVar

from kubewright._runtime.clock import Clock, SystemClock
from kubewright._runtime.log import StructuredLogger, get_logger
from kubewright.cache._cache import Cache
from kubewright.client._client import Client
from kubewright.controllers._attempt import CURRENT, Attempt
from kubewright.controllers._context import Context
from kubewright.controllers._controller import Controller
from kubewright.controllers._events import EventRecorder, NoEvents
from kubewright.controllers._finalizer import add_finalizer, remove_finalizer
from kubewright.controllers._fuse import ALLOW_DELETES, DeleteFuse, DeletesStopped, Fuse
from kubewright.controllers._hotloop import HotLoop, HotLoops
from kubewright.controllers._listener import Listener
from kubewright.controllers._observer import ControllerObserver
from kubewright.controllers._outcome import (
    Failure,
    Outcome,
    ReconcileTimeout,
    classify,
    explains_itself,
    traceback_of,
    unwrapped,
)
from kubewright.controllers._pause import PAUSED, is_paused
from kubewright.controllers._queue import QueueClosed, WorkQueue
from kubewright.controllers._rbac import Undeclared
from kubewright.controllers._reconcile import Request, Result
from kubewright.controllers._tracing import Tracing
from kubewright.controllers._writers import controller_client
from kubewright.machinery.errors import Conflict, DecodeError, NotFound, TerminalError
from kubewright.models import Object

T = TypeVar("T", bound=Object)

_PATIENCE: Final = 5
"""Conflicts in a row after which they are told of: something else keeps writing the same fields."""
_CONFLICT_WAIT: Final = timedelta(seconds=1)
"""The longest wait after a conflict, however many there were: a cache that was late is soon not any more."""

_TURN: Final = 64
"""Reconciles after which a worker lets others run, should none of them have waited for anything."""


class ControlLoop(Generic[T]):
    """A controller, started on one cache. `start`, then `run`; `close` ends it gracefully."""

    def __init__(
        self,
        controller: Controller[T],
        client: Client,
        cache: Cache,
        *,
        events: EventRecorder | None = None,
        observer: ControllerObserver | None = None,
        delete_fuse: DeleteFuse | None = None,
        tracing: Tracing | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`client` writes; reads come from `cache`."""
        self.controller = controller
        self._tracing = tracing
        self._events = events or NoEvents()
        self._observer = observer or ControllerObserver()
        self._clock: Clock = clock or SystemClock()
        self._log = get_logger(f"kubewright.controller.{controller.name}").bind(controller=controller.name)
        self._owns = frozenset(controller.owns)
        self._timeout = controller.timeout.total_seconds() if controller.timeout else None
        self._fuse = Fuse(delete_fuse, controller.name, self._clock) if delete_fuse is not None else None
        loops = HotLoops(self._clock, self._tell_of_loop)
        undeclared = Undeclared(controller.rbac_rules(), self._tell_of_undeclared)
        self._client = controller_client(
            client, cache, undeclared=undeclared, loops=loops, fuse=self._fuse, tracing=tracing
        )
        self._paused: set[Request] = set()
        self._conflicts: dict[Request, int] = {}
        """In a row. They are no failures, which come again ever later."""
        self._failed: dict[Request, str] = {}
        """The last error of those that fail. One that comes again is told of without its traceback."""
        self._stopped: set[Request] = set()
        """Requests whose deletes the fuse has stopped."""
        self.queue = WorkQueue(
            backoff=controller.backoff, rate_limit=controller.rate_limit, clock=self._clock, observer=self._observer
        )
        self._listener = Listener(
            controller, cache, self.queue, self._is_awaited, observer=self._observer, tracing=tracing, logger=self._log
        )

    def start(self) -> None:
        """Begin to listen. Requests gather in the queue, each once, until `run` works on them."""
        self._listener.start()

    async def run(self) -> None:
        """Work until `close`. Cancelled, it gives up the reconciles that run."""
        self._listener.subscribe(self._clock)
        async with asyncio.TaskGroup() as group:
            for number in range(self.controller.workers):
                group.create_task(self._work(), name=f"{self.controller.name}-{number}")

    def close(self) -> None:
        """Listen and hand out no more; `run` returns when the reconciles that run are done."""
        self._listener.close()
        self.queue.close()

    def _is_awaited(self, request: Request) -> bool:
        """Whether any change of the object may be what lets it be reconciled again."""
        return request in self._paused or request in self._stopped

    async def _work(self) -> None:
        step = self._attempt if self._tracing is None else self._traced
        done = 0
        while True:
            try:
                async with self.queue.take() as request:
                    attempt = Attempt(request, self.queue.failures(request) + 1, self._listener.take_causes(request))
                    CURRENT.set(attempt)
                    await step(attempt)
            except QueueClosed:
                return
            except _TryAgain:
                pass
            done += 1
            if done % _TURN == 0:
                await asyncio.sleep(0)

    async def _traced(self, attempt: Attempt) -> None:
        assert self._tracing is not None
        with self._tracing.attempt(attempt):
            await self._attempt(attempt)

    async def _attempt(self, attempt: Attempt) -> None:
        """One reconcile, told of and judged. Raises _TryAgain for one to be repeated after the backoff."""
        started = self._clock.monotonic()
        outcome = Outcome.SUCCESS
        error: BaseException | None = None
        try:
            limit = self._timeout
            result = await (self._reconcile(attempt) if limit is None else self._bounded(attempt, limit))
            if result is not None and (wait := _wait_of(result)) is not None:
                self.queue.add(attempt.request, after=wait)
                outcome = Outcome.REQUEUE_AFTER
        except asyncio.CancelledError as cancelled:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            error = cancelled  # not of us: something that the reconciler waited for was cancelled
        except Exception as raised:  # noqa: BLE001 - nothing that a reconciler raises ends the worker
            error = unwrapped(raised)
        again = False
        if not isinstance(error, Conflict):
            self._conflicts.pop(attempt.request, None)
        if error is not None:
            outcome, again = self._judge(error, attempt)
        else:
            self._stopped.discard(attempt.request)
            self._failed.pop(attempt.request, None)
        seconds = self._clock.monotonic() - started
        self._observer.reconciled(outcome, seconds)
        if self._tracing is not None:
            self._tracing.ended(outcome, error)
        if self._log.logger.isEnabledFor(logging.DEBUG):
            self._about(attempt).debug("Reconcile ended", outcome=outcome.value, seconds=seconds)
        if again:
            raise _TryAgain from error

    async def _bounded(self, attempt: Attempt, seconds: float) -> Result | None:
        """The reconcile, cancelled when it takes too long."""
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await self._reconcile(attempt)
        except TimeoutError as error:
            if limit.expired():
                raise ReconcileTimeout(f"the reconcile took longer than {seconds:g} s and was cancelled") from error
            raise

    async def _reconcile(self, attempt: Attempt) -> Result | None:
        mine = self.controller
        obj = await self._fetch(attempt.request)
        if (self._paused or (obj is not None and PAUSED in obj.metadata.annotations)) and self._rests(attempt, obj):
            return None
        deleting = obj is not None and obj.metadata.deletion_timestamp is not None
        if obj is not None and self._fuse is not None:
            attempt.allows_deletes = obj.metadata.annotations.get(ALLOW_DELETES) == "true"
        if obj is not None and mine.finalizer is not None:
            if not deleting:
                obj = await add_finalizer(self._client, obj, mine.finalizer)
            elif mine.finalizer in obj.metadata.finalizers:
                return await self._finalize(mine.finalizer, obj, self._context(attempt, obj))
        if (obj is None or deleting) and not mine.deleted:
            return None
        return await mine.reconcile(self._context(attempt, obj))

    def _rests(self, attempt: Attempt, obj: T | None) -> bool:
        """Whether the object is paused; the change to that and back is told of."""
        request, paused = attempt.request, obj is not None and is_paused(obj)
        if paused != (request in self._paused):
            change = self._paused.add if paused else self._paused.discard
            change(request)
            self._observer.paused(len(self._paused))
            self._log.info("Paused" if paused else "Resumed", namespace=request.namespace, name=request.name)
        return paused

    async def _fetch(self, request: Request) -> T | None:
        try:
            return await self._client.get(self.controller.kind, request.name, namespace=request.namespace)
        except NotFound:
            return None
        except DecodeError as error:
            raise TerminalError(f"{error}; it is reconciled when it has been mended") from error

    async def _finalize(self, finalizer: str, obj: T, context: Context[T]) -> Result | None:
        finalize = self.controller.finalize
        result = await finalize(context) if finalize is not None else None
        if result is None or _wait_of(result) is None:
            await remove_finalizer(self._client, obj, finalizer)
        return result

    def _context(self, attempt: Attempt, obj: T | None) -> Context[T]:
        return Context(
            self.controller.kind,
            attempt.request,
            obj,
            attempt=attempt.number,
            is_last_attempt=self.controller.backoff.is_last(attempt.number),
            owns=self._owns,
            client=self._client,
            events=self._events,
            logger=self._log,
        )

    def _judge(self, error: BaseException, attempt: Attempt) -> tuple[Outcome, bool]:
        """How a reconcile that raised `error` ended, and whether it is to be repeated. Logged and counted here."""
        failure = classify(error, self.controller.kind, attempt.request)
        if failure is Failure.GONE:
            return Outcome.SUCCESS, False
        log = self._about(attempt)
        if failure is Failure.CONFLICT:
            count = self._conflicts[attempt.request] = self._conflicts.get(attempt.request, 0) + 1
            level = logging.WARNING if count > _PATIENCE else logging.DEBUG
            log.log(level, "Object changed meanwhile", error=str(error), conflicts=count)
            wait = min(self.controller.backoff.delay(count), _CONFLICT_WAIT)
            self.queue.add(attempt.request, after=wait * random.uniform(0.5, 1))  # or rivals would meet again
            return Outcome.REQUEUE, False
        if failure is Failure.ENDING:
            log.debug("Namespace is being deleted", error=str(error))
            return Outcome.REQUEUE, True
        self._observer.failed(failure)
        if isinstance(error, DeletesStopped):
            log.log(logging.DEBUG if self._stopped else logging.ERROR, "Deletes stopped", error=str(error))
            self._stopped.add(attempt.request)
            self._observer.deletes_stopped()
            return Outcome.ERROR, False
        final = failure is Failure.TERMINAL or self.controller.backoff.is_last(attempt.number)
        said = f"{type(error).__name__}: {error}"
        is_news = self._failed.get(attempt.request) != said
        self._failed[attempt.request] = said
        log.error(
            "Reconcile failed for good" if final else "Reconcile failed",
            error=said,
            exc_info=traceback_of(error, __file__) if is_news and not explains_itself(error) else None,
        )
        return Outcome.ERROR, not final

    def _about(self, attempt: Attempt) -> StructuredLogger:
        """For lines about one reconcile: which object, which attempt, and what asked for it."""
        namespace, name = attempt.request
        return self._log.bind(namespace=namespace, name=name, attempt=attempt.number, causes=attempt.shown_causes)

    def _tell_of_undeclared(self, resource: str) -> None:
        self._log.warning(
            "Written without being declared: name the kind in owns (children), writes or rules, or the role lacks it",
            resource=resource,
        )

    def _tell_of_loop(self, loop: HotLoop, is_news: bool) -> None:
        self._observer.looping()
        if is_news:
            found, made = loop.values
            own = self._client.field_manager
            managers = [f"{each} (this program)" if each == own else each for each in loop.managers]
            self._log.warning(
                loop.shape.value,
                object=loop.object,
                field=loop.field or None,
                found=found or None,
                written=made or None,
                managers=", ".join(managers) or None,
            )


def _wait_of(result: Result) -> timedelta | None:
    """When a reconcile asks to be repeated. Raises TypeError for what is no Result."""
    if result.__class__ is not Result:
        raise TypeError(f"the reconciler returned {result!r}; it returns None or a Result")
    return result.requeue_after


class _TryAgain(Exception):
    """The request comes again after its backoff; what went wrong has been told."""
