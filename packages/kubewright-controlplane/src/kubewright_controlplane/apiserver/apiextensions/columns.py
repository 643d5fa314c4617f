"""Printer columns: how `kubectl get` shows custom resources.

Follows k8s.io/apiextensions-apiserver pkg/registry/customresource/tableconvertor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

import msgspec

from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.catalog.facts import Column
from kubewright_controlplane.apiserver.endpoints.table import CREATED_COLUMN, NAME_COLUMN
from kubewright_controlplane.apiserver.jsonpath import JSONPath
from kubewright_controlplane.apiserver.printers.ages import age
from kubewright_controlplane.apiserver.registry.model import Printer

_AGE: Final[JSONObject] = {
    "name": "Age",
    "type": "date",
    "jsonPath": ".metadata.creationTimestamp",
    "description": CREATED_COLUMN.description,
}


def printer(columns: Sequence[JSONObject] | None) -> Printer:
    """Return the printer for a version's `additionalPrinterColumns`; without any, it shows the age."""
    definitions = columns or [_AGE]
    cells = [_cell(each["type"], each["jsonPath"]) for each in definitions]

    def row(obj: JSONObject, now: datetime) -> list[object]:
        return [obj["metadata"]["name"], *(cell(obj, now) for cell in cells)]

    return Printer((NAME_COLUMN, *map(_column, definitions)), row)


def _column(definition: JSONObject) -> Column:
    description = f"Custom resource definition column (in JSONPath format): {definition['jsonPath']}"
    return Column(
        definition["name"],
        definition["type"],
        definition.get("format") or "",
        definition.get("description") or description,
        definition.get("priority") or 0,
    )


def _cell(kind: str, path_text: str) -> Callable[[JSONObject, datetime], object]:
    try:
        path = JSONPath(path_text)
    except ValueError:  # a definition may hold an invalid path; its column stays empty
        return lambda _obj, _now: None
    show = _SHOWN.get(kind, _string)

    def cell(obj: JSONObject, now: datetime) -> object:
        value = path.first(obj)
        return None if value is None else show(value, now)

    return cell


def _string(value: Any, _now: datetime) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def _number(kind: type, value: Any, _now: datetime) -> object:
    return kind(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _boolean(value: Any, _now: datetime) -> object:
    return value if isinstance(value, bool) else None


def _date(value: Any, now: datetime) -> object:
    if not isinstance(value, str):
        return None
    try:
        return age(value, now)
    except ValueError:
        return "<invalid>"


_SHOWN: Final[dict[str, Callable[[Any, datetime], object]]] = {
    "boolean": _boolean,
    "date": _date,
    "integer": partial(_number, int),
    "number": partial(_number, float),
    "string": _string,
}
