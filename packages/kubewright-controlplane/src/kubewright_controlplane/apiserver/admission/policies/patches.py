"""The changes that the expressions of mutating policies describe: apply configurations and JSON patches.

Follows k8s.io/apiserver pkg/admission/plugin/policy/mutating/patch and pkg/cel/mutation.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from kubewright.cel.library.standard import to_string
from kubewright.cel.types import OBJECT
from kubewright.cel.values import Optional, StructValue
from kubewright.machinery import time
from kubewright.machinery.errors import APIError, BadRequest
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONArray, JSONObject, is_array, is_object
from kubewright.machinery.patch import PatchTestFailed, json_patch
from kubewright_controlplane.apiserver.admission.policies.policy import PolicyError
from kubewright_controlplane.apiserver.registry.failures import full_name, kind_text
from kubewright_controlplane.schema.node import Node
from kubewright_controlplane.schema.ownership.declared import undeclared
from kubewright_controlplane.schema.ownership.typed import is_granular, merged


def applied(obj: JSONObject, value: StructValue, kind: GroupVersionKind, root: Node) -> JSONObject:
    """Return `obj` with the fields of an apply configuration, merged as server-side apply merges.

    `root` is the schema of the kind. Raises PolicyError if the configuration does not fit the schema, or has an atomic
    list or map, of which it would replace all items.
    """
    _check_type_names(value)
    config: JSONObject = {**_fields(value), "apiVersion": kind.api_version, "kind": kind.kind}
    errors = undeclared(config, root)
    if errors:
        why = errors[0] if len(errors) == 1 else "\n  ".join(("errors:", *errors))
        text = f"failed to convert patch object to typed object: {_named(config, kind)}: {why}"
        raise PolicyError(f"error applying patch: {text}")
    if atomics := list(_atomics(config, root, "")):
        text = f"may not mutate atomic arrays, maps or structs: {', '.join(atomics)}"
        raise PolicyError(f"error applying patch: invalid ApplyConfiguration: {text}")
    try:
        return merged(obj, config, root)
    except BadRequest as error:
        raise PolicyError(f"error applying patch: failed to merge patch: {error}") from error


def patched(obj: JSONObject, operations: list[StructValue]) -> JSONObject:
    """Return `obj` after a JSON patch, or unchanged if a `test` of the patch fails.

    Raises PolicyError if an operation does not apply.
    """
    documents = [_operation(each) for each in operations]
    try:
        return json_patch(obj, documents)
    except PatchTestFailed:
        return obj
    except APIError as error:
        raise PolicyError(f"JSON Patch: {error.__cause__ or error}") from error


def _operation(value: StructValue) -> JSONObject:
    changed = value.get("value")
    if isinstance(changed, StructValue):
        _check_type_names(changed)
    out: JSONObject = {"op": value.get("op", ""), "path": value.get("path", "")}
    if value.get("from"):
        out["from"] = value["from"]
    if "value" in value:
        out["value"] = _as_json(changed)
    return out


def _named(config: JSONObject, kind: GroupVersionKind) -> str:
    return f"failed to create typed patch object ({full_name(config)}; {kind_text(kind)})"


def _check_type_names(value: StructValue) -> None:
    """Raise PolicyError unless the type of each part is named after its path, as `Object.spec` in `spec`."""
    start = value.type if value.type.startswith(OBJECT.name) else OBJECT.name
    errors = list(_misnamed(value, start))
    if errors:
        raise PolicyError("type mismatch: " + "\n".join(errors))


def _misnamed(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, StructValue):
        if value.type != path:
            expected = f'expected "{path}", which matches field name path from root Object type'
            yield f'unexpected type name "{value.type}", {expected}'
        for key, item in value.items():
            yield from _misnamed(item, f"{path}.{key}")
    elif is_object(value):
        for item in value.values():
            yield from _misnamed(item, path)
    elif is_array(value):
        for item in value:
            yield from _misnamed(item, path)


def _atomics(value: Any, node: Node | None, path: str) -> Iterator[str]:
    """Yield the path of each list and object that is one value to server-side apply."""
    if node is None or node.special == "any":
        return
    if is_object(value):
        if not is_granular(value, node):
            yield path
        for key, item in value.items():
            if key in node.properties:
                yield from _atomics(item, node.properties[key], f"{path}.{key}")
    elif is_array(value):
        if node.list_type == "atomic":
            yield path
        for index, item in enumerate(value):
            yield from _atomics(item, node.items, f"{path}[{index}]")


def _fields(value: StructValue) -> JSONObject:
    return {key: _as_json(item) for key, item in value.items()}


def _as_json(value: Any) -> Any:
    """Return the value of an expression as a part of a document. Raises PolicyError if it has no JSON form."""
    match value:
        case bool() | str() | float() | None:
            return value
        case int():
            return int(value)
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            return time.format(value) if not value.microsecond else time.format_micro(value)
        case timedelta():
            return to_string(value)
        case Optional():
            raise PolicyError("an optional value has no JSON form; use ?field or orValue()")
        case _ if is_array(value):
            items: JSONArray = [_as_json(item) for item in value]
            return items
        case _ if isinstance(value, dict):
            if not all(isinstance(key, str) for key in value):
                raise PolicyError("the keys of a map must be strings in JSON")
            return {key: _as_json(item) for key, item in value.items()}
        case _:
            raise PolicyError(f"a value of type {type(value).__name__} has no JSON form")
