"""The part of a kind that is cached: namespaces, labels, and fields that an entry has without decoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from kubewright.cache._entry import Entry
from kubewright.client._lists import Fields, Labels, fields_text, label_selector
from kubewright.machinery.selectors import FieldSelector

Namespaces: TypeAlias = str | Sequence[str] | None
"""One namespace, or several; None means all."""

EVERYWHERE: Final[tuple[str | None, ...]] = (None,)


def each_of(namespaces: Namespaces) -> tuple[str | None, ...]:
    """Return each namespace once; `EVERYWHERE` if none is named."""
    if not namespaces:
        return EVERYWHERE
    return (namespaces,) if isinstance(namespaces, str) else tuple(dict.fromkeys(namespaces))


_KNOWN: Final = frozenset({"metadata.name", "metadata.namespace"})


class Selection:
    """Selects objects by labels and fields."""

    def __init__(self, labels: Labels, fields: Fields) -> None:
        """Raises ValueError for text that is not a selector."""
        self._labels = label_selector(labels)
        self._fields = FieldSelector.parse(fields_text(fields)) if fields is not None else FieldSelector()
        self.unknown = sorted({each.field for each in self._fields.requirements} - _KNOWN)
        """The selected fields that an entry does not show without decoding."""

    def has_labels(self, labels: Mapping[str, str]) -> bool:
        """Return whether an object with these labels may be selected."""
        return self._labels is None or self._labels.matches(labels)

    def has(self, entry: Entry[Any]) -> bool:
        """Return whether this object is certainly selected."""
        name, namespace = entry.key.name, entry.key.namespace or ""
        return (
            self.has_labels(entry.labels)
            and not self.unknown
            and self._fields.matches({"metadata.name": name, "metadata.namespace": namespace})
        )
