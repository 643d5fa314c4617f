"""Declares a controller: the kind that it reconciles, what it owns and watches, and the function that does the work.

    @controller(WebServer, owns=[Deployment, Service])
    async def reconcile(ctx: Context[WebServer]) -> Result | None:
        await ctx.apply(deployment_for(ctx.object))

A Controller is a declaration without any state of a run. It is registered nowhere, and several Managers may run it. Its
watches and its RBAC rules follow from the declaration.

Event handlers are functions from an event to requests. They run on the event loop for every event and must not wait.

Follows controller-runtime's pkg/builder and pkg/handler.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar, cast, get_origin

import msgspec

from kubewright.cache._entry import Entry, Event, key_of
from kubewright.cache._store import IndexFunction, Lister
from kubewright.controllers._context import Context, DeletedContext
from kubewright.controllers._finalizer import Finalizer
from kubewright.controllers._fuse import DeleteFuse
from kubewright.controllers._rbac import READ, WRITE, rule, rules_for
from kubewright.controllers._reconcile import EventRecorder, Request, Result
from kubewright.controllers._retry import RateLimit, Retry
from kubewright.controllers.predicates import Predicate
from kubewright.controllers.sources import Source
from kubewright.machinery._suggestions import shown
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.time import Seconds, seconds
from kubewright.models import Object
from kubewright.models._rbac import PolicyRule

T = TypeVar("T", bound=Object)
U = TypeVar("U", bound=Object)
V = TypeVar("V", bound=Object)

WORKERS: Final = 16
"""The default number of concurrent reconciles. More save next to nothing."""

ReconcileFunction: TypeAlias = Callable[[Context[T]], Awaitable[Result | None]]
"""Reconciles one object; see `Reconciler.reconcile`."""

ReconcileDeletedFunction: TypeAlias = Callable[[Context[T] | DeletedContext[T]], Awaitable[Result | None]]
"""Reconciles one object, or cleans up after an object that no longer exists."""


class Reconciler(Protocol[T]):
    """An object that reconciles, for reconcilers with state."""

    async def reconcile(self, ctx: Context[T]) -> Result | None:
        """Make the cluster match `ctx.object`. Called whenever something may have changed; retried if it raises."""
        ...


NamespaceEnding: TypeAlias = Literal["retry", "stop"]
"""The reaction to a reconcile that cannot create objects because the namespace is being deleted."""


class Watch(msgspec.Struct, Generic[U], frozen=True):
    """A kind whose changes concern objects that do not own it. Made by `Watch.mapped` or `Watch.indexed`."""

    kind: type[U]
    handler: Callable[[Lister[Any]], EventHandler[U]]
    """Returns the function from events to requests, given a lister of the controller's own objects."""
    index: str = ""
    """The index that the handler needs; empty for none."""

    @staticmethod
    def mapped(kind: type[V], function: MapFunction[V, Any], *, predicate: Predicate | None = None) -> Watch[V]:
        """Watch `kind`, and reconcile the objects that `function` returns for a changed object.

        `function` receives the changed object and a lister of the controller's own objects. It is called for the old
        and for the new state, on the event loop, for each event that passes `predicate`.
        """
        return Watch(kind, lambda lister: only_if(predicate, enqueue_mapped(function, lister)))

    @staticmethod
    def indexed(
        kind: type[V], index: str, *, values: IndexValues[V] | None = None, predicate: Predicate | None = None
    ) -> Watch[V]:
        """Watch `kind`, and reconcile the objects that `index` has for a changed object. Nothing is decoded for it.

        `index` names one of the controller's `indexers`. Without `values`, it returns the names of the objects of
        `kind` that an object refers to: a name in its own namespace, or `namespace/name`. With `values`, the controller
        looks up what `values` returns for the old and for the new state of the changed object. `predicate` is called
        last, and only if the index finds something.
        """

        def handler(lister: Lister[Any]) -> EventHandler[V]:
            if values is None:
                return if_found(enqueue_indexed(index, lister), predicate)
            return if_found(enqueue_indexed_by(values, index, lister), predicate)

        return Watch(kind, handler, index)


