"""What a function is: its signature, what it does, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from kubewright_controlplane.schema.cel.types import Signature, Type, parse_signature
from kubewright_controlplane.schema.cel.values import type_name

Implementation: TypeAlias = (
    Callable[[], Any]
    | Callable[[Any], Any]
    | Callable[[Any, Any], Any]
    | Callable[[Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any], Any]
)


@dataclass(frozen=True, slots=True)
class Function:
    """One overload of a function."""

    signature: Signature
    call: Callable[..., Any]
    linear: bool = False
    """Its cost grows with the size of its arguments."""

    def accepts(self, arguments: Sequence[Any]) -> bool:
        """Whether these values are what it takes: asked where types were not known before."""
        parameters = self.signature.parameters
        return len(parameters) == len(arguments) and all(map(_fits, parameters, arguments))


def _fits(wanted: Type, value: Any) -> bool:
    return wanted.is_variable or wanted.name == "dyn" or wanted.name == type_name(value)


def library(*entries: tuple[str, Implementation], linear: bool = False) -> tuple[Function, ...]:
    """Functions by their signatures, `string.contains(string) -> bool`; each overload has one of its own."""
    return tuple(Function(parse_signature(text), call, linear) for text, call in entries)


def size_of(value: Any) -> int:
    """What a value's size is for its cost: of what has none, 1."""
    return len(value) if value.__class__ in (str, bytes, list, dict) else 1
