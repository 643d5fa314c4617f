"""Structures of Kubernetes' APIs as Python classes, decoded and encoded by msgspec.

`Struct` is any of them, built in or declared by a user (who derives from `Model`, which is checked). Its attributes
are snake_case in Python and camelCase on the wire; it is made from keyword arguments only. What equals its default is
not sent, so a default here is what the API takes an absent field for: None, an empty list or map, an empty name.

Structs other than `Object` are not tracked by the garbage collector: they are trees, as JSON is. A struct that is put
into its own tree is never freed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform, overload

import msgspec

if TYPE_CHECKING:
    from kubewright.models._resource import APIResource

T = TypeVar("T")


@overload
def field(*, default: T, name: str | None = None) -> T: ...
@overload
def field(*, default_factory: Callable[[], T], name: str | None = None) -> T: ...
@overload
def field(*, name: str | None = None) -> Any: ...
def field(**options: Any) -> Any:
    """Say more about a field than its type does.

    `name` is its name on the wire, where camelCase of the Python name is not right (`podIPs`). `default` or
    `default_factory` is its value when none is given; a field with neither must be given.
    """
    return msgspec.field(**options)


class StructType(msgspec.StructMeta):
    """The class of struct classes: keyword arguments only, and the kind checked and written where there is one."""

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