class Controller(msgspec.Struct, Generic[T], frozen=True, eq=False):
    """The result of `controller`, which describes the attributes."""

    kind: type[T]
    reconcile: ReconcileFunction[T]
    name: str
    owns: Sequence[type[Object]] = ()
    watches: Sequence[Watch[Any]] = ()
    sources: Sequence[Source] = ()
    cached: Sequence[type[Object]] = ()
    writes: Sequence[type[Object]] = ()
    rules: Sequence[PolicyRule] = ()
    predicate: Predicate | None = None
    indexers: Mapping[str, IndexFunction[T]] = msgspec.field(default_factory=dict[str, "IndexFunction[T]"])
    workers: int = WORKERS
    timeout: Seconds | None = None
    retry: Retry = msgspec.field(default_factory=Retry)
    debounce: Seconds = 0.0
    key_rate_limit: RateLimit | None = None
    delete_fuse: DeleteFuse | None = None
    finalizer: Finalizer[T] | None = None
    reconcile_deleted: ReconcileDeletedFunction[T] | None = None
    """The reconcile function, if it is also called for objects that are being deleted or no longer exist."""
    one_pass: bool = False
    namespace_ending: NamespaceEnding = "retry"
    recorder: EventRecorder | None = None
    """Records the Events of this controller. None: the Manager records them, under its own name."""

    __hash__ = object.__hash__  # a Struct would hash its fields, and some of them are lists

    def rbac_rules(self) -> list[PolicyRule]:
        """Return the RBAC rules that this controller needs in the namespaces where it works, and no others."""
        return [
            *rules_for(self.kind, has_finalizer=self.finalizer is not None, is_owner=bool(self.owns)),
            *(rule(kind, WRITE) for kind in (*self.owns, *self.writes)),
            *(rule(kind, READ) for kind in (*(watch.kind for watch in self.watches), *self.cached)),
            *self.rules,
        ]

    @property
    def cached_kinds(self) -> list[type[Object]]:
        """All kinds that the cache contains for this controller."""
        kinds: tuple[type[Object], ...] = (self.kind, *self.owns, *(watch.kind for watch in self.watches), *self.cached)
        return list(dict.fromkeys(kinds))


def controller(
    kind: type[T],
    *,
    name: str | None = None,
    owns: Sequence[type[Object]] = (),
    watches: Sequence[Watch[Any]] = (),
    sources: Sequence[Source] = (),
    cached: Sequence[type[Object]] = (),
    writes: Sequence[type[Object]] = (),
    rules: Sequence[PolicyRule] = (),
    predicate: Predicate | None = None,
    indexers: Mapping[str, IndexFunction[T]] | None = None,
    workers: int = WORKERS,
    timeout: Seconds | None = None,
    retry: Retry | None = None,
    debounce: Seconds = 0.0,
    key_rate_limit: RateLimit | None = None,
    delete_fuse: DeleteFuse | None = None,
    finalizer: Finalizer[T] | None = None,
    reconcile_deleted: bool = False,
    one_pass: bool = False,
    namespace_ending: NamespaceEnding = "retry",
) -> Callable[[ReconcileFunction[T] | Reconciler[T]], Controller[T]]:
    """Make a Controller of a reconcile function, or of an object with one: `controller(WebServer)(Reconciler(db))`.

    name: for logs, metrics and Events, unique in a Manager. By default the kind in lower case.
    owns: the kinds of children. A change of a child reconciles its controlling owner.
    watches: other kinds, and which objects their changes concern.
    sources: requests from elsewhere; see `kubewright.controllers.sources`.
    cached, writes: further kinds that are read or written. rules: any other permission, for example for a subresource.
    predicate: which events of `kind` itself lead to a reconcile. indexers: indexes of its cache.
    workers: how many objects are reconciled at the same time. Workers are tasks on one event loop.
    timeout: how long a reconcile may take before it is cancelled and retried.
    retry: the delays between the retries of an object, their number, and a limit for all retries together.
    debounce: wait this long after an event, and start again with each further event of the object. The reconcile starts
    at the latest ten times as long after the first event.
    key_rate_limit: a limit for the reconciles that events cause, per object. Events beyond the limit are merged.
    delete_fuse: how many deletes the controller may send; see `kubewright.controllers._fuse`. Default: the Manager's.
    finalizer: added to each object before its first reconcile; see `kubewright.controllers._finalizer`.
    reconcile_deleted: also call the function for objects that are being deleted, and with a `DeletedContext` for
    objects that no longer exist.
    one_pass: your promise that a successful reconcile leaves nothing to do after its own writes. Events that report
    exactly such writes then lead to no reconcile; see `kubewright.controllers._onepass`.
    namespace_ending: "stop" ends a reconcile without a retry if it can create nothing because the namespace is being
    deleted; "retry" retries it with backoff. A finalizer's function is always retried, with a warning in the log.

    Raises ConfigError for arguments that make no sense.
    """
    if not _is_kind(kind):
        function = getattr(kind, "__qualname__", kind)
        raise ConfigError(f"@controller takes the kind that {function} reconciles: write @controller(Kind, owns=[...])")
    _check_numbers(kind, workers, timeout, debounce)
    _check_kinds(kind, owns=owns, cached=cached, writes=writes)
    _check_watches(kind, watches)
    _check_indexes(kind, watches, indexers or {})
    parts = {"finalizer": (finalizer, Finalizer), "retry": (retry, Retry), "predicate": (predicate, Predicate)}
    _check_parts(
        kind, parts | {"key_rate_limit": (key_rate_limit, RateLimit), "delete_fuse": (delete_fuse, DeleteFuse)}
    )
    if finalizer is not None:
        _check_function(finalizer.function)

    def declare(reconciler: ReconcileFunction[T] | Reconciler[T]) -> Controller[T]:
        work = _function_of(reconciler)
        if reconcile_deleted:
            _check_takes_deleted(work, kind)
        return Controller(
            kind=kind,
            reconcile=work,
            name=name or kind.__api__.kind.lower(),
            owns=tuple(owns),
            watches=tuple(watches),
            sources=tuple(sources),
            cached=tuple(cached),
            writes=tuple(writes),
            rules=tuple(rules),
            predicate=predicate,
            indexers=dict(indexers or {}),
            workers=workers,
            timeout=timeout,
            retry=retry or Retry(),
            debounce=debounce,
            key_rate_limit=key_rate_limit,
            delete_fuse=delete_fuse,
            finalizer=finalizer,
            reconcile_deleted=cast("ReconcileDeletedFunction[T]", work) if reconcile_deleted else None,
            one_pass=one_pass,
            namespace_ending=namespace_ending,
        )

    return declare


