"""Finding by labels without looking at everything: the children of a selector, and the selectors that a child meets.

An object is found under each of its labels, a selector under one pair that it demands: the longest, which tends to be
the rarest. What is found so is a superset, cut down by the whole selector; a selector without such a pair is compared
with everything in its namespace. `SCOPES` has the indexes of the kinds that are selected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar

import msgspec

from kubewright.apis.apps.v1 import ControllerRevision, ReplicaSet
from kubewright.apis.core.v1 import Pod
from kubewright.apis.discovery.v1 import EndpointSlice
from kubewright.apis.meta.v1 import LabelSelector
from kubewright.cache._cache import Scope
from kubewright.cache._lister import Lister
from kubewright.controllers import Context, DeletedContext
from kubewright.machinery.selectors import Selector
from kubewright.models import Object

T = TypeVar("T", bound=Object)
U = TypeVar("U", bound=Object)

LABEL: Final = "label"
"""The index of children: each label that they have."""

SELECTOR: Final = "selector"
"""The index of those that select: one label that they demand."""


class _Selecting(Protocol):
    @property
    def selector(self) -> LabelSelector | None: ...


def by_label(obj: Object) -> Iterable[str]:
    """Index function for kinds that are selected."""
    namespace = obj.metadata.namespace
    return [f"{namespace}/{key}={value}" for key, value in obj.metadata.labels.items()]


def by_demand(namespace: str, labels: Mapping[str, str]) -> str:
    """The value under which a selector that demands `labels` is found."""
    if not labels:
        return f"{namespace}/"
    key, value = max(labels.items(), key=lambda pair: (len(pair[0]) + len(pair[1]), pair))
    return f"{namespace}/{key}={value}"


def by_selector(obj: Any) -> Iterable[str]:
    """Index function for kinds whose `spec.selector` is a label selector."""
    spec: _Selecting = obj.spec
    return [by_demand(obj.metadata.namespace, spec.selector.match_labels if spec.selector else {})]


def selecting(child: Object, lister: Lister[T]) -> Iterable[T]:
    """The objects in an index `SELECTOR` whose selector may match `child`."""
    for value in (*by_label(child), f"{child.metadata.namespace}/"):
        yield from lister.by_index(SELECTOR, value)


async def matching(ctx: Context[Any] | DeletedContext[Any], kind: type[U], selector: LabelSelector) -> list[U]:
    """The objects of `kind`, which is in `SCOPES`, that `selector` matches in the namespace of the request."""
    namespace = ctx.request.namespace or ""
    index = (LABEL, by_demand(namespace, selector.match_labels)) if selector.match_labels else None
    found = await ctx.client.list(kind, namespace=namespace, labels=compiled(selector), index=index)
    return found.items


def compiled(selector: LabelSelector) -> Selector:
    """The selector of a spec, ready to match."""
    return Selector.from_dict(msgspec.to_builtins(selector))


SCOPES: Final[Mapping[type[Object], Scope]] = {
    kind: Scope(indexers={LABEL: by_label}) for kind in (ControllerRevision, EndpointSlice, Pod, ReplicaSet)
}
