"""A schema as a field of a class: annotation, markers, default.

An optional field is None, an empty list or an empty map by default; if it is also nullable, it is UNSET. A scalar
default becomes the default of the field. Other defaults are left to the API server.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeAlias

from kubewright.machinery.errors import ModelError
from kubewright.machinery.json import JSONObject, is_object
from kubewright.markers import INT_OR_STRING, QUANTITY
from kubewright_cli.codegen.layout import (
    Code,
    Group,
    Union,
    call,
    declaration,
    flat,
    literal,
    quoted,
    subscript,
    union,
)
from kubewright_cli.codegen.markers import markers_of
from kubewright_cli.codegen.names import on_the_wire

Classes: TypeAlias = Callable[[JSONObject], str]
"""Returns the name of the class for the schema of an object with fields."""

_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_INTEGERS: Final = {"int32": "Int32", "int64": "Int64"}
_STRINGS: Final = {"byte": "bytes", "date-time": "Time"}


def field_lines(name: str, wire: str, schema: JSONObject, *, required: bool, classes: Classes) -> list[str]:
    """Return the declaration of a field, without its docstring."""
    rest = dict(schema)
    has_default = "default" in rest
    default = rest.pop("default", None)
    nullable = bool(rest.pop("nullable", False))
    base, all_markers = type_of(rest, wire, classes)
    markers = [each for each in all_markers if not flat(each).startswith("Description(")]  # a docstring takes its place
    value, admits = _absent(base, nullable=nullable)
    if has_default and _is_own(default, base):
        value = literal(default)
        admits = ("UnsetType", "None") if nullable and not required else ("None",) if nullable else ()
    elif has_default:
        markers.append(call("Default", literal(default)))
    elif required:
        value, admits = "", ("None",) if nullable else ()
    if required and value:
        markers.append(call("Required"))
    if on_the_wire(name) != wire:
        value = _named(value, wire)
    return declaration(name, annotated(union(base, *admits), markers), value)


def annotated(base: Code, markers: list[Code]) -> Code:
    return subscript("Annotated", base, *markers) if markers else base


def type_of(schema: JSONObject, where: str, classes: Classes) -> tuple[Code, list[Code]]:
    """Return the type of a value, and its markers. Raises ModelError for a schema without a type."""
    rest = dict(schema)
    kind = rest.pop("type", "")
    if rest.pop("x-kubernetes-int-or-string", False):
        return _int_or_string(rest), markers_of(rest | ({"type": kind} if kind else {}), "")
    if kind == "object":
        return _object(rest, where, classes)
    if kind == "array":
        items = subscript("list", _inside(rest.pop("items", {}), f"{where}[]", classes))
        return items, markers_of(rest, kind)
    if kind == "string":
        return _choice(rest, str) or _STRINGS.get(_taken(rest, "format", _STRINGS), "str"), markers_of(rest, kind)
    if kind == "integer":
        return _choice(rest, int) or _INTEGERS.get(_taken(rest, "format", _INTEGERS), "int"), markers_of(rest, kind)
    if kind == "number":
        return "float", [call("Type", quoted("number")), *markers_of(rest, kind)]
    if kind == "boolean":
        return "bool", markers_of(rest, kind)
    if rest.pop(_PRESERVE, False):
        return "JSON", markers_of(rest, "")
    raise ModelError(f"{where}: the schema has no type, so it is not structural; use a CRD that an API server accepts")


def _inside(schema: JSONObject, where: str, classes: Classes) -> Code:
    """Return the type of items or of map values, which can have neither a docstring nor a field default."""
    rest = dict(schema)
    nullable = rest.pop("nullable", False)
    default = [call("Default", literal(rest.pop("default")))] if "default" in rest else []
    base, markers = type_of(rest, where, classes)
    return annotated(union(base, "None") if nullable else base, [*markers, *default])


def _object(rest: JSONObject, where: str, classes: Classes) -> tuple[Code, list[Code]]:
    values = rest.get("additionalProperties")
    if is_object(values):
        del rest["additionalProperties"]
        return subscript("dict", "str", _inside(values, f"{where}[]", classes)), markers_of(rest, "object")
    open_to_all = bool(rest.get(_PRESERVE) or values)
    if rest.get("properties") or not open_to_all:
        return classes({"type": "object", **rest}), []
    for key in (_PRESERVE, "additionalProperties", "properties"):
        rest.pop(key, None)
    if rest.pop(_EMBEDDED, False):
        return subscript("dict", "str", "Any"), [call("EmbeddedResource"), *markers_of(rest, "object")]
    return "RawExtension", markers_of(rest, "object")


def _int_or_string(rest: JSONObject) -> str:
    if rest.get("anyOf") == INT_OR_STRING.keywords["anyOf"]:
        del rest["anyOf"]
    if rest.get("pattern") == QUANTITY.keywords["pattern"]:
        del rest["pattern"]
        return "Quantity"
    return "IntOrString"


def _choice(rest: JSONObject, kind: type) -> Code | None:
    values: list[Any] = rest.get("enum") or []
    if not values or not all(type(each) is kind for each in values):
        return None
    del rest["enum"]
    return subscript("Literal", *(literal(each) for each in values))


def _taken(rest: JSONObject, key: str, known: dict[str, str]) -> str:
    """Return the value at `key`; removes it from `rest` if it is known."""
    value = rest.get(key, "")
    if value in known:
        del rest[key]
    return str(value)


def _is_own(default: Any, base: Code) -> bool:
    """Return whether a default can be the default of the Python field."""
    text = flat(base)
    if text.startswith("Literal["):
        return True
    kinds = {"str": (str,), "Quantity": (str,), "int": (int,), "Int32": (int,), "Int64": (int,), "bool": (bool,)}
    return type(default) in (*kinds.get(text, ()), *((int, str) if text == "IntOrString" else ()))


def _absent(base: Code, *, nullable: bool) -> tuple[Code, tuple[str, ...]]:
    """Return the default of an optional field, and the types to add for it."""
    if nullable:
        return "UNSET", ("UnsetType", "None")
    if isinstance(base, Group) and base.head in ("list[", "dict[") and base.parts[-1] != ("", "Any"):
        return call("field", default_factory=_bare(base)), ()
    return "None", ("None",)


def _bare(code: Code) -> Code:
    """Return a type without its markers."""
    if isinstance(code, str):
        return code
    if isinstance(code, Union):
        return replace(code, parts=tuple(_bare(each) for each in code.parts))
    if code.head == "Annotated[":
        return _bare(code.parts[0][1])
    return replace(code, parts=tuple((before, _bare(each)) for before, each in code.parts))


def _named(value: Code, wire: str) -> Code:
    """Return a default with the field's name on the wire."""
    if isinstance(value, Group) and value.head == "field(":
        return replace(value, parts=(*value.parts, ("name=", quoted(wire))))
    return call("field", default=value or None, name=quoted(wire))