def _check_numbers(kind: type[Object], workers: int, timeout: Seconds | None, debounce: Seconds) -> None:
    where = f"controller for {kind.__name__}"
    if not isinstance(cast("object", workers), int) or workers < 1:
        raise ConfigError(f"{where}: workers must be at least 1, got {workers!r}")
    if timeout is not None and seconds(timeout, f"{where}: timeout") <= 0:
        raise ConfigError(f"{where}: timeout must be positive, got {seconds(timeout):g} s")
    if seconds(debounce, f"{where}: debounce") < 0:
        raise ConfigError(f"{where}: debounce must not be negative, got {seconds(debounce):g} s")


def _check_kinds(kind: type[Object], **given: object) -> None:
    """Reject an argument that is not a list of kinds."""
    for what, kinds in given.items():
        for wrong in _not_listed(kinds, _is_kind):
            name = wrong if isinstance(wrong, str) else getattr(wrong, "__name__", type(wrong).__name__)
            raise ConfigError(
                f"controller for {kind.__name__}: {what} takes a list of kinds, got {shown(wrong)}: write "
                f"{what}=[{name}]"
            )


def _check_watches(kind: type[Object], watches: object) -> None:
    """Reject an argument that is not a list of watches."""
    for wrong in _not_listed(watches, lambda each: isinstance(each, Watch)):
        name = getattr(wrong, "__name__", "Kind")
        raise ConfigError(
            f"controller for {kind.__name__}: watches takes a list of watches, got {shown(wrong)}: write "
            f"watches=[Watch.mapped({name}, function)], or cached=[{name}] if its changes need no reconcile"
        )


def _check_parts(kind: type[Object], parts: Mapping[str, tuple[object, type]]) -> None:
    """Reject an argument that is not of its class."""
    for what, (value, wanted) in parts.items():
        if value is not None and not isinstance(value, wanted):
            name = wanted.__name__
            raise ConfigError(
                f"controller for {kind.__name__}: {what} takes a {name}, got {shown(value)}: write {what}={name}(...)"
            )


def _not_listed(given: object, is_right: Callable[[object], bool]) -> list[object]:
    """Return what is wrong with a list: the list itself if it is none, otherwise its wrong items."""
    if isinstance(given, Collection) and not isinstance(given, str):
        return [each for each in cast("Collection[object]", given) if not is_right(each)]
    return [given]


def _is_kind(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Object) and hasattr(value, "__api__")


def _check_indexes(kind: type[Object], watches: Sequence[Watch[Any]], indexers: Mapping[str, object]) -> None:
    for watch in watches:
        if watch.index and watch.index not in indexers:
            raise ConfigError(
                f'controller for {kind.__name__}: Watch.indexed({watch.kind.__name__}, "{watch.index}") names no index '
                f'of this controller; add indexers={{"{watch.index}": ...}}, a function from a {kind.__name__} to the '
                f"names that it refers to"
            )


def _function_of(reconciler: ReconcileFunction[T] | Reconciler[T]) -> ReconcileFunction[T]:
    """Return the reconcile function of the decorated function or object."""
    if isinstance(reconciler, type):
        raise ConfigError(f"{reconciler.__name__} is a class; make a controller from an instance of it")
    function = cast("ReconcileFunction[T]", getattr(reconciler, "reconcile", reconciler))
    _check_function(function)
    return function


