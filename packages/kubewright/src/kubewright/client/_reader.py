"""Reading objects, wherever they are: a Client asks the server, a Cache its memory."""

from __future__ import annotations

from typing import Protocol, TypeVar

from kubewright.client._lists import Fields, Labels, ObjectList
from kubewright.models import Object

T = TypeVar("T", bound=Object)


class Reader(Protocol):
    """Gets and lists objects by kind. What it gives is the caller's own, to change as they like."""

    async def get(self, kind: type[T], name: str, *, namespace: str | None = None) -> T:
        """The object of that name. Raises NotFound."""
        ...

    async def get_or_none(self, kind: type[T], name: str, *, namespace: str | None = None) -> T | None:
        """The object of that name, or None."""
        ...

    async def list(
        self, kind: type[T], *, namespace: str | None = None, labels: Labels = None, fields: Fields = None
    ) -> ObjectList[T]:
        """The objects of a kind that match; of every namespace when none is given."""
        ...
