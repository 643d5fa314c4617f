"""Models: the structures of a user's own API, checked when their class is made.

    class WebServerSpec(Model):
        replicas: Annotated[int, Minimum(0)] = 1
        \"\"\"The number of replicas that the webserver should have.\"\"\"

What is declared is what a CRD can say: a field whose type cannot be in one is a ModelError at the class statement. A
default is always sent (an apply owns what it says), but for None, UNSET and empty lists and maps, which are absent
fields. `X | None` without a default is a field that must be there and may be null; `X | UnsetType | None = UNSET`
tells null and absent apart.
"""

from __future__ import annotations

import copy
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from kubewright.machinery.errors import ModelError
from kubewright.machinery.json import JSONObject, is_array, is_object
from kubewright.markers import Marker
from kubewright.models._annotations import annotations_of, evaluated, is_class_variable
from kubewright.models._limits import violations
from kubewright.models._struct import Struct, StructType
from kubewright.models._types import Nested, schema_of
from kubewright.models._values import plain

_FIELD: Final[Any] = msgspec.field(default=None).__class__
_VALUES: Final = (str, int, float, bytes, list, dict, tuple, _FIELD)


class ModelType(StructType):
    """The class of model classes: makes defaults explicit, resolves annotations, and checks every field."""

    def __new__(
        mcls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        /,
        *,
        markers: Sequence[Marker] = (),
        **options: Any,
    ) -> ModelType:
        if markers:
            namespace["__markers__"] = tuple(markers)
        declared = annotations_of(namespace)
        _check_untyped(name, namespace, declared)
        for attribute, annotation in declared.items():
            if attribute in namespace and not is_class_variable(annotation):
                namespace[attribute] = _always_sent(namespace[attribute], f"{name}.{attribute}")
        try:
            cls = super().__new__(mcls, name, bases, namespace, **options)
        except ValueError as fault:
            raise ModelError(f"{name}: {fault}; set a field's name with field(name=...)") from fault
        assert isinstance(cls, ModelType)
        cls.__annotations__ = evaluated(cls, declared)
        for field in msgspec.structs.fields(cast("type[Struct]", cls)):
            if field.name in cls.__annotations__:
                _check(field, f"{name}.{field.name}")
        _check_markers(markers, name, cls.__struct_encode_fields__)
        return cls


def field_schema(field: msgspec.structs.FieldInfo, where: str, nested: Nested) -> JSONObject:
    """The schema of one field of a struct, with its default. Raises ModelError."""
    default = default_of(field, where)
    schema = schema_of(field.type, where, nested, null_is_absent=default is None)
    if default is not None and default not in (msgspec.NODEFAULT, msgspec.UNSET, [], {}):
        schema.setdefault("default", default)
    return schema


def default_of(field: msgspec.structs.FieldInfo, where: str) -> Any:
    """A field's default as JSON has it; NODEFAULT for a field that must be given, UNSET for one that may be absent."""
    if field.default_factory is msgspec.NODEFAULT:
        return field.default
    try:
        return plain(field.default_factory())
    except TypeError as fault:
        raise ModelError(f"{where}: its default cannot be made: {fault}; let the field have none") from fault


def _check(field: msgspec.structs.FieldInfo, where: str) -> None:
    schema = field_schema(field, where, lambda cls, where: {"type": "object"})
    default = schema.get("default")
    faults = violations(schema, default) if default is not None else []
    if faults:
        raise ModelError(f"{where}: the default {default!r} is against the field's own limits: it {faults[0]}")


def _check_untyped(where: str, namespace: Mapping[str, Any], declared: Mapping[str, Any]) -> None:
    """Refuse a value without a type, which would be a field for whoever reads it and for nobody else."""
    for attribute, value in namespace.items():
        if attribute.startswith("_") or attribute in declared or not isinstance(value, _VALUES):
            continue
        raise ModelError(
            f"{where}.{attribute}: a value without a type beside it is no field; write the type, as in "
            f"`{attribute}: int = 1`, or `{attribute}: ClassVar[int] = 1` for a constant"
        )


def _check_markers(markers: Sequence[Marker], where: str, fields: Sequence[str]) -> None:
    for marker in markers:
        if missing := [each for each in marker.fields if each not in fields]:
            listed = ", ".join(f'"{each}"' for each in missing)
            raise ModelError(f"{where}: {marker.name} names {listed}, no field of it; it has {', '.join(fields)}")


def _always_sent(default: Any, where: str) -> Any:
    """`default`, so that msgspec, which leaves out what equals a plain default, does not leave it out."""
    name = factory = None
    if isinstance(default, _FIELD):
        name, factory, default = default.name, default.default_factory, default.default
    if factory is not None and factory is not msgspec.NODEFAULT:
        # list[str] as a factory makes the same lists as list, which msgspec knows to be empty
        return msgspec.field(default_factory=typing.get_origin(factory) or factory, name=name)
    if default is msgspec.NODEFAULT or default is None or default is msgspec.UNSET or default == [] or default == {}:
        return msgspec.field(default=default, name=name)
    if isinstance(default, Struct):
        made = type(default).__name__
        raise ModelError(f"{where}: one {made} would be shared by all; use field(default_factory={made})")
    if is_array(default) or is_object(default):
        return msgspec.field(default_factory=lambda: copy.deepcopy(default), name=name)
    return msgspec.field(default_factory=lambda: default, name=name)


class Model(Struct, metaclass=ModelType):
    """A structure of a user's API. The class argument `markers=[...]` says something of it as a whole."""
