"""Reduces a document to its metadata and selected fields, to save memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Union

import msgspec

from kubewright.machinery.errors import ConfigError, DecodeError

_ALWAYS: Final = ("apiVersion", "kind", "metadata")


class Projection:
    """Keeps the fields `only` of documents, including nested fields, and the fields that every object has."""

    def __init__(self, only: Iterable[str]) -> None:
        """Take paths such as `spec.nodeName`, with JSON names. Raises ConfigError for empty paths and parts."""
        tree: dict[str, Any] = {}
        for path in sorted((*_ALWAYS, *only)):
            *outer, last = path.split(".")
            if not all((*outer, last)):
                raise ConfigError(f'only: "{path}" is not a field; write it as in "spec.nodeName"')
            below: dict[str, Any] | None = tree
            for name in outer:
                below = below.setdefault(name, {}) if below is not None else None
            if below is not None:  # otherwise the whole parent is selected
                below[last] = None
        self._decode = msgspec.json.Decoder(_struct(tree)).decode
        self._encode = msgspec.json.Encoder().encode

    def __call__(self, document: bytes) -> bytes:
        """Return the document with the selected fields. Raises DecodeError if a parent is not an object."""
        try:
            return self._encode(self._decode(document))
        except msgspec.ValidationError as error:
            raise DecodeError(f"only: {error}; name the list itself, fields of its items cannot be selected") from error


def _struct(tree: dict[str, Any]) -> type[msgspec.Struct]:
    """Return a class with the fields of `tree`. Leaves keep their raw JSON."""
    fields = [
        (f"f{number}", _optional(below), msgspec.field(default=msgspec.UNSET, name=name))
        for number, (name, below) in enumerate(tree.items())
    ]
    return msgspec.defstruct("Projected", fields, omit_defaults=True, gc=False)


def _optional(below: dict[str, Any] | None) -> Any:
    kind: Any = msgspec.Raw if below is None else Union[_struct(below), None]  # noqa: UP007 - created at run time
    return Union[kind, msgspec.UnsetType]  # noqa: UP007
