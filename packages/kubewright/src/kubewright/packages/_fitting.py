"""Fits documents to their classes as Go does, and notes what does not fit: every fault, not just the first.

Keys match in any case. A number or boolean in the place of text is its text. null counts as absent.

Follows encoding/json, and sigs.k8s.io/yaml.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from kubewright.machinery._suggestions import did_you_mean
from kubewright.machinery.json import is_array, is_object
from kubewright.models import Struct
from kubewright.packages._finding import Path
from kubewright.packages._values import shown
from kubewright.templates._strconv import format_float

T = TypeVar("T", bound=Struct)
Report = Callable[[Path, str], None]
_NAMES: Final = {bool: "true or false", int: "an integer"}


def fitted(document: Any, cls: type[T], error: Report, warning: Report) -> T:
    """Return a document as an object of a class. What does not fit is reported, and left out."""
    return msgspec.convert(_Fitting(error, warning).value(document, cls, ()), cls)


class _Fitting:
    def __init__(self, error: Report, warning: Report) -> None:
        self._error = error
        self._warning = warning

    def value(self, value: Any, annotation: Any, path: Path) -> Any:
        """Return a value that fits the annotation; the zero value in place of one that does not."""
        annotation = _without_none(annotation)
        if annotation is Any:
            return value
        if get_origin(annotation) is list:
            return self._list(value, get_args(annotation)[0], path)
        if get_origin(annotation) is dict:
            return self._dict(value, get_args(annotation)[1], path)
        if issubclass(annotation, Struct):
            return self._struct(value, annotation, path)
        return self._scalar(value, annotation, path)

    def _struct(self, value: Any, cls: type[Struct], path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, each in self._mapping(value, path).items():
            name = _wire_name(cls, key)
            if name is None:
                known = did_you_mean(key, _fields(cls))
                self._warning((*path, key), f"is not a field of a package, and is ignored{known}")
            elif each is not None:
                found[name] = self.value(each, _fields(cls)[name], (*path, key))
        return found

    def _dict(self, value: Any, item: Any, path: Path) -> dict[str, Any]:
        return {key: self.value(each, item, (*path, key)) for key, each in self._mapping(value, path).items()}

    def _mapping(self, value: Any, path: Path) -> dict[str, Any]:
        if is_object(value):
            return value
        if value is not None:
            self._error(path, f"must be a mapping, got {shown(value)}")
        return {}

    def _list(self, value: Any, item: Any, path: Path) -> list[Any]:
        if is_array(value):
            return [self.value(each, item, (*path, index)) for index, each in enumerate(value)]
        self._error(path, f"must be a list, got {shown(value)}")
        return []

    def _scalar(self, value: Any, cls: type, path: Path) -> Any:
        if cls is str:
            return self._text(value, path)
        if value is None or (isinstance(value, bool) != (cls is bool)) or not isinstance(value, cls):
            self._error(path, f"must be {_NAMES[cls]}, got {shown(value)}")
            return cls()
        return value

    def _text(self, value: Any, path: Path) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return str(value)
        if isinstance(value, float):
            return format_float(value)
        if value is None:
            return ""
        if not isinstance(value, str):
            self._error(path, f"must be text, got {shown(value)}")
            return ""
        return value


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation
    return next(each for each in get_args(annotation) if each is not types.NoneType)


def _wire_name(cls: type[Struct], key: str) -> str | None:
    fields = _fields(cls)
    return key if key in fields else next((name for name in fields if name.lower() == key.lower()), None)


@cache
def _fields(cls: type[Struct]) -> dict[str, Any]:
    """Return the types of a struct's fields, by their names in documents."""
    hints = get_type_hints(cls)
    return {wire: hints[name] for name, wire in zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)}
