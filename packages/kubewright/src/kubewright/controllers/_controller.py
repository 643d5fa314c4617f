"""Declares a controller: which kind it reconciles, what it owns and watches, and the function that does the work.

    @controller(WebServer, owns=[Deployment, Service])
    async def reconcile(ctx: Context[WebServer]) -> Result | None:
        await ctx.apply(deployment_for(ctx.object))

A Controller is a declaration and holds nothing of a run: it is registered nowhere, and one may run in several Managers.
From what it declares follow its watches and its RBAC rules.

Follows controller-runtime's pkg/builder.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar, cast

from kubewright.cache._entry import Entry
from kubewright.cache._store import IndexFunction
from kubewright.controllers._context import Context
from kubewright.controllers._fuse import DeleteFuse
from kubewright.controllers._handlers import MapFunction
from kubewright.controllers._queue import Backoff
from kubewright.controllers._ratelimit import RateLimit
from kubewright.controllers._rbac import READ, WRITE, rule, rules_for
from kubewright.controllers._reconcile import Result
from kubewright.controllers.predicates import Predicate
from kubewright.controllers.sources import Source
from kubewright.machinery.errors import ConfigError
from kubewright.models import Object
from kubewright.models._rbac import PolicyRule

T = TypeVar("T", bound=Object)
U = TypeVar("U", bound=Object)

WORKERS: Final = 16
"""Reconciles at once, unless a controller says otherwise. More of them save next to nothing."""

ReconcileFunction: TypeAlias = Callable[[Context[T]], Awaitable[Result | None]]
"""One pass over one object; see `Reconciler.reconcile`."""


class Reconciler(Protocol[T]):
    """A reconciler with state of its own. With a finalizer it has `finalize(ctx)` as well, of the same shape."""

    async def reconcile(self, ctx: Context[T]) -> Result | None:
        """Bring the world in line with `ctx.object`. Called whenever it may differ; what raises is tried again."""
        ...


@dataclass(frozen=True, slots=True)
class Watch(Generic[U]):
    """A kind whose changes concern objects of the controller's kind that do not own it."""

    kind: type[U]
    map: MapFunction[U, Any] | None = None
    """From an object that changed, and the cached objects of the controller's kind, to requests."""
    predicate: Predicate | None = None
    index: str = ""
    """Instead of `map`: one of the controller's `indexers`, which gives for an object the names of those of `kind` that
    it refers to (in its own namespace; `namespace/name` for another). Whom a change concerns is found without decoding,
    and `predicate` is asked only when there is somebody.
    """
    values: Callable[[Entry[U]], Iterable[str]] | None = None
    """With `index`: the values under which to look, given what is known of a changed object without decoding it (its
    key, its labels). None: its name.
    """

    def __post_init__(self) -> None:
        if (self.map is None) == (not self.index):
            raise ConfigError(
                f"Watch({self.kind.__name__}): give either map=, a function, or index=, the name of one of the "
                "controller's indexers, so that it is known whom a change concerns"
            )
        if self.values is not None and not self.index:
            raise ConfigError(
                f"Watch({self.kind.__name__}): values= says where to look in an index; name that by index=, or let the "
                "function of map= look"
            )


@dataclass(frozen=True, eq=False)
class Controller(Generic[T]):
    """What `controller` made. Its parameters are described there."""

    kind: type[T]
    reconcile: ReconcileFunction[T]
    name: str
    owns: Sequence[type[Object]] = ()
    watches: Sequence[Watch[Any]] = ()
    sources: Sequence[Source] = ()
    reads: Sequence[type[Object]] = ()
    writes: Sequence[type[Object]] = ()
    rules: Sequence[PolicyRule] = ()
    predicate: Predicate | None = None
    indexers: Mapping[str, IndexFunction[T]] = field(default_factory=dict[str, "IndexFunction[T]"])
    workers: int = WORKERS
    timeout: timedelta | None = None
    backoff: Backoff = field(default_factory=Backoff)
    rate_limit: RateLimit | None = None
    delete_fuse: DeleteFuse | None = None
    finalizer: str | None = None
    finalize: ReconcileFunction[T] | None = None
    deleted: bool = False

    def rbac_rules(self) -> list[PolicyRule]:
        """The rules that this controller needs in the namespaces it works in, and no more."""
        return [
            *rules_for(self.kind, has_finalizer=self.finalizer is not None, is_owner=bool(self.owns)),
            *(rule(kind, WRITE) for kind in (*self.owns, *self.writes)),
            *(rule(kind, READ) for kind in (*(watch.kind for watch in self.watches), *self.reads)),
            *self.rules,
        ]

    @property
    def cached(self) -> list[type[Object]]:
        """The kinds that are kept in the cache for this controller."""
        kinds: tuple[type[Object], ...] = (self.kind, *self.owns, *(watch.kind for watch in self.watches), *self.reads)
        return list(dict.fromkeys(kinds))


