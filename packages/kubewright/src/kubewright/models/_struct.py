"""Structures of Kubernetes APIs as Python classes, decoded and encoded by msgspec.

`Struct` is the base of them all, built in or defined by a user (who derives from `Model`, which is checked). Attributes
are snake_case in Python and camelCase on the wire. Structs take keyword arguments only. A value that equals its default
is not sent, so each default is what the API understands by an absent field: None, an empty list or map, an empty name.

The garbage collector does not track structs other than `Object`, because they are trees, like JSON. A struct that
contains itself is never freed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, dataclass_transform, overload

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


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class Struct(
    msgspec.Struct, metaclass=StructType, rename="camel", omit_defaults=True, repr_omit_defaults=True, gc=False
):
    """A structure of a Kubernetes API."""

    __markers__: ClassVar[tuple[Any, ...]] = ()
