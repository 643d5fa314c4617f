"""From events to requests: what a controller listens to, and why it is asked for each reconcile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from kubewright._runtime.clock import Clock
from kubewright._runtime.log import StructuredLogger
from kubewright.cache._cache import Cache
from kubewright.cache._entry import Event
from kubewright.cache._informer import Informer
from kubewright.controllers._attempt import MAX_CAUSES, Cause
from kubewright.controllers._controller import Controller
from kubewright.controllers._handlers import (
    EventHandler,
    enqueue_if,
    enqueue_indexed,
    enqueue_indexed_by,
    enqueue_mapped,
    enqueue_object,
    enqueue_owner,
)
from kubewright.controllers._observer import ControllerObserver
from kubewright.controllers._queue import LOW_PRIORITY, WorkQueue
from kubewright.controllers._reconcile import Request
from kubewright.controllers._tracing import Tracing
from kubewright.controllers.predicates import Predicate
from kubewright.controllers.sources import Subscriber
from kubewright.models import Object

T = TypeVar("T", bound=Object)


class Listener(Generic[T]):
    """Puts a request into the queue for each event that concerns the controller."""

    def __init__(
        self,
        controller: Controller[T],
        cache: Cache,
        queue: WorkQueue,
        is_awaited: Callable[[Request], bool],
        *,
        observer: ControllerObserver,
        tracing: Tracing | None,
        logger: StructuredLogger,
    ) -> None:
        """Any event of an object of the controller's kind counts for which `is_awaited`, past its predicate."""
        self._controller = controller
        self._cache = cache
        self._queue = queue
        self._is_awaited = is_awaited
        self._observer = observer
        self._tracing = tracing
        self._log = logger
        self._causes: dict[Request, list[Cause]] = {}
        self._endings: list[Callable[[], None]] = []

    def start(self) -> None:
        """Listen to the informers of all kinds that the controller names."""
        mine = self._controller
        own = self._cache.informer(mine.kind)
        self._listen(own, enqueue_object, None if mine.predicate is None else Predicate(self._concerns))
        for kind in mine.owns:
            informer = self._cache.informer(kind)
            self._listen(informer, enqueue_owner(mine.kind), None)
        for watch in mine.watches:
            informer = self._cache.informer(watch.kind)
            if watch.map is not None:
                self._listen(informer, enqueue_mapped(watch.map, own.lister), watch.predicate)
                continue
            if watch.values is not None:
                handler = enqueue_indexed_by(watch.values, watch.index, own.lister)
            else:
                handler = enqueue_indexed(watch.index, own.lister)
            self._listen(informer, enqueue_if(watch.predicate, handler) if watch.predicate else handler, None)
        for kind in mine.reads:
            self._cache.informer(kind)

    def subscribe(self, clock: Clock) -> None:
        """Listen to the controller's sources too."""
        subscriber = Subscriber(self._queue.add, self._cache.informer(self._controller.kind).lister, clock)
        self._endings += [source.subscribe(subscriber) for source in self._controller.sources]

    def close(self) -> None:
        """Listen no more."""
        for end in self._endings:
            end()
        self._endings.clear()

    def take_causes(self, request: Request) -> Sequence[Cause]:
        """Why `request` was asked for since it was last taken; no reconciler sees it, since state alone is to count."""
        return self._causes.pop(request, ())

    def _listen(self, informer: Informer[Any], handler: EventHandler[Any], predicate: Predicate | None) -> None:
        kind = informer.kind.__api__.kind
        counts = self._observer.causes(kind)

        def hear(event: Event[Any]) -> None:
            try:
                if predicate is None or predicate(event):
                    priority = LOW_PRIORITY if event.initial else 0
                    version = event.new.resource_version if event.new is not None else 0
                    for request in handler(event):
                        counts[event.type] += 1
                        self._note(request, (kind, event.type, event.key, version))
                        self._queue.add(request, priority=priority)
            except Exception:  # noqa: BLE001 - the user's code; other events must not suffer
                self._log.exception("Event not handled", event=event.type, object=str(event.key))

        registration = informer.add_handler(on_add=hear, on_update=hear, on_delete=hear)
        self._endings.append(registration.remove)

    def _concerns(self, event: Event[Any]) -> bool:
        """Whether an event of the controller's own kind counts: by its predicate, or since the object is waited for."""
        predicate = self._controller.predicate
        return predicate is None or predicate(event) or self._is_awaited(event.key)

    def _note(self, request: Request, cause: Cause) -> None:
        causes = self._causes.get(request)
        if causes is None:
            self._causes[request] = [cause]
            if self._tracing is not None:
                self._tracing.asked(request)
        elif len(causes) < MAX_CAUSES:
            causes.append(cause)