def _check_takes_deleted(function: Callable[..., object], kind: type[Object]) -> None:
    """Reject a function whose annotation allows only a `Context`."""
    try:
        annotations = list(inspect.get_annotations(inspect.unwrap(function), eval_str=True).values())
    except Exception:  # noqa: BLE001 - an annotation that cannot be evaluated is not checked
        return
    if annotations and get_origin(annotations[0]) is Context:
        name, of = getattr(function, "__qualname__", str(function)), kind.__name__
        raise ConfigError(
            f"{name} takes a Context only; with reconcile_deleted=True it is also called for objects that no longer "
            f"exist: write ctx: Context[{of}] | DeletedContext[{of}]"
        )


def _signature(function: Callable[..., object]) -> inspect.Signature:
    """Return the signature without evaluating annotations: their names may be imported for type checkers only."""
    if sys.version_info >= (3, 14):
        import annotationlib

        return inspect.signature(function, annotation_format=annotationlib.Format.STRING)
    return inspect.signature(function)


def _check_function(function: Callable[..., object]) -> None:
    name = getattr(function, "__qualname__", str(function))
    if not inspect.iscoroutinefunction(function):
        raise ConfigError(f"{name} is not an async function; write async def")
    try:
        _signature(function).bind(None)
    except TypeError:
        own = name.rpartition(".")[2]
        raise ConfigError(
            f"{name} is called with one argument, the context; write async def {own}(ctx: Context[...])"
        ) from None


EventHandler: TypeAlias = Callable[[Event[T]], Iterable[Request]]
"""From a change of an object to the requests to enqueue."""
MapFunction: TypeAlias = Callable[[U, Lister[T]], Iterable[Request]]
"""Returns the requests to enqueue for a changed object, given a lister of the controller's own objects."""
IndexValues: TypeAlias = Callable[[Entry[U]], Iterable[str]]
"""Returns the index values to look up for a changed object, without decoding it."""


def enqueue_object(event: Event[T]) -> Iterable[Request]:
    """Return the changed object itself."""
    return (event.key,)


def enqueue_owner(owner: type[Object]) -> EventHandler[Any]:
    """Return the controlling owner if its kind is `owner`, and both owners if an update changed the owner.

    The version of the API group is ignored, because an owner reference may name an older one.
    """
    api = owner.__api__
    group, kind, namespaced = api.group, api.kind, api.namespaced

    def handle(event: Event[Any]) -> Iterable[Request]:
        requests: list[Request] = []
        old, new = event.old, event.new
        if old is not None and new is not None and old.owners is new.owners:
            old = None
        for entry in (old, new):
            reference = entry.controller if entry is not None and entry.owners else None
            if reference is None or reference.kind != kind or reference.api_version.rpartition("/")[0] != group:
                continue
            request = key_of(event.key.namespace if namespaced else None, reference.name)
            if request not in requests:
                requests.append(request)
        return requests

    return handle


def enqueue_mapped(function: MapFunction[U, T], lister: Lister[T]) -> EventHandler[U]:
    """Return what `function` returns for the old and for the new state of the object."""

    def handle(event: Event[U]) -> Iterable[Request]:
        entries = (entry for entry in (event.old, event.new) if entry is not None)
        return dict.fromkeys(request for entry in entries for request in function(entry.decode(), lister))

    return handle


def enqueue_indexed(index: str, lister: Lister[Any]) -> EventHandler[Any]:
    """Return the objects that `index` has under the name of the changed object.

    The value is the name for objects in the same namespace, and `namespace/name` for all objects. The name of a
    cluster-scoped object finds objects in all namespaces.
    """

    def handle(event: Event[Any]) -> Iterable[Request]:
        namespace, name = event.key
        found = [key for key in lister.keys_by_index(index, name) if namespace is None or key.namespace == namespace]
        if namespace is not None:
            found += lister.keys_by_index(index, str(event.key))
        return dict.fromkeys(found)

    return handle


def enqueue_indexed_by(values: IndexValues[Any], index: str, lister: Lister[Any]) -> EventHandler[Any]:
    """Return the objects that `index` has under the values of the old and of the new state of the object."""

    def handle(event: Event[Any]) -> Iterable[Request]:
        entries = (entry for entry in (event.old, event.new) if entry is not None)
        wanted = dict.fromkeys(value for entry in entries for value in values(entry))
        return dict.fromkeys(key for value in wanted for key in lister.keys_by_index(index, value))

    return handle


def only_if(predicate: Predicate | None, handler: EventHandler[Any]) -> EventHandler[Any]:
    """Return what `handler` returns, for the events that pass."""
    if predicate is None:
        return handler
    return lambda event: handler(event) if predicate(event) else ()


def if_found(handler: EventHandler[Any], predicate: Predicate | None) -> EventHandler[Any]:
    """Return what `handler` returns, for the events that pass. Events without requests skip the predicate.

    For cheap handlers, because a predicate may decode the object.
    """
    if predicate is None:
        return handler

    def handle(event: Event[Any]) -> Iterable[Request]:
        found = handler(event)
        return found if found and predicate(event) else ()

    return handle
