"""Lists that are sets or maps hold nothing twice.

Follows k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from kubewright.machinery.fields import FieldError, duplicate, invalid
from kubewright.machinery.json import JSONArray, JSONObject, compact, is_array, is_object
from kubewright_controlplane.schema.descent import Check, compile_descent
from kubewright_controlplane.schema.node import Node
from kubewright_controlplane.schema.path import Path, bracketed


def compile_check(root: Node) -> Callable[[JSONObject], list[FieldError]] | None:
    """What finds the duplicates in a document; None when the schema has no list that is a set or a map."""
    check = _compiled(root)
    if check is None:
        return None

    def duplicates(obj: JSONObject) -> list[FieldError]:
        faults: list[FieldError] = []
        check(obj, None, faults)
        return faults

    return duplicates


def repeated(values: JSONArray) -> list[int]:
    """Where a value comes for the second time; a third one is not told again."""
    seen: dict[Hashable, int] = {}
    found: list[int] = []
    for index, value in enumerate(values):
        key = (value.__class__, compact(value) if is_object(value) or is_array(value) else value)
        times = seen.get(key, 0)
        if times == 1:
            found.append(index)
        seen[key] = times + 1
    return found


def _compiled(node: Node) -> Check | None:
    return compile_descent(node, _compiled, _list_check(node))


def _list_check(node: Node) -> Check | None:
    if node.builtin or node.items is None or node.list_type == "atomic":
        return None
    find = _same_items if node.list_type == "set" else _same_keys

    def check(value: Any, path: Path, faults: list[FieldError]) -> None:
        if is_array(value):
            find(value, node.list_keys, path, faults)

    return check


def _same_items(value: JSONArray, keys: tuple[str, ...], path: Path, faults: list[FieldError]) -> None:
    faults.extend(duplicate(bracketed((path, index)), value[index]) for index in repeated(value))


def _same_keys(value: JSONArray, keys: tuple[str, ...], path: Path, faults: list[FieldError]) -> None:
    for index, item in enumerate(value):
        if item is not None and not is_object(item):
            text = "must be an object for an array of list-type map"
            faults.append(invalid(bracketed((path, index)), item, text))
            return
    chosen = [{key: item[key] for key in keys if key in item} if item else {} for item in value]
    faults.extend(duplicate(bracketed((path, index)), chosen[index]) for index in repeated(chosen))
