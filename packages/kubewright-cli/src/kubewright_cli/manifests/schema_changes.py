"""What breaks users when the schema of a version changes: fields that go, types that change, limits that tighten.

Compares structural schemas, so each field has one schema. What is compatible is not reported: new optional fields,
looser limits, other descriptions, a default for a field that had none.

Not guaranteed: rules (`x-kubernetes-validations`) and patterns are compared as text, so a rewritten one is
reported even if it accepts the same values.

Source: https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api_changes.md
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from kubewright.machinery.json import JSONObject, is_array, is_object

PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"

_OTHER_VERSION: Final = "keep it here, and make the change in a new version with a Conversion"
_REFUSED: Final = "objects that users have in files are refused"
_RATCHETED: Final = (
    "new objects are refused; stored ones can be updated only while the value stays as it is (ratcheting)"
)
_LOOSE: Final = "keep the limit here, and tighten it in a new version; or report such values in the status"
_SHOWN: Final = 80
"""Characters of a value in a message."""


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A change of a schema that breaks users."""

    path: str
    """The field, such as `spec.ports[].name`; empty for the object itself."""
    change: str
    """What changed, from what to what."""
    reason: str
    """Why it breaks users."""
    remedy: str
    """How to make the change without breaking them."""


def schema_changes(released: JSONObject, current: JSONObject, path: str = "") -> Iterator[SchemaChange]:
    """Yield the changes from the `released` to the `current` schema that break users, by field."""
    types = _type(released), _type(current)
    if types[0] != types[1]:
        yield SchemaChange(
            path,
            f"type changed from {types[0]} to {types[1]}",
            "stored objects and users' files have values of the old type, and clients cannot decode the new one",
            f"add a field with another name; or {_OTHER_VERSION}",
        )
        return
    for rule in _RULES:
        yield from rule(released, current, path)
    yield from _fields(released, current, path)
    for key, step in (("items", "[]"), ("additionalProperties", "[*]")):
        old, new = released.get(key), current.get(key)
        if is_object(old) and is_object(new):
            yield from schema_changes(old, new, f"{path}{step}")


def _type(schema: JSONObject) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "int-or-string"
    return str(schema.get("type") or "any")


def _fields(released: JSONObject, current: JSONObject, path: str) -> Iterator[SchemaChange]:
    """Yield the changes of the properties of an object."""
    kept: JSONObject = current.get("properties") or {}
    values = current.get("additionalProperties")
    for name, schema in (released.get("properties") or {}).items():
        below = f"{path}.{name}" if path else name
        if name in kept:
            yield from schema_changes(schema, kept[name], below)
        elif is_object(values):
            yield from schema_changes(schema, values, below)
        elif not values and not current.get(PRESERVE):
            yield SchemaChange(
                below,
                "field removed",
                "the API server drops its value from stored objects and from users' files",
                "keep the field and say in its description that it is deprecated, or remove it in a new version with a "
                "Conversion",
            )
    yield from _required(released, current, path)


def _required(released: JSONObject, current: JSONObject, path: str) -> Iterator[SchemaChange]:
    before, now = _needed(released), _needed(current)
    for name in sorted(now - before):
        yield SchemaChange(
            f"{path}.{name}" if path else name,
            "field is required now",
            "new objects without the field are refused, and updates of stored ones that change something next to it",
            "make it optional, or give it a default",
        )


def _needed(schema: JSONObject) -> set[str]:
    """Return the required fields that the API server does not fill in."""
    properties: JSONObject = schema.get("properties") or {}
    return {name for name in schema.get("required") or () if "default" not in properties.get(name, {})}


def _limits(released: JSONObject, current: JSONObject, path: str) -> Iterator[SchemaChange]:
    for key, sign in _BOUNDS.items():
        old, new = released.get(key), current.get(key)
        if new is not None and (old is None or (new - old) * sign > 0):
            yield _tightened(path, key, old, new)
    for end in ("minimum", "maximum"):
        exclusive = f"exclusive{end.title()}"
        if current.get(exclusive) and not released.get(exclusive) and released.get(end) == current.get(end):
            yield _tightened(path, exclusive, False, True)
    old, new = released.get("multipleOf"), current.get("multipleOf")
    if new is not None and (old is None or Decimal(str(old)) % Decimal(str(new)) != 0):
        yield _tightened(path, "multipleOf", old, new)
    for key in ("uniqueItems", "x-kubernetes-embedded-resource"):
        if current.get(key) and not released.get(key):
            yield _tightened(path, key, False, True)


_BOUNDS: Final = {
    "minimum": 1,
    "maximum": -1,
    "minLength": 1,
    "maxLength": -1,
    "minItems": 1,
    "maxItems": -1,
    "minProperties": 1,
    "maxProperties": -1,
}
"""Limits, and the direction in which they tighten."""


