"""What server-side apply requires of a configuration before it merges it: declared fields, with the declared types.

The messages are those of sigs.k8s.io/structured-merge-diff/typed. That library stops at the first undeclared field of
an object, in an arbitrary order; here all of them are reported.
"""

from __future__ import annotations

import json
from typing import Any, Final

from kubewright.machinery.json import JSONArray, JSONObject, is_array, is_object, quoted
from kubewright_controlplane.schema.node import NO_DEFAULT, Node, fallback

_UNTYPED: Final = frozenset({"any", "int-or-string", "quantity"})
_OF_AN_OBJECT: Final = frozenset({"apiVersion", "kind", "metadata"})
_NOTHING: Final[list[str]] = []


def undeclared(config: JSONObject, root: Node) -> list[str]:
    """Return each error with its path: `.spec.replicas: expected numeric (int or float), got string`."""
    return _errors(config, root)


def _errors(value: Any, node: Node) -> list[str]:
    if value is None or node.special in _UNTYPED:
        return _NOTHING
    match node.type:
        case "object":
            return _of_fields(value, node) if value.__class__ is dict else [f": expected map, got {_value_text(value)}"]
        case "array":
            return _of_items(value, node) if value.__class__ is list else [f": expected list, got {_value_text(value)}"]
        case "string" if value.__class__ is not str:
            return [f": expected string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"]
        case "boolean" if value.__class__ is not bool:
            return [f": expected boolean, got {_value_text(value)}"]
        case "integer" | "number" if value.__class__ is not int and value.__class__ is not float:
            return [f": expected numeric (int or float), got {_kind(value)}"]
        case _:
            return _NOTHING


def _of_fields(value: JSONObject, node: Node) -> list[str]:
    found = _NOTHING
    for key, item in value.items():
        child = node.child(key)
        if child is not None:
            if errors := _errors(item, child):
                found = found + [f".{key}{error}" for error in errors]
        elif not (node.preserve or (node.embedded and key in _OF_AN_OBJECT)):
            found = [*found, f".{key}: field not declared in schema"]
    return found


def _of_items(value: JSONArray, node: Node) -> list[str]:
    items, found, seen = node.items, _NOTHING, set[str]()
    if items is None or node.preserve:
        return found
    for index, item in enumerate(value):
        if node.list_type == "map" and not is_object(item):
            return [*found, f": element {index}: associative list with keys may not have non-map elements"]
        if node.list_type != "atomic":
            name = _name(index, item, node)
            if name in seen:
                found = [*found, f": duplicate entries for key [{name}]"]
                continue
            seen.add(name)
        if errors := _errors(item, items):
            place = f"[{_name(index, item, node)}]"
            found = found + [place + error for error in errors]
    return found


def _name(index: int, item: Any, node: Node) -> str:
    """Return how a path names the item: by its keys, its value or its index."""
    if node.list_type == "set":
        return f"={json.dumps(item)}"
    if node.list_type != "map" or node.items is None:
        return str(index)
    keys = {key: item.get(key, _fallback(node.items, key)) for key in sorted(node.list_keys)}
    return ",".join(f"{key}={json.dumps(value)}" for key, value in keys.items())


def _fallback(node: Node, key: str) -> Any:
    child = node.properties.get(key)
    value = fallback(child) if child is not None else NO_DEFAULT
    return "" if value is NO_DEFAULT else value


def _value_text(value: Any) -> str:
    return f"&{{{_go(value)}}}"


def _go(value: Any) -> str:
    """Return a value as Go's `%v` prints it."""
    if is_object(value):
        return f"map[{' '.join([f'{key}:{_go(item)}' for key, item in sorted(value.items())])}]"
    if is_array(value):
        return f"[{' '.join([_go(item) for item in value])}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _go_syntax(value: Any) -> str:
    """Return a value as Go's `%#v` prints it."""
    if is_object(value):
        items = ", ".join(f"{quoted(key)}:{_go_syntax(item)}" for key, item in sorted(value.items()))
        return f"map[string]interface {{}}{{{items}}}"
    if is_array(value):
        return f"[]interface {{}}{{{', '.join(map(_go_syntax, value))}}}"
    if value is None:
        return "interface {}(nil)"
    return quoted(value) if isinstance(value, str) else _go(value)


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case dict():
            return "map"
        case _:
            return "list"