def controller(
    kind: type[T],
    *,
    name: str | None = None,
    owns: Sequence[type[Object]] = (),
    watches: Sequence[Watch[Any]] = (),
    sources: Sequence[Source] = (),
    reads: Sequence[type[Object]] = (),
    writes: Sequence[type[Object]] = (),
    rules: Sequence[PolicyRule] = (),
    predicate: Predicate | None = None,
    indexers: Mapping[str, IndexFunction[T]] | None = None,
    workers: int = WORKERS,
    timeout: timedelta | None = None,
    backoff: Backoff | None = None,
    rate_limit: RateLimit | None = None,
    delete_fuse: DeleteFuse | None = None,
    finalizer: str | None = None,
    finalize: ReconcileFunction[T] | None = None,
    deleted: bool = False,
) -> Callable[[ReconcileFunction[T] | Reconciler[T]], Controller[T]]:
    """Make a Controller of a reconcile function, or of an object that has one: `controller(WebServer)(Reconciler(db))`.

    `name` is in logs, metrics and events; the kind in lower case unless given. Unique in a Manager.
    `owns`: kinds of children. A change of a child reconciles its controlling owner.
    `watches`: other kinds, with the function that says whom a change concerns.
    `sources`: requests from elsewhere in the program.
    `reads`, `writes`: kinds that are read or written beyond these; `rules`: any other RBAC rule needed, as for another
    subresource than the status of a kind that is not built in.
    `predicate` says which events of `kind` itself count; `indexers` are added to its cache.
    `workers`: how many requests at once, each of another object. They are tasks of one event loop that wait for answers
    most of the time, and share its wake-ups. Give 1 where objects must be looked at one after the other.
    `timeout`: after which a reconcile is cancelled and retried. `backoff`: the waits between retries of a request, and
    how many there are. `rate_limit`: for all retries together.
    `delete_fuse`: how many deletes pass in a time before somebody has to say that they are meant; see
    `kubewright.controllers._fuse`. None: the Manager's.
    `finalizer`, `finalize`: a finalizer put on each object before its first reconcile, and what is done before it is
    taken off again; see `kubewright.controllers._finalizer` for what is guaranteed.
    `deleted`: also call the function for objects that are gone or being deleted; otherwise it never sees them.

    Raises ConfigError for what can't be meant.
    """
    if not isinstance(cast("object", kind), type):
        function = getattr(kind, "__qualname__", kind)
        raise ConfigError(f"@controller is given the kind that {function} is for: @controller(Kind, owns=[...])")
    if workers < 1:
        raise ConfigError(f"controller for {kind.__name__}: workers={workers}; at least one must work")
    for watch in watches:
        if watch.index and watch.index not in (indexers or {}):
            raise ConfigError(
                f'controller for {kind.__name__}: Watch({watch.kind.__name__}, index="{watch.index}") names no index; '
                f'give indexers={{"{watch.index}": ...}}, a function from a {kind.__name__} to the names it refers to'
            )

    def declare(reconciler: ReconcileFunction[T] | Reconciler[T]) -> Controller[T]:
        work, cleanup = _functions(reconciler, finalize)
        if (finalizer is None) != (cleanup is None):
            raise ConfigError(
                f"controller for {kind.__name__}: a finalizer and what is done before it is taken off go together; "
                f'give both finalizer="..." and finalize=, or neither'
            )
        return Controller(
            kind=kind,
            reconcile=work,
            name=name or kind.__api__.kind.lower(),
            owns=tuple(owns),
            watches=tuple(watches),
            sources=tuple(sources),
            reads=tuple(reads),
            writes=tuple(writes),
            rules=tuple(rules),
            predicate=predicate,
            indexers=dict(indexers or {}),
            workers=workers,
            timeout=timeout,
            backoff=backoff or Backoff(),
            rate_limit=rate_limit,
            delete_fuse=delete_fuse,
            finalizer=finalizer,
            finalize=cleanup,
            deleted=deleted,
        )

    return declare


def _functions(
    reconciler: ReconcileFunction[T] | Reconciler[T], finalize: ReconcileFunction[T] | None
) -> tuple[ReconcileFunction[T], ReconcileFunction[T] | None]:
    """The reconcile function and the finalize function of what the decorator was put on."""
    if isinstance(reconciler, type):
        raise ConfigError(f"{reconciler.__name__} is a class; a controller is made of an instance of it")
    work = cast("ReconcileFunction[T]", getattr(reconciler, "reconcile", reconciler))
    cleanup: ReconcileFunction[T] | None = finalize or getattr(reconciler, "finalize", None)
    for function in filter(None, (work, cleanup)):
        name = getattr(function, "__qualname__", str(function))
        if not inspect.iscoroutinefunction(function):
            raise ConfigError(f"{name} is not an async function; write async def")
        try:
            inspect.signature(function).bind(None)
        except TypeError:
            own = name.rpartition(".")[2]
            raise ConfigError(
                f"{name} is called with one argument, the context; write async def {own}(ctx: Context[...])"
            ) from None
    return work, cleanup
