"""The control loop of one controller: workers take requests from the queue and call the reconciler.

Guarantees
    After `start`, every existing object and every event that passes the predicates leads to a reconcile.
    No object is in two reconciles at the same time.
    No exception from a reconciler ends the loop.
`kubewright.controllers._reconcile` describes the meaning of exceptions and the loop's reactions.

Pausing: an object whose annotation `kubewright.dev/paused` is `"true"` is not reconciled, and its finalizer is not run.

    kubectl annotate webserver/web kubewright.dev/paused=true
    kubectl annotate webserver/web kubewright.dev/paused-

When the annotation is removed or has another value, the object is reconciled, whatever the controller's predicate says.
A running reconcile is not interrupted. The log and the metric `kubewright_paused_objects` show paused objects.

Follows controller-runtime's pkg/internal/controller.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Generic, TypeAlias, TypeVar

from kubewright._runtime.clock import Clock, SystemClock, time_source
from kubewright._runtime.log import StructuredLogger, get_logger
from kubewright.cache._cache import Cache
from kubewright.cache._entry import Event
from kubewright.cache._informer import Informer
from kubewright.client._client import Client
from kubewright.controllers._context import Context, DeletedContext, Shared
from kubewright.controllers._controller import Controller, EventHandler, enqueue_object, enqueue_owner
from kubewright.controllers._finalizer import Finalizer, add_finalizer, remove_finalizer
from kubewright.controllers._fuse import ALLOW_DELETES, DeleteFuse, DeletesStopped, Fuse
from kubewright.controllers._hotloop import HotLoop, HotLoops
from kubewright.controllers._onepass import OwnEvents
from kubewright.controllers._queue import ControllerQueue, QueueClosed, RequestState
from kubewright.controllers._rbac import Undeclared
from kubewright.controllers._reconcile import (
    ALREADY_OWNED,
    CURRENT,
    RECONCILE_FAILED,
    RECONCILE_SUCCEEDED,
    Attempt,
    ControllerObserver,
    EventRecorder,
    Failure,
    NoEvents,
    Outcome,
    ReconcileTimeout,
    Request,
    Result,
    advice_about,
    classify,
    error_text,
    explains_itself,
    place_of,
    traceback_of,
    unwrapped,
)
from kubewright.controllers._tracing import Tracing
from kubewright.controllers._writers import controller_client
from kubewright.controllers.sources import Subscriber
from kubewright.machinery.errors import AlreadyOwnedError, DecodeError, NotFound, TerminalError
from kubewright.machinery.time import seconds
from kubewright.models import Object

T = TypeVar("T", bound=Object)

PAUSED: Final = "kubewright.dev/paused"
"""The annotation of an object that is not reconciled while its value is `"true"`."""

_CONFLICT_WARNING: Final = 5
"""Conflicts in a row after which each further one is a warning: another writer keeps changing the same fields."""
_LONGEST_CONFLICT_DELAY: Final = 1.0
"""Seconds, whatever the number of conflicts: a lagging cache usually catches up quickly."""

_REPEATED_AFTER: Final = 1.0
"""Seconds before the same error of the same object is logged as an error again. The first retries take milliseconds."""
_WARN_FROM: Final = 1.0
"""Seconds until the next retry from which on a failure is a warning Event: by then the object visibly waits."""

_Step: TypeAlias = Callable[[Attempt, RequestState], Awaitable[bool]]
"""Runs one reconcile. Returns whether it is retried after the backoff."""

_YIELD_AFTER: Final = 64
"""Reconciles after which a worker lets other tasks run, if no reconcile has waited for anything."""


class ControlLoop(Generic[T]):
    """A controller that runs on one cache. Call `start`, then `run`; `close` ends it gracefully."""

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
        """Create a loop that writes through `client` and reads from `cache`."""
        self.controller = controller
        self._in_task: dict[asyncio.Task[Any] | None, Attempt] = {}
        """The last attempt of each worker's task."""
        self._tracing = tracing
        self._events = controller.recorder or events or NoEvents()
        self._observer = observer or ControllerObserver()
        self._clock: Clock = clock or SystemClock()
        self._now = time_source(self._clock)
        self._log = get_logger(f"kubewright.controller.{controller.name}").bind(controller=controller.name)
        self._backoff = controller.retry.backoff
        self._timeout = seconds(controller.timeout) if controller.timeout is not None else None
        self._fuse = Fuse(delete_fuse, controller.name, self._clock) if delete_fuse is not None else None
        self._fuse_reported = False
        self._paused = 0
        """Paused objects."""
        loops = HotLoops(self._clock, self._report_loop)
        undeclared = Undeclared(controller.rbac_rules(), self._report_undeclared)
        self.own_events = OwnEvents() if controller.one_pass else None
        self._client = controller_client(
            client,
            cache,
            undeclared=undeclared,
            loops=loops,
            own_events=self.own_events,
            fuse=self._fuse,
            tracing=tracing,
        )
        self.shared = Shared(
            controller.kind,
            owns=frozenset(controller.owns),
            client=self._client,
            events=self._events,
            logger=self._log,
        )
        self.queue = ControllerQueue(
            controller.retry,
            debounce=controller.debounce,
            key_rate_limit=controller.key_rate_limit,
            clock=self._clock,
            observer=self._observer,
        )
        self._listener = Listener(
            controller,
            cache,
            self.queue,
            own_events=self.own_events,
            observer=self._observer,
            tracing=tracing,
            logger=self._log,
        )

    def start(self) -> None:
        """Start listening. Requests are queued, each once, until `run` takes them."""
        self._listener.start()

    async def run(self) -> None:
        """Reconcile until `close` is called. If cancelled, cancel the running reconciles."""
        self._listener.subscribe(self._clock)
        async with asyncio.TaskGroup() as group:
            for number in range(self.controller.workers):
                group.create_task(self._work(), name=f"{self.controller.name}-{number}")

    def close(self) -> None:
        """Stop listening and handing out requests. `run` returns when the running reconciles have ended."""
        self._listener.close()
        self.queue.close()

    def attempt_in(self, task: asyncio.Task[Any]) -> Attempt | None:
        """Return the attempt that a task of this loop works on. Other threads may call this."""
        return self._in_task.get(task)

    async def _work(self) -> None:
        step, own = self._attempt, self.own_events
        if self._tracing is not None:
            step = partial(self._traced, step)
        task, done = asyncio.current_task(), 0
        while True:
            try:
                state = await self.queue.next()
            except QueueClosed:
                return
            attempt = Attempt(state.request, state.failures + 1, state.take_causes())
            attempt.observer = self._observer
            CURRENT.set(attempt)
            self._in_task[task] = attempt
            failed = True
            if own is not None:
                own.begin(attempt)
            try:
                failed = await step(attempt, state)
            finally:
                if own is not None:
                    own.end(attempt)
                self.queue.give_back(state, failed=failed)
            done += 1
            if done % _YIELD_AFTER == 0:
                await asyncio.sleep(0)

    async def _traced(self, step: _Step, attempt: Attempt, state: RequestState) -> bool:
        assert self._tracing is not None
        with self._tracing.attempt(attempt):
            return await step(attempt, state)

    async def _attempt(self, attempt: Attempt, state: RequestState) -> bool:
        """Run one reconcile, and log and count how it ended. Returns whether it is retried after the backoff."""
        started = self._now()
        outcome, retry = Outcome.SUCCESS, False
        error: BaseException | None = None
        try:
            limit = self._timeout
            result = await (self._reconcile(attempt, state) if limit is None else self._bounded(attempt, state, limit))
            if result is not None and (delay := _delay_of(result)) is not None:
                self.queue.add(attempt.request, after=delay)
                outcome = Outcome.REQUEUE_AFTER
        except asyncio.CancelledError as cancelled:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            error = cancelled  # this task was not cancelled, but something that the reconciler waited for
        except Exception as raised:  # noqa: BLE001 - no exception from a reconciler ends the worker
            error = unwrapped(raised)
        if error is None:
            attempt.succeeded = True
            if state.warned:
                self._recovered(attempt, state)
            state.succeeded()
        else:
            outcome, retry = self._handle(error, attempt, state)
        duration = self._now() - started
        self._observer.reconciled(outcome, duration)
        if self._tracing is not None:
            self._tracing.ended(outcome, error)
        if self._log.logger.isEnabledFor(logging.DEBUG):
            self._log_of(attempt).debug("Reconcile ended", outcome=outcome.value, seconds=duration)
        return retry

    async def _bounded(self, attempt: Attempt, state: RequestState, limit: float) -> Result | None:
        """Reconcile, and cancel the reconcile after `limit` seconds."""
        timeout = asyncio.timeout(limit)
        try:
            async with timeout:
                return await self._reconcile(attempt, state)
        except TimeoutError as error:
            if timeout.expired():
                raise ReconcileTimeout(f"the reconcile took longer than {limit:g} s and was cancelled") from error
            raise

    async def _reconcile(self, attempt: Attempt, state: RequestState) -> Result | None:
        mine, request = self.controller, attempt.request
        obj: T | None
        try:
            obj = await self._client.get(mine.kind, request.name, namespace=request.namespace)
        except NotFound:
            obj = None
        except DecodeError as error:
            raise TerminalError(f"{error}; it will be reconciled once it is fixed") from error
        if (state.paused or (obj is not None and PAUSED in obj.metadata.annotations)) and self._is_paused(state, obj):
            return None
        if obj is None:
            attempt.is_gone = True
            if mine.reconcile_deleted is None:
                return None
            return await mine.reconcile_deleted(
                DeletedContext(self.shared, request, attempt.number, self._is_last(attempt))
            )
        attempt.object = obj
        if self._fuse is not None:
            attempt.allows_deletes = obj.metadata.annotations.get(ALLOW_DELETES) == "true"
        if obj.metadata.deletion_timestamp is None:
            if mine.finalizer is not None:
                obj = await add_finalizer(self._client, obj, mine.finalizer.name)
        elif mine.finalizer is not None and mine.finalizer.name in obj.metadata.finalizers:
            attempt.finalizing = True
            context = Context(self.shared, request, attempt.number, self._is_last(attempt), obj)
            return await self._finalize(mine.finalizer, obj, context)
        elif mine.reconcile_deleted is None:
            return None
        return await mine.reconcile(Context(self.shared, request, attempt.number, self._is_last(attempt), obj))

    def _is_last(self, attempt: Attempt) -> bool:
        return self._backoff.is_last(attempt.number)

    def _is_paused(self, state: RequestState, obj: T | None) -> bool:
        """Return whether the object is paused. Logs and counts if this changed."""
        paused = obj is not None and obj.metadata.annotations.get(PAUSED) == "true"
        if paused != state.paused:
            state.paused = paused
            self._paused += 1 if paused else -1
            self._observer.paused(self._paused)
            log = self._log.bind(namespace=state.request.namespace, name=state.request.name)
            log.info("Object paused" if paused else "Object resumed")
        return paused

    async def _finalize(self, finalizer: Finalizer[T], obj: T, context: Context[T]) -> Result | None:
        result = await finalizer.function(context)
        if result is None or _delay_of(result) is None:
            await remove_finalizer(self._client, obj, finalizer.name)
        return result

    # ---- handling of exceptions

    def _handle(self, error: BaseException, attempt: Attempt, state: RequestState) -> tuple[Outcome, bool]:
        """Log and count `error`. Returns how the reconcile ended, and whether it is retried after the backoff."""
        failure = classify(error, self.controller.kind, attempt.request)
        if failure is Failure.CONFLICT:
            return self._conflict(error, attempt, state)
        state.conflicts = 0
        if failure is Failure.GONE:
            state.succeeded()
            return Outcome.SUCCESS, False
        if failure is Failure.NAMESPACE_ENDING and not attempt.finalizing:
            return self._namespace_ending(error, attempt, state)
        self._observer.failed(failure)
        if isinstance(error, DeletesStopped):
            return self._deletes_stopped(error, attempt, state)
        final = failure is Failure.TERMINAL or self._backoff.is_last(attempt.number)
        if failure is Failure.NAMESPACE_ENDING:
            self._finalizer_blocked(error, attempt)
        else:
            self._failed(error, attempt, state, final)
        if final and attempt.is_gone:
            state.succeeded()  # no event could trigger a retry
        return Outcome.ERROR, not final

    def _conflict(self, error: BaseException, attempt: Attempt, state: RequestState) -> tuple[Outcome, bool]:
        state.conflicts += 1
        level = logging.WARNING if state.conflicts > _CONFLICT_WARNING else logging.DEBUG
        self._log_of(attempt).log(level, "Conflict found", error=str(error), conflicts=state.conflicts)
        delay = min(self._backoff.delay(state.conflicts), _LONGEST_CONFLICT_DELAY)
        self.queue.add(attempt.request, after=delay * random.uniform(0.5, 1))  # jitter: competing writers drift apart
        return Outcome.REQUEUE, False

    def _namespace_ending(self, error: BaseException, attempt: Attempt, state: RequestState) -> tuple[Outcome, bool]:
        self._log_of(attempt).debug("Namespace deletion found", error=str(error))
        if self.controller.namespace_ending == "stop":
            state.succeeded()
            return Outcome.SUCCESS, False
        return Outcome.REQUEUE, True

    def _deletes_stopped(self, error: DeletesStopped, attempt: Attempt, state: RequestState) -> tuple[Outcome, bool]:
        level = logging.DEBUG if self._fuse_reported else logging.ERROR
        self._log_of(attempt).log(level, "Deletes stopped", error=str(error))
        self._fuse_reported = state.deletes_stopped = True
        self._warn(error, attempt, state)
        self._observer.deletes_stopped()
        return Outcome.ERROR, False

    def _finalizer_blocked(self, error: BaseException, attempt: Attempt) -> None:
        finalizer = self.controller.finalizer
        self._log_of(attempt).warning(
            "Finalizer blocked by namespace deletion",
            finalizer=finalizer.name if finalizer is not None else None,
            error=str(error),
            advice="The namespace waits for this object, and the finalizer can create nothing in the namespace. Make "
            "the finalizer's function handle errors with namespace_is_ending, or create what it needs in another "
            "namespace. To delete the object without cleanup, remove the finalizer by hand",
        )

    def _failed(self, error: BaseException, attempt: Attempt, state: RequestState, final: bool) -> None:
        text, advice = error_text(error), advice_about(error)
        is_news, now = state.error != text, self._clock.monotonic()
        is_repeated = not is_news and not final and now - state.error_logged_at < _REPEATED_AFTER
        if not is_repeated:
            state.error, state.error_logged_at = text, now
        log = self._log_of(attempt) if advice is None else self._log_of(attempt).bind(advice=advice)
        log.log(
            logging.DEBUG if is_repeated else logging.ERROR,
            "Reconcile failed permanently" if final else "Reconcile failed",
            error=text,
            at=place_of(error, self.controller.reconcile.__module__),
            exc_info=traceback_of(error, __file__) if is_news and not explains_itself(error) else None,
        )
        if final or isinstance(error, AlreadyOwnedError) or self._backoff.delay(attempt.number) >= _WARN_FROM:
            self._warn(error, attempt, state)

    def _warn(self, error: BaseException, attempt: Attempt, state: RequestState) -> None:
        """Record a warning Event of the object. The recorder merges equal ones, and limits how often it writes them."""
        if attempt.object is None:
            return
        state.warned = True
        if isinstance(error, AlreadyOwnedError):
            self._events.warning(attempt.object, ALREADY_OWNED, str(error))
        else:
            self._events.warning(attempt.object, RECONCILE_FAILED, error_text(error))

    def _recovered(self, attempt: Attempt, state: RequestState) -> None:
        """Record that the object is reconciled again, after a warning. A paused object is not reconciled."""
        if state.paused:
            return
        state.warned = False
        if attempt.object is not None:
            self._events.normal(attempt.object, RECONCILE_SUCCEEDED, "Reconciled, after attempts that failed")

    # ---- logs and reports

    def _log_of(self, attempt: Attempt) -> StructuredLogger:
        """Return a logger that adds the object, the attempt and its causes to each line."""
        namespace, name = attempt.request
        return self._log.bind(namespace=namespace, name=name, attempt=attempt.number, causes=attempt.shown_causes)

    def _report_undeclared(self, kind: type[Object], resource: str, is_written: bool) -> None:
        where = "owns (children), writes" if is_written else f"cached=[{kind.__name__}], owns, watches"
        self._log.warning(
            "Undeclared resource written" if is_written else "Undeclared resource read",
            resource=resource,
            advice=f"Name the kind in {where} or rules. Otherwise the role lacks the permission",
        )

    def _report_loop(self, loop: HotLoop, is_news: bool) -> None:
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


