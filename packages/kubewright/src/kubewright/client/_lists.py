"""Lists of objects, their selectors, and `Reader`, the common interface of clients and caches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from kubewright.apis.meta.v1 import LabelSelector
from kubewright.client._rest import JSON, Query, RESTClient
from kubewright.machinery.errors import ConfigError, DecodeError
from kubewright.machinery.selectors import FieldSelector, Selector
from kubewright.models import Object

T = TypeVar("T")
K = TypeVar("K", bound=Object)

Labels: TypeAlias = LabelSelector | Selector | Mapping[str, str] | str | None
"""Selects by labels: text as kubectl takes it (`"app=web,tier!=cache"`), equalities (`{"app": "web"}`), or a selector,
such as the `spec.selector` of a Deployment. None selects everything.
"""

Fields: TypeAlias = FieldSelector | Mapping[str, str] | str | None
"""Selects by fields: text (`"status.phase!=Failed"`), equalities (`{"metadata.name": "web"}`), or a parsed selector."""


class ObjectList(msgspec.Struct, Generic[T]):
    """A list of objects of one kind at one resource version."""

    items: list[T] = msgspec.field(default_factory=list[T])
    resource_version: str = ""
    """The version of the whole list. A watch that starts here misses no change."""
    continue_token: str = ""
    """The token of the next page, for `Client.list_page`; empty on the last page."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __bool__(self) -> bool:
        return bool(self.items)


class Reader(Protocol):
    """Reads objects by kind: a Client from the server, a Cache from memory. The caller may change what it returns."""

    async def get(self, kind: type[K], name: str, *, namespace: str | None = None) -> K:
        """Return the object of that name. Raises NotFound."""
        ...

    async def get_or_none(self, kind: type[K], name: str, *, namespace: str | None = None) -> K | None:
        """Return the object of that name, or None."""
        ...

    async def list(
        self, kind: type[K], *, namespace: str | None = None, labels: Labels = None, fields: Fields = None
    ) -> ObjectList[K]:
        """Return the matching objects of a kind; without a namespace, those of all namespaces."""
        ...


class _ListMeta(msgspec.Struct, gc=False, rename={"resource_version": "resourceVersion", "continue_token": "continue"}):
    resource_version: str = ""
    continue_token: str | None = None


class RawList(msgspec.Struct, gc=False):
    """A list, or one page of it, whose items are not decoded. The items are views of the answer; copy them to keep
    them.
    """

    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None

    @property
    def resource_version(self) -> str:
        return self.metadata.resource_version

    @property
    def continue_token(self) -> str:
        return self.metadata.continue_token or ""


LIST_LIMIT: Final = 4 << 30
"""Bytes of all pages of one list."""
_EMPTY_PAGES: Final = 100
"""Pages without items in a row that a list may have, because nothing in them was selected."""

_decode_list: Final = msgspec.json.Decoder(RawList).decode
"""Created on import: msgspec cannot analyze the same class in two threads at the same time."""


async def raw_pages(
    rest: RESTClient, path: str, query: Query, *, limit: int, accept: str = JSON
) -> AsyncIterator[RawList]:
    """Yield the pages of one list, in order. With `limit=0`, there is a single page.

    Raises Gone if the server no longer has the snapshot of the first page. Start again without a limit. Raises
    DecodeError for a list that does not end: pages without items in a row, one page twice, or more than `LIST_LIMIT`.
    """
    token, size, empty = "", 0, 0
    while True:
        page = await raw_page(rest, path, query, limit=limit, token=token, accept=accept)
        yield page
        size += sum(memoryview(each).nbytes for each in page.items or ())
        empty = 0 if page.items else empty + 1
        if not page.continue_token:
            return
        if page.continue_token == token or empty > _EMPTY_PAGES:
            raise DecodeError(f"GET {path}: the list does not end: its pages repeat or have no items")
        if size > LIST_LIMIT:
            raise DecodeError(f"GET {path}: the list has more than {LIST_LIMIT} bytes")
        token = page.continue_token


async def raw_page(
    rest: RESTClient, path: str, query: Query, *, limit: int, token: str = "", accept: str = JSON
) -> RawList:
    """Return the page at `token`."""
    data = await rest.request(
        "GET", path, {**query, "limit": str(limit) if limit else None, "continue": token}, accept=accept
    )
    try:
        return _decode_list(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise DecodeError(f"GET {path}: the answer is not a list ({error}): {data[:200]!r}") from error


def selection(labels: Labels, fields: Fields) -> dict[str, str | None]:
    """Return the query parameters that select by labels and fields."""
    return {"labelSelector": labels_text(labels), "fieldSelector": fields_text(fields)}


def labels_text(labels: Labels) -> str:
    """Return `labels` as a query parameter; empty if everything is selected. Raises ConfigError for anything else."""
    if labels is None:
        return ""
    _check_labels(labels)
    if isinstance(labels, str):
        return labels
    if isinstance(labels, LabelSelector):
        return str(_parsed(labels))
    if isinstance(labels, Mapping):
        return _equalities(labels, "labels")
    if labels.nothing:
        raise ConfigError("labels=: this selector matches nothing, which a request cannot express; do not send it")
    return str(labels)


def fields_text(fields: Fields) -> str:
    """Return `fields` as a query parameter; empty if everything is selected. Raises ConfigError for anything else."""
    if fields is None:
        return ""
    _check_type("fields", fields, (str, Mapping, FieldSelector), "a FieldSelector")
    if isinstance(fields, str):
        return fields
    return _equalities(fields, "fields") if isinstance(fields, Mapping) else str(fields)


def label_selector(labels: Labels) -> Selector | None:
    """Return `labels` as a parsed selector; None if everything is selected. Raises ValueError for invalid text."""
    if labels is None or isinstance(labels, Selector):
        return labels
    _check_labels(labels)
    if isinstance(labels, str):
        return Selector.parse(labels)
    if isinstance(labels, LabelSelector):
        return _parsed(labels)
    _equalities(labels, "labels")
    return Selector.from_labels(labels)


def _check_labels(labels: object) -> None:
    _check_type("labels", labels, (str, Mapping, LabelSelector, Selector), "a LabelSelector")


def _check_type(parameter: str, value: object, types: tuple[type, ...], described: str) -> None:
    if not isinstance(value, types):
        raise ConfigError(f'{parameter}={value!r}: pass text like "app=web", a mapping, or {described}')


def _parsed(selector: LabelSelector) -> Selector:
    return Selector.from_dict(msgspec.to_builtins(selector))


def _equalities(wanted: Mapping[str, str], parameter: str) -> str:
    for key, value in wanted.items():
        if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(
                f"{parameter}={wanted!r}: the value of {key!r} is {value!r}, not text; for a set of values write "
                f'"{key} in (a,b)" as text'
            )
    return ",".join(f"{key}={value}" for key, value in sorted(wanted.items()))
