"""Values of structs as JSON has them: what msgspec has to be told of the types that only Kubernetes has."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kubewright.machinery import time
from kubewright.models._meta import MicroTime


def plain(value: Any) -> Any:
    """A struct, or anything that one holds, as plain data."""
    return msgspec.to_builtins(value, enc_hook=_plain)


def from_json(wanted: type[Any], value: Any) -> Any:
    """For decoders: the value of a type that msgspec does not know."""
    if wanted is MicroTime:
        return MicroTime.of(time.parse(value))
    raise NotImplementedError(f"{wanted!r} is not a type of the API")


def _to_json(value: Any) -> Any:
    if isinstance(value, MicroTime):
        return time.format_micro(value)
    raise NotImplementedError(f"{type(value)!r} is not a type of the API")


def _plain(value: Any) -> Any:
    return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else _to_json(value)


encode: Final = msgspec.json.Encoder(enc_hook=_to_json).encode
"""A value as JSON."""