def _formats(released: JSONObject, current: JSONObject, path: str) -> Iterator[SchemaChange]:
    """Yield changes of what is compared as a whole: a pattern, a format, and combinations of schemas."""
    for key in ("pattern", "format", "allOf", "anyOf", "oneOf", "not"):
        old, new = released.get(key), current.get(key)
        if new is not None and new != old and (old, new) != ("int32", "int64"):
            yield _tightened(path, key, old, new)


def _tightened(path: str, key: str, old: object, new: object) -> SchemaChange:
    change = f"{key} {_shown(new)} added" if old is None else f"{key} changed from {_shown(old)} to {_shown(new)}"
    return SchemaChange(path, change, _RATCHETED, _LOOSE)


def _enum(released: JSONObject, current: JSONObject, path: str) -> Iterator[SchemaChange]:
    old, new = released.get("enum"), current.get("enum")
    if new is None:
        return
    if old is None:
        yield SchemaChange(path, f"enum {_shown(new)} added, any value was valid", _RATCHETED, _LOOSE)
    elif gone := [each for each in old if each not in new]:
        yield SchemaChange(
            path,
            f"enum values removed: {', '.join(map(_shown, gone))}",
            _RATCHETED,
            "keep the values and say that they are deprecated, or remove them in a new version with a Conversion",
        )


def _default(released: JSONObject, current: JSONObject, path: str) -> Iterator[SchemaChange]:
    if "default" not in released or released["default"] == current.get("default", _ABSENT):
        return
    old = _shown(released["default"])
    is_kept = "default" in current
    yield SchemaChange(
        path,
        f"default changed from {old} to {_shown(current['default'])}" if is_kept else f"default {old} removed",
        "objects that do not set the field get another meaning, or lose the value",
        f"keep the default, or {_OTHER_VERSION.removeprefix('keep it here, and ')}",
    )


_ABSENT: Final = object()


def _nullable(released: JSONObject, current: JSONObject, path: str) -> Iterator[SchemaChange]:
    if released.get("nullable") and not current.get("nullable"):
        yield SchemaChange(path, "nullable removed", f"{_REFUSED} if they have null here", _OTHER_VERSION)


def _unknown_fields(released: JSONObject, current: JSONObject, path: str) -> Iterator[SchemaChange]:
    if current.get(PRESERVE):
        return
    values = current.get("additionalProperties")
    if released.get(PRESERVE) and values is not True:
        change = f"{PRESERVE} removed"
    elif released.get("additionalProperties") and not values:
        change = "additionalProperties removed"
    elif released.get("additionalProperties") is True and is_object(values):
        change = "additionalProperties changed from any value to a schema"
    else:
        return
    yield SchemaChange(
        path, change, "the API server drops or refuses fields that it kept", f"keep it, or {_OTHER_VERSION}"
    )


_TOPOLOGY: Final = {
    "x-kubernetes-list-type": "atomic",
    "x-kubernetes-list-map-keys": None,
    "x-kubernetes-map-type": "granular",
}
"""How server-side apply merges a list or a map, and the API server's defaults."""


def _topology(released: JSONObject, current: JSONObject, path: str) -> Iterator[SchemaChange]:
    for key, default in _TOPOLOGY.items():
        old, new = released.get(key, default), current.get(key, default)
        if _in_order(old) != _in_order(new):
            yield SchemaChange(
                path,
                f"{key} changed from {_shown(old)} to {_shown(new)}",
                "server-side apply merges the value in another way, and lists with equal elements or keys are refused",
                f"keep it, or {_OTHER_VERSION.removeprefix('keep it here, and ')}",
            )


def _in_order(value: object) -> object:
    """Return the keys of a list in order, because their order has no meaning."""
    return sorted(map(str, value)) if is_array(value) else value


def _rules(released: JSONObject, current: JSONObject, path: str) -> Iterator[SchemaChange]:
    before = {each["rule"] for each in released.get("x-kubernetes-validations") or ()}
    for each in current.get("x-kubernetes-validations") or ():
        rule = str(each["rule"])
        if rule not in before:
            ratcheted = "oldSelf" not in rule
            yield SchemaChange(
                path,
                f"rule {_shown(rule)} added",
                _RATCHETED if ratcheted else "updates that were accepted are refused (no ratcheting with oldSelf)",
                "let the rule accept all objects that do not use what is new, and check the others in the operator, "
                "which reports them in the status",
            )


_Rule = Callable[[JSONObject, JSONObject, str], Iterator[SchemaChange]]
_RULES: Final[tuple[_Rule, ...]] = (
    _limits,
    _formats,
    _enum,
    _default,
    _nullable,
    _unknown_fields,
    _topology,
    _rules,
)


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
