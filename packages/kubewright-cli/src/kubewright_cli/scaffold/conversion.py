"""Writes the functions that convert a kind between two versions, from the fields of their classes.

Fields of the same name and type are copied, also in structures, lists and maps. A comment names every other field.
"""

from __future__ import annotations

import enum
import re
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kubewright.models import CustomResource, Struct

_HEAD: Final = ("api_version", "kind", "metadata")
_STEP: Final = "    "


@dataclass(frozen=True, slots=True)
class ConversionCode:
    """The functions between two versions."""

    text: str
    """Ends with a line break."""
    missing: tuple[str, ...]
    """Required fields that nothing is copied to. The code does not pass type checkers until they are written."""
    names: tuple[str, str]
    """The functions to the hub and from it."""


@dataclass(frozen=True, slots=True)
class Side:
    """A version of a kind, and the name of its module in the code."""

    kind: type[CustomResource]
    name: str
    """Also that of the version: `v1`."""


def conversion_code(spoke: Side, hub: Side) -> ConversionCode:
    """Return the functions that convert between a spoke and the hub."""
    directions = [_Direction(spoke, hub), _Direction(hub, spoke)]
    functions = [text for each in directions for text in each.functions()]
    missing = tuple(dict.fromkeys(name for each in directions for name in each.missing))
    return ConversionCode("\n\n".join(functions), missing, (directions[0].name, directions[1].name))


@dataclass(slots=True)
class _Direction:
    """The conversion of objects of one version to another."""

    source: Side
    target: Side
    missing: list[str] = field(default_factory=list[str])
    _helpers: dict[tuple[type, type], str] = field(default_factory=dict[tuple[type, type], str])
    """Functions that convert structures, by their types. Empty while one is being written."""
    _names: dict[tuple[type, type], str] = field(default_factory=dict[tuple[type, type], str])

    @property
    def name(self) -> str:
        return f"{self.source.name}_to_{self.target.name}"

    def functions(self) -> Iterator[str]:
        """Yield the texts of the functions, that of the kind first."""
        kind = self.target.kind.__api__.kind
        made = self._construct(self.source.kind, self.target.kind, "old", _STEP, "")
        old, new = self._reference(self.source.kind), self._reference(self.target.kind)
        about = f"Return a {kind} of {self.source.name} in version {self.target.name}. Its metadata stays the same."
        yield _function(self.name, str(old), str(new), made, about)
        yield from self._helpers.values()

    def _construct(self, source: type[Struct], target: type[Struct], value: str, indent: str, path: str) -> str:
        """Return the call that makes a structure of the fields of `value`."""
        have, want = _fields(source), _fields(target)
        inner = indent + _STEP
        lines: list[str] = []
        for name, wanted in want.items():
            place = f"{path}{name}"
            if name not in have:
                lines.append(self._lacking(wanted, place, f"{inner}# TODO: {place} is only in {self.target.name}\n"))
                continue
            made = self._field(have[name], wanted, f"{value}.{name}", inner, place)
            if made is not None:
                lines.append(f"{inner}{name}={made},\n")
                continue
            types_ = f"{_shown(have[name].type)} in {self.source.name}, {_shown(wanted.type)} in {self.target.name}"
            lines.append(self._lacking(wanted, place, f"{inner}# TODO: convert {place}: {types_}\n"))
        only = [name for name in have if name not in want]
        lines += [f"{inner}# TODO: {path}{name} is only in {self.source.name}\n" for name in only]
        arguments = f"\n{''.join(lines)}{indent}" if lines else ""
        return f"{self._reference(target)}({arguments})"

    def _lacking(self, wanted: msgspec.structs.FieldInfo, place: str, comment: str) -> str:
        if wanted.required:
            self.missing.append(f"{place} in {self.name}")
        return comment

    def _field(
        self,
        have: msgspec.structs.FieldInfo,
        wanted: msgspec.structs.FieldInfo,
        value: str,
        indent: str,
        path: str,
    ) -> str | None:
        """Return the value of a field. Structures directly below the kind are written in place."""
        pair = (_plain(have.type), _plain(wanted.type))
        if "." not in path and pair[0] != pair[1] and self._are_structures(*pair):
            return self._construct(*pair, value, indent, f"{path}.")
        return self._expression(*pair, value)

    def _expression(self, source: Any, target: Any, value: str) -> str | None:
        """Return `value`, which is a `source`, as a `target`; None if that is not known."""
        if source == target:
            return value
        if self._are_structures(source, target):
            return f"{self._helper(source, target)}({value})"
        if _is_enum(source) and _is_enum(target):
            return self._enum(source, target, value)
        have, want = _members(source), _members(target)
        if have is not None or want is not None:
            return self._optional(have or {source}, want or {target}, value)
        origin = typing.get_origin(source)
        if origin is None or origin is not typing.get_origin(target):
            return None
        inside = [typing.get_args(each) for each in (source, target)]
        if origin is list:
            item = self._expression(inside[0][0], inside[1][0], "each")
            return item and f"[{item} for each in {value}]"
        if origin is dict and inside[0][0] == inside[1][0]:
            item = self._expression(inside[0][1], inside[1][1], "item")
            return item and f"{{key: {item} for key, item in {value}.items()}}"
        return None

    def _optional(self, have: set[Any], want: set[Any], value: str) -> str | None:
        """Return a value that may be absent on one or both sides."""
        if have <= want:
            return value
        none = type(None)
        if len(have - {none}) != 1 or len(want - {none}) != 1 or (none in have and none not in want):
            return None
        [source], [target] = have - {none}, want - {none}
        item = self._expression(source, target, value)
        return item and (f"{item} if {value} is not None else None" if none in have else item)

    def _enum(self, source: type[enum.Enum], target: type[enum.Enum], value: str) -> str | None:
        reference = self._reference(target)
        known = {each.value for each in target}
        return f"{reference}({value}.value)" if reference and {each.value for each in source} <= known else None

    def _are_structures(self, source: Any, target: Any) -> bool:
        return all(
            isinstance(each, type) and issubclass(each, Struct) and self._reference(each) is not None
            for each in (source, target)
        )

    def _helper(self, source: type[Struct], target: type[Struct]) -> str:
        """Return the name of the function that converts a structure."""
        if (source, target) not in self._helpers:
            name = f"_{self.source.name}_{_snake(source.__name__)}_to_{self.target.name}"
            if any(known is source for known, _ in self._helpers):
                name += f"_{_snake(target.__name__)}"
            self._names[source, target] = name
            self._helpers[source, target] = ""
            made = self._construct(source, target, "old", _STEP, f"{source.__name__}.")
            old, new = self._reference(source), self._reference(target)
            self._helpers[source, target] = _function(name, str(old), str(new), made, "")
        return self._names[source, target]

    def _reference(self, cls: type) -> str | None:
        """Return how the code names a class; None for a class of a third module."""
        for side in (self.source, self.target):
            if cls.__module__ == side.kind.__module__:
                return f"{side.name}.{cls.__qualname__}"
        return None


