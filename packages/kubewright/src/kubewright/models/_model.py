"""Models: the structures of a user's own API, checked when their class is defined.

    class WebServerSpec(Model):
        replicas: Annotated[int, m.Minimum(0)] = 1
        \"\"\"The number of replicas that the webserver should have.\"\"\"

A model declares only what a CRD can express: a field whose type does not fit raises ModelError at the class statement.
Defaults are always sent, because an apply owns only what it sends. The exceptions are None, UNSET and empty lists and
maps: they stand for absent fields. `X | None` without a default is a required field that may be null. `X | UnsetType |
None = UNSET` distinguishes null from absent.
"""

from __future__ import annotations

import copy
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from kubewright.machinery._suggestions import did_you_mean
from kubewright.machinery.errors import ModelError
from kubewright.machinery.json import JSONObject, is_array, is_object
from kubewright.markers import Marker
from kubewright.models._annotations import annotations_of, evaluated, is_class_variable
from kubewright.models._struct import Struct, StructType, check_no_documents
from kubewright.models._types import Nested, schema_of
from kubewright.models._values import plain

_FIELD: Final[Any] = msgspec.field(default=None).__class__
_VALUES: Final = (str, int, float, bytes, list, dict, tuple, _FIELD)
_LIMITS: Final[dict[str, tuple[Callable[[Any, Any], bool], str]]] = {
    "minimum": (lambda value, limit: value >= limit, "must be at least {}"),
    "maximum": (lambda value, limit: value <= limit, "must be at most {}"),
    "multipleOf": (lambda value, limit: value % limit == 0, "must be a multiple of {}"),
    "minLength": (lambda value, limit: len(value) >= limit, "must have at least {} characters"),
    "maxLength": (lambda value, limit: len(value) <= limit, "must have at most {} characters"),
    "pattern": (lambda value, limit: re.search(limit, value) is not None, 'must match "{}"'),
    "minItems": (lambda value, limit: len(value) >= limit, "must have at least {} items"),
    "maxItems": (lambda value, limit: len(value) <= limit, "must have at most {} items"),
    "minProperties": (lambda value, limit: len(value) >= limit, "must have at least {} entries"),
    "maxProperties": (lambda value, limit: len(value) <= limit, "must have at most {} entries"),
    "enum": (lambda value, limit: value in limit, "must be one of {}"),
}
_JSON_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


class ModelType(StructType):
    """The metaclass of models: makes defaults explicit, evaluates annotations, and checks every field."""

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
        except ValueError as error:
            raise ModelError(f"{name}: {error}; set a field's name with field(name=...)") from error
        assert isinstance(cls, ModelType)
        cls.__annotations__ = evaluated(cls, declared)
        for field in msgspec.structs.fields(cast("type[Struct]", cls)):
            if field.name in cls.__annotations__:
                _check(field, f"{name}.{field.name}")
        _check_markers(markers, name, cls.__struct_encode_fields__)
        return cls

    if not TYPE_CHECKING:  # type checkers derive the signature from the fields

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            """Create a model. A TypeError names the field that was probably meant, or the model to write for a dict.

            Built-in kinds do without: this doubles the cost of creating a struct.
            """
            try:
                made = super().__call__(*args, **kwargs)
            except TypeError as error:
                unknown = [name for name in kwargs if name not in cls.__struct_fields__]
                if not unknown:
                    raise
                hint = did_you_mean(unknown[0], cls.__struct_fields__)
                raise TypeError(f"{cls.__name__} has no field {unknown[0]!r}{hint}") from error
            check_no_documents(cls, kwargs)
            return made


def field_schema(field: msgspec.structs.FieldInfo, where: str, nested: Nested) -> JSONObject:
    """Return the schema of one field of a struct, with its default. Raises ModelError."""
    default = default_of(field, where)
    schema = schema_of(field.type, where, nested, null_is_absent=default is None)
    if default is not None and default not in (msgspec.NODEFAULT, msgspec.UNSET, [], {}):
        schema.setdefault("default", default)
    return schema


def default_of(field: msgspec.structs.FieldInfo, where: str) -> Any:
    """Return a field's default as JSON; NODEFAULT for a required field, UNSET for one that may be absent."""
    if field.default_factory is msgspec.NODEFAULT:
        return field.default
    try:
        return plain(field.default_factory())
    except TypeError as error:
        raise ModelError(f"{where}: cannot create the default: {error}; remove the default") from error


def _check(field: msgspec.structs.FieldInfo, where: str) -> None:
    schema = field_schema(field, where, lambda cls, where: {"type": "object"})
    default = schema.get("default")
    errors = _violations(schema, default) if default is not None else []
    if errors:
        raise ModelError(f"{where}: the default {default!r} violates the field's own limits: it {errors[0]}")


def _violations(schema: JSONObject, value: Any) -> list[str]:
    """Return how `value`, which is JSON, violates the type and limits of `schema`: an API server rejects such a
    default.
    """
    wanted = schema.get("type")
    if wanted is not None and value.__class__ not in _JSON_TYPES[wanted]:
        return [f"must be of type {wanted}"]
    errors = [
        text.format(schema[keyword])
        for keyword, (holds, text) in _LIMITS.items()
        if keyword in schema and not holds(value, schema[keyword])
    ]
    if schema.get("exclusiveMinimum") and value == schema["minimum"]:
        errors.append(f"must be above {value}")
    if schema.get("exclusiveMaximum") and value == schema["maximum"]:
        errors.append(f"must be below {value}")
    return errors


def _check_untyped(where: str, namespace: Mapping[str, Any], declared: Mapping[str, Any]) -> None:
    """Reject a value without a type: it looks like a field, but is none."""
    for attribute, value in namespace.items():
        if attribute.startswith("_") or attribute in declared or not isinstance(value, _VALUES):
            continue
        raise ModelError(
            f"{where}.{attribute}: a field needs a type, as in "
            f"`{attribute}: int = 1`; for a constant write `{attribute}: ClassVar[int] = 1`"
        )


def _check_markers(markers: Sequence[Marker], where: str, fields: Sequence[str]) -> None:
    for marker in markers:
        if missing := [each for each in marker.fields if each not in fields]:
            listed = ", ".join(f'"{each}"' for each in missing)
            raise ModelError(
                f"{where}: {marker.name} names {listed}, which is not a field{did_you_mean(missing[0], fields)}"
            )


def _always_sent(default: Any, where: str) -> Any:
    """Wrap `default` so that msgspec, which omits values equal to a plain default, sends it."""
    name = factory = None
    if isinstance(default, _FIELD):
        name, factory, default = default.name, default.default_factory, default.default
    if factory is not None and factory is not msgspec.NODEFAULT:
        # list[str] creates the same lists as list, which msgspec knows to be empty
        return msgspec.field(default_factory=typing.get_origin(factory) or factory, name=name)
    if default is msgspec.NODEFAULT or default is None or default is msgspec.UNSET or default == [] or default == {}:
        return msgspec.field(default=default, name=name)
    if isinstance(default, Struct):
        made = type(default).__name__
        raise ModelError(f"{where}: all objects would share one {made}; use field(default_factory={made})")
    if is_array(default) or is_object(default):
        return msgspec.field(default_factory=lambda: copy.deepcopy(default), name=name)
    return msgspec.field(default_factory=lambda: default, name=name)


class Model(Struct, metaclass=ModelType):
    """A structure of a user's API. The class argument `markers=[...]` holds markers of the structure as a whole."""
