"""Functions: their signatures, implementations and costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from kubewright.cel.types import Signature, Type, parse_signature
from kubewright.cel.values import type_name

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
    """The cost grows with the size of the arguments."""
    cost: int = 0
    """A fixed cost in addition to its step."""

    def accepts(self, arguments: Sequence[Any]) -> bool:
        """Return whether the function accepts these values. Used if the types are not known at compile time."""
        parameters = self.signature.parameters
        return len(parameters) == len(arguments) and all(map(_fits, parameters, arguments))


def _fits(wanted: Type, value: Any) -> bool:
    return wanted.is_variable or wanted.name == "dyn" or wanted.name == type_name(value)


def library(*entries: tuple[str, Implementation], linear: bool = False, cost: int = 0) -> tuple[Function, ...]:
    """Build functions from their signatures, `string.contains(string) -> bool`. Each overload has its own."""
    return tuple(Function(parse_signature(text), call, linear, cost) for text, call in entries)


def size_of(value: Any) -> int:
    """Return the size of a value for its cost; 1 for a value without a size."""
    return len(value) if value.__class__ in (str, bytes, list, dict) else 1
