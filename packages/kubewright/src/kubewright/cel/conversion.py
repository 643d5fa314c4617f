"""Conversion between the JSON form of a value and its form in expressions: times, durations, bytes, whole doubles."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final

from kubewright.cel.types import BYTES, DOUBLE, DURATION, TIMESTAMP, Type
from kubewright.cel.values import EvaluationError
from kubewright.machinery import time
from kubewright.machinery.json import is_array, is_object


def converter(type: Type) -> Callable[[Any], Any] | None:
    """Return the function that converts a JSON value to `type`; None if no conversion is needed."""
    if type in _CONVERTERS:
        return _CONVERTERS[type]
    inner = converter(type.parameters[-1]) if type.name in ("list", "map") else None
    return _each_converted(inner) if inner is not None else None


def _each_converted(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def converted(value: Any) -> Any:
        if is_array(value):
            return [convert(each) for each in value]
        return {key: convert(each) for key, each in value.items()} if is_object(value) else value

    return converted


def _timestamp(value: Any) -> Any:
    if value.__class__ is not str:
        return value
    try:
        return time.parse(value if "T" in value.upper() else f"{value}T00:00:00Z")
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _duration(value: Any) -> Any:
    if value.__class__ is not str:
        return value
    try:
        return time.parse_duration(value)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _bytes(value: Any) -> Any:
    if value.__class__ is not str:
        return value
    try:
        return binascii.a2b_base64(value)
    except (binascii.Error, ValueError) as error:
        raise EvaluationError(str(error)) from None


def _double(value: Any) -> Any:
    return float(value) if value.__class__ is int else value


_CONVERTERS: Final[Mapping[Type, Callable[[Any], Any]]] = {
    TIMESTAMP: _timestamp, DURATION: _duration, BYTES: _bytes, DOUBLE: _double,
}  # fmt: skip