def _function(name: str, old: str, new: str, made: str, about: str) -> str:
    docstring = f'{_STEP}"""{about}"""\n' if about else ""
    return f"def {name}(old: {old}) -> {new}:\n{docstring}{_STEP}return {made}\n"


def _fields(cls: type[Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    return {each.name: each for each in msgspec.structs.fields(cls) if each.name not in _HEAD}


def _plain(annotation: Any) -> Any:
    """Return a type without markers."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _plain(arguments[0])
    if isinstance(annotation, types.UnionType) or origin is typing.Union:
        return typing.Union[tuple(map(_plain, arguments))]  # noqa: UP007 - the members are not known here
    if origin is list:
        return list[_plain(arguments[0])]  # type: ignore[misc]
    if origin is dict:
        return dict[_plain(arguments[0]), _plain(arguments[1])]  # type: ignore[misc]
    return annotation


def _members(annotation: Any) -> set[Any] | None:
    """Return the members of a union; None for another type."""
    return set(typing.get_args(annotation)) if typing.get_origin(annotation) is typing.Union else None


def _is_enum(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, enum.Enum)


def _shown(annotation: Any) -> str:
    plain = _plain(annotation)
    if isinstance(plain, type) and not typing.get_args(plain):
        return plain.__name__
    members = _members(plain)
    if members is not None:
        return " | ".join("None" if each is type(None) else _shown(each) for each in typing.get_args(plain))
    origin, inside = typing.get_origin(plain), ", ".join(map(_shown, typing.get_args(plain)))
    return f"{origin.__name__}[{inside}]" if origin in (list, dict) else str(plain).removeprefix("typing.")


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
