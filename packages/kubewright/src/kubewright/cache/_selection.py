"""A part of a kind by labels and fields, as far as can be told of an object without decoding it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kubewright.cache._entry import Entry
from kubewright.client._lists import Fields, Labels, fields_text, label_selector
from kubewright.machinery.selectors import FieldSelector

_TOLD: Final = frozenset({"metadata.name", "metadata.namespace"})


class Selection:
    """Objects that have such labels and fields."""

    def __init__(self, labels: Labels, fields: Fields) -> None:
        """Raises ValueError for text that is no selector."""
        self._labels = label_selector(labels)
        self._fields = FieldSelector.parse(fields_text(fields)) if fields is not None else FieldSelector()
        self.untold = sorted({each.field for each in self._fields.requirements} - _TOLD)
        """The selected fields of which an entry does not tell."""

    def has_labels(self, labels: Mapping[str, str]) -> bool:
        """Whether an object that has these labels may be one of them."""
        return self._labels is None or self._labels.matches(labels)

    def has(self, entry: Entry[Any]) -> bool:
        """Whether this is certainly one of them."""
        name, namespace = entry.key.name, entry.key.namespace or ""
        return (
            self.has_labels(entry.labels)
            and not self.untold
            and self._fields.matches({"metadata.name": name, "metadata.namespace": namespace})
        )
