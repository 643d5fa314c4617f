"""The keywords of a schema as markers: the reverse of `kubewright.markers`."""

from __future__ import annotations

from typing import Any, Final

from kubewright.machinery.json import JSONObject
from kubewright_cli.codegen.layout import Code, call, literal, quoted

_MARKERS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "minimum": ("Minimum", ("integer", "number")),
    "maximum": ("Maximum", ("integer", "number")),
    "multipleOf": ("MultipleOf", ("integer", "number")),
    "minLength": ("MinLength", ("string",)),
    "maxLength": ("MaxLength", ("string",)),
    "pattern": ("Pattern", ("string",)),
    "format": ("Format", ("integer", "number", "string")),
    "minItems": ("MinItems", ("array",)),
    "maxItems": ("MaxItems", ("array",)),
    "minProperties": ("MinProperties", ("object",)),
    "maxProperties": ("MaxProperties", ("object",)),
    "x-kubernetes-list-type": ("ListType", ("array",)),
    "x-kubernetes-map-type": ("MapType", ("object",)),
    "example": ("Example", ()),
    "title": ("Title", ()),
}
"""Keyword, its marker, and the types that allow the marker; no types means all."""
_SEVERAL: Final = {"enum": "Enum", "x-kubernetes-list-map-keys": "ListMapKey"}
_EXCLUSIVE: Final = {"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}
_OFF: Final = ("exclusiveMinimum", "exclusiveMaximum", "uniqueItems", "nullable")
_RULE: Final = {
    "message": "message",
    "messageExpression": "message_expression",
    "reason": "reason",
    "fieldPath": "field_path",
    "optionalOldSelf": "optional_old_self",
}


def markers_of(keywords: JSONObject, kind: str) -> list[Code]:
    """Markers for `keywords` of a value of type `kind`. Keywords without a marker are joined in one `Keywords`."""
    rest = {key: value for key, value in keywords.items() if key not in _OFF or value}
    found: list[Code] = []
    for key, value in sorted(rest.items(), key=_place):
        name, types = _MARKERS.get(key, ("", ()))
        if name and (not types or kind in types):
            exclusive = rest.pop(_EXCLUSIVE.get(key, ""), None)
            found.append(call(name, literal(value), exclusive="True" if exclusive else None))
        elif key in _SEVERAL:
            found.append(call(_SEVERAL[key], *(literal(each) for each in value)))
        elif key == "x-kubernetes-validations":
            found += [_rule(each) for each in value]
        elif key == "x-kubernetes-preserve-unknown-fields" and value:
            found.append(call("PreserveUnknownFields"))
        elif key == "description":
            found.append(call("Description", quoted(value)))
        else:
            continue
        rest.pop(key)
    return [*found, call("Keywords", literal(rest))] if rest else found


def _place(keyword: tuple[str, object]) -> tuple[int, str]:
    """Keywords with a marker first, in the order of the table."""
    name, order = keyword[0], [*_MARKERS]
    return (order.index(name) if name in order else len(order)), name


def _rule(rule: JSONObject) -> Code:
    options: dict[str, Any] = {
        name: literal(rule[key]) for key, name in _RULE.items() if rule.get(key) is not None and rule[key] != ""
    }
    return call("XValidation", quoted(rule["rule"]), **options)