def _delay_of(result: Result) -> float | None:
    """Return the seconds until a reconcile is repeated. Raises TypeError if `result` is not a Result."""
    if result.__class__ is not Result:
        raise TypeError(f"the reconciler returned {result!r}; it must return None or a Result")
    return None if result.requeue_after is None else seconds(result.requeue_after)


class Listener(Generic[T]):
    """Adds a request to the queue for each event that concerns the controller."""

    def __init__(
        self,
        controller: Controller[T],
        cache: Cache,
        queue: ControllerQueue,
        *,
        own_events: OwnEvents | None,
        observer: ControllerObserver,
        tracing: Tracing | None,
        logger: StructuredLogger,
    ) -> None:
        self._controller = controller
        self._cache = cache
        self._queue = queue
        self._own_events = own_events
        self._observer = observer
        self._tracing = tracing
        self._log = logger
        self._endings: list[Callable[[], None]] = []

    def start(self) -> None:
        """Listen to the informers of all kinds that the controller names."""
        controller = self._controller
        informer = self._cache.informer(controller.kind)
        self._listen(informer, enqueue_object if controller.predicate is None else self._of_the_object)
        for kind in controller.owns:
            self._listen(self._cache.informer(kind), enqueue_owner(controller.kind))
        for watch in controller.watches:
            self._listen(self._cache.informer(watch.kind), watch.handler(informer.lister))
        for kind in controller.cached:
            self._cache.informer(kind)

    def subscribe(self, clock: Clock) -> None:
        """Listen to the controller's sources too."""
        subscriber = Subscriber(self._queue.add_event, self._cache.informer(self._controller.kind).lister, clock)
        self._endings += [source.subscribe(subscriber) for source in self._controller.sources]

    def close(self) -> None:
        """Stop listening."""
        for end in self._endings:
            end()
        self._endings.clear()

    def _listen(self, informer: Informer[Any], handler: EventHandler[Any]) -> None:
        kind = informer.kind.__api__.kind
        counts, own = self._observer.causes(kind), self._own_events
        if own is not None:
            own.listen(informer)

        def ask(request: Request, event: Event[Any]) -> None:
            counts[event.type] += 1
            if self._tracing is not None:
                self._tracing.requested(request)
            version = event.new.resource_version if event.new is not None else 0
            self._queue.add_caused(request, (kind, event.type, event.key, version), initial=event.initial)

        def on_event(event: Event[Any]) -> None:
            try:
                written_for = own.writer_of(informer.kind, event) if own is not None else None
                for request in handler(event):
                    if own is None or not (request == written_for or own.waits(request, informer.kind, event, ask)):
                        ask(request, event)
            except Exception:  # noqa: BLE001 - code of the user; other events must not suffer
                self._log.exception("Event not handled", event=event.type, object=str(event.key))

        registration = informer.add_handler(on_add=on_event, on_update=on_event, on_delete=on_event)
        self._endings.append(registration.remove)

    def _of_the_object(self, event: Event[Any]) -> tuple[Request, ...]:
        """Return the changed object if the event passes the predicate, or if the object waits for any change."""
        predicate = self._controller.predicate
        if predicate is None or predicate(event):
            return (event.key,)
        state = self._queue.state(event.key)
        if state is None:
            return ()
        if state.paused or state.deletes_stopped:
            return (event.key,)
        if event.new is None:
            self._queue.forget(event.key)
        return ()
