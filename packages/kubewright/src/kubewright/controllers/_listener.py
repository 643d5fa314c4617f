"""From events to requests: subscribes a controller's queue to its informers and sources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from kubewright._runtime.clock import Clock
from kubewright._runtime.log import StructuredLogger
from kubewright.cache._cache import Cache
from kubewright.cache._entry import Event
from kubewright.cache._informer import Informer
from kubewright.controllers._controller import Controller
from kubewright.controllers._handlers import EventHandler, enqueue_object, enqueue_owner
from kubewright.controllers._outcome import ControllerObserver
from kubewright.controllers._queue import ControllerQueue
from kubewright.controllers._tracing import Tracing
from kubewright.controllers._types import Request
from kubewright.controllers.sources import Subscriber
from kubewright.models import Object

T = TypeVar("T", bound=Object)


class Listener(Generic[T]):
    """Adds a request to the queue for each event that concerns the controller."""

    def __init__(
        self,
        controller: Controller[T],
        cache: Cache,
        queue: ControllerQueue,
        *,
        observer: ControllerObserver,
        tracing: Tracing | None,
        logger: StructuredLogger,
    ) -> None:
        self._controller = controller
        self._cache = cache
        self._queue = queue
        self._observer = observer
        self._tracing = tracing
        self._log = logger
        self._endings: list[Callable[[], None]] = []

    def start(self) -> None:
        """Listen to the informers of all kinds that the controller names."""
        controller = self._controller
        informer = self._cache.informer(controller.kind)
        self._listen(informer, enqueue_object if controller.predicate is None else self._own_events)
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
        counts = self._observer.causes(kind)

        def on_event(event: Event[Any]) -> None:
            try:
                version = event.new.resource_version if event.new is not None else 0
                for request in handler(event):
                    counts[event.type] += 1
                    if self._tracing is not None:
                        self._tracing.requested(request)
                    cause = (kind, event.type, event.key, version)
                    self._queue.add_caused(request, cause, initial=event.initial)
            except Exception:  # noqa: BLE001 - code of the user; other events must not suffer
                self._log.exception("Event not handled", event=event.type, object=str(event.key))

        registration = informer.add_handler(on_add=on_event, on_update=on_event, on_delete=on_event)
        self._endings.append(registration.remove)

    def _own_events(self, event: Event[Any]) -> tuple[Request, ...]:
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
