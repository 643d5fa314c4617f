"""Converts values of structs to and from JSON, including types that only Kubernetes has."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kubewright.machinery import time
from kubewright.models._meta import MicroTime


def plain(value: Any) -> Any:
    """Convert a struct, or any value in one, to plain data."""
    return msgspec.to_builtins(value, enc_hook=_plain)


def from_json(wanted: type[Any], value: Any) -> Any:
    """Return a decoding hook: convert a value to a type that msgspec does not know."""
    if wanted is MicroTime:
        return MicroTime.of(time.parse(value))
    raise NotImplementedError(f"{wanted!r} is not an API type")


def _to_json(value: Any) -> Any:
    if isinstance(value, MicroTime):
        return time.format_micro(value)
    raise NotImplementedError(f"{type(value)!r} is not an API type")


def _plain(value: Any) -> Any:
    return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else _to_json(value)


encode: Final = msgspec.json.Encoder(enc_hook=_to_json).encode
"""Encodes a value as JSON."""
