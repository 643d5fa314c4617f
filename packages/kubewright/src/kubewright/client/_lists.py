"""What a list answers, and how one asks for a part of a kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec

from kubewright.client._rest import JSON, Query, RESTClient
from kubewright.machinery.errors import DecodeError
from kubewright.machinery.selectors import FieldSelector, LabelSelector

T = TypeVar("T")

Labels: TypeAlias = LabelSelector | Mapping[str, str] | str | None
"""A label selector: parsed, as equalities (`{"app": "web"}`), or as kubectl writes it (`"app=web,tier!=cache"`)."""

Fields: TypeAlias = FieldSelector | Mapping[str, str] | str | None
"""A field selector: parsed, as equalities (`{"metadata.name": "web"}`), or as text (`"status.phase!=Failed"`)."""


@dataclass(slots=True)
class ObjectList(Generic[T]):
    """Objects of one kind, as they were at one resource version."""

    items: list[T] = field(default_factory=list[T])
    resource_version: str = ""
    """Of the list as a whole; a watch from here misses nothing."""
    continue_token: str = ""
    """Hand it to `Client.list_page` for what comes next; empty at the end."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __bool__(self) -> bool:
        return bool(self.items)


class _ListMeta(msgspec.Struct, gc=False, rename={"resource_version": "resourceVersion", "continue_token": "continue"}):
    resource_version: str = ""
    continue_token: str | None = None


class RawList(msgspec.Struct, gc=False):
    """A list, or one page of it, whose items are still JSON: views of the answer, to be copied by who keeps them."""

    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None

    @property
    def resource_version(self) -> str:
        return self.metadata.resource_version

    @property
    def continue_token(self) -> str:
        return self.metadata.continue_token or ""


_decode_list: Final = msgspec.json.Decoder(RawList).decode
"""Made on import: msgspec can't learn the same class in two threads at once."""


async def raw_pages(
    rest: RESTClient, path: str, query: Query, *, limit: int, accept: str = JSON
) -> AsyncIterator[RawList]:
    """The pages of one list, in their order; a single one when `limit` is 0.

    Raises Gone when the server no longer knows the snapshot that the first page is of: begin anew, without a limit.
    """
    token = ""
    while True:
        page = await raw_page(rest, path, query, limit=limit, token=token, accept=accept)
        yield page
        token = page.continue_token
        if not token:
            return


async def raw_page(
    rest: RESTClient, path: str, query: Query, *, limit: int, token: str = "", accept: str = JSON
) -> RawList:
    """One page, from where `token` says."""
    data = await rest.request(
        "GET", path, {**query, "limit": str(limit) if limit else None, "continue": token}, accept=accept
    )
    try:
        return _decode_list(data)
    except msgspec.MsgspecError as error:
        raise DecodeError(f"GET {path}: the answer is not a list ({error}): {data[:200]!r}") from error


def selection(labels: Labels, fields: Fields) -> dict[str, str | None]:
    """The query parameters that select by labels and fields."""
    return {"labelSelector": selector_text(labels), "fieldSelector": selector_text(fields)}


def selector_text(selector: Labels | Fields) -> str:
    """A selector as a query parameter carries it; empty for one that selects everything."""
    if selector is None:
        return ""
    if isinstance(selector, Mapping):
        return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    return str(selector)


def label_selector(labels: Labels) -> LabelSelector | None:
    """`labels` as a selector that can be asked; None for one that selects everything. Raises ValueError for bad
    text.
    """
    if labels is None or isinstance(labels, LabelSelector):
        return labels
    return LabelSelector.parse(labels) if isinstance(labels, str) else LabelSelector.from_labels(labels)
