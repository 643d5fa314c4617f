"""Structures of Kubernetes APIs as Python classes, decoded and encoded by msgspec.

`Struct` is the base of them all, built in or defined by a user (who derives from `Model`, which is checked). Attributes
are snake_case in Python and camelCase on the wire. Structs take keyword arguments only. A value that equals its default
is not sent, so each default is what the API understands by an absent field: None, an empty list or map, an empty name.

The garbage collector does not track structs other than `Object`, because they are trees, like JSON. A struct that
contains itself is never freed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform, get_args, get_origin, overload

import msgspec

from kubewright.models._apiresource import APIResource

T = TypeVar("T")


@overload
def field(*, default: T, name: str | None = None) -> T: ...
@overload
def field(*, default_factory: Callable[[], T], name: str | None = None) -> T: ...
@overload
def field(*, name: str | None = None) -> Any: ...
def field(**options: Any) -> Any:
    """Configure a field of a struct.

    `name` is its name on the wire, if that is not the Python name in camelCase (`podIPs`). `default` or
    `default_factory` is its value if none is given. A field with neither is required.
    """
    return msgspec.field(**options)


class StructType(msgspec.StructMeta):
    """The metaclass of structs: keyword arguments only; the kind of an object is checked and written."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], /, **options: Any) -> StructType:
        api: APIResource | None = namespace.get("__api__")
        if api is not None:
            options.update(tag_field="kind", tag=api.kind)
        return super().__new__(mcls, name, bases, namespace, kw_only=True, **options)


def check_no_documents(cls: type[Struct], values: Mapping[str, object]) -> None:
    """Raise TypeError for a dict or a list of dicts in a field that holds a struct or a list of structs."""
    for name, value in values.items():
        if (value.__class__ is dict or value.__class__ is list) and (wanted := _structs_of(cls).get(name)) is not None:
            _check_value(cls, name, value, wanted)


def check_fields(obj: Struct) -> None:
    """Raise TypeError as `check_no_documents` does, for the fields of `obj`."""
    cls = type(obj)
    for name, wanted in _structs_of(cls).items():
        value = getattr(obj, name)
        if value.__class__ is dict or value.__class__ is list:
            _check_value(cls, name, value, wanted)


def _check_value(cls: type[Struct], name: str, value: object, wanted: type[Struct]) -> None:
    is_list = value.__class__ is list
    first = next(iter(cast("list[object]", value)), None) if is_list else value
    if first.__class__ is not dict:
        return
    struct = wanted.__name__
    got, write = ("a list of dicts", f"[{struct}(...)]") if is_list else ("a dict", f"{struct}(...)")
    raise TypeError(
        f"{cls.__name__}.{name} takes {struct}, got {got}: write {name}={write}, or convert a whole document with "
        "codec.from_dict"
    )


@cache
def _structs_of(cls: type[Struct]) -> dict[str, type[Struct]]:
    """Return the struct that each field of `cls` holds, or the items of its list."""
    found = ((field.name, _struct_in(field.type)) for field in msgspec.structs.fields(cls))
    return {name: struct for name, struct in found if struct is not None}


def _struct_in(annotation: Any) -> type[Struct] | None:
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return annotation
    if get_origin(annotation) is dict:
        return None
    return next(filter(None, map(_struct_in, get_args(annotation))), None)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class Struct(
    msgspec.Struct, metaclass=StructType, rename="camel", omit_defaults=True, repr_omit_defaults=True, gc=False
):
    """A structure of a Kubernetes API."""

    __markers__: ClassVar[tuple[Any, ...]] = ()
