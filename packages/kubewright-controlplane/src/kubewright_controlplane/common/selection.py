"""Lookups by label selector through indexes: the children that a selector matches, and the selectors of a child.

A child is indexed by each of its labels, a selector by one of the labels that it requires: the longest, which is
usually the rarest. The result of an index is a superset, which the whole selector then filters. A selector that
requires no label is compared with every object of its namespace. `SCOPES` has the indexes of the selected kinds.
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
from kubewright.cache._store import Lister
from kubewright.controllers import Context, DeletedContext
from kubewright.machinery.selectors import Selector
from kubewright.models import Object

T = TypeVar("T", bound=Object)
U = TypeVar("U", bound=Object)

SERVICE_LABEL: Final = "kubernetes.io/service-name"
"""The label of an EndpointSlice with the name of its Service."""
LABEL: Final = "label"
"""The index of children, by each of their labels."""

SELECTOR: Final = "selector"
"""The index of objects with a selector, by one label that it requires."""


class _Selecting(Protocol):
    @property
    def selector(self) -> LabelSelector | None: ...


def by_label(obj: Object) -> Iterable[str]:
    """Index function of kinds that are selected."""
    namespace = obj.metadata.namespace
    return [f"{namespace}/{key}={value}" for key, value in obj.metadata.labels.items()]


def by_required_label(namespace: str, labels: Mapping[str, str]) -> str:
    """Return the index value of a selector that requires `labels`."""
    if not labels:
        return f"{namespace}/"
    key, value = max(labels.items(), key=lambda pair: (len(pair[0]) + len(pair[1]), pair))
    return f"{namespace}/{key}={value}"


def by_selector(obj: Any) -> Iterable[str]:
    """Index function of kinds whose `spec.selector` is a label selector."""
    spec: _Selecting = obj.spec
    return [by_required_label(obj.metadata.namespace, spec.selector.match_labels if spec.selector else {})]


def selecting(child: Object, lister: Lister[T]) -> Iterable[T]:
    """Yield the objects in an index `SELECTOR` whose selector may match `child`."""
    for value in (*by_label(child), f"{child.metadata.namespace}/"):
        yield from lister.by_index(SELECTOR, value)


async def matching(ctx: Context[Any] | DeletedContext[Any], kind: type[U], selector: LabelSelector) -> list[U]:
    """Return the objects of `kind` that `selector` matches in the request's namespace. The kind is in `SCOPES`."""
    namespace = ctx.request.namespace or ""
    index = (LABEL, by_required_label(namespace, selector.match_labels)) if selector.match_labels else None
    found = await ctx.client.list(kind, namespace=namespace, labels=compiled(selector), index=index)
    return found.items


def lister_of(ctx: Context[Any], kind: type[U]) -> Lister[U]:
    """Return the lister of a kind that the controllers cache."""
    return ctx.client.cache.informer(kind).lister


def compiled(selector: LabelSelector) -> Selector:
    """Return the selector of a spec in a form that matches labels."""
    return Selector.from_dict(msgspec.to_builtins(selector))


SCOPES: Final[Mapping[type[Object], Scope]] = {
    kind: Scope(indexers={LABEL: by_label}) for kind in (ControllerRevision, EndpointSlice, Pod, ReplicaSet)
}
