"""Tables: objects as rows of cells, computed in the server so that all clients show them alike.

Follows apiserver's pkg/registry/rest/table.go and kubectl's server-side printing (KEP-515).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec

from kubewright._runtime.clock import Clock
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.catalog.facts import Column
from kubewright_controlplane.apiserver.printers.cells import age_of, name, name_and_creation
from kubewright_controlplane.apiserver.registry.model import Printer
from kubewright_controlplane.apiserver.registry.objects import decode_json, encode_json

_NAME_TEXT = (
    "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a "
    "client to request the generation of an appropriate name automatically. Name is primarily intended for creation "
    "idempotence and configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
)
_AGE_TEXT = (
    "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed "
    "to be set in happens-before order across separate operations. Clients may not set this value. It is represented "
    "in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)
NAME_COLUMN = Column("Name", "string", "name", _NAME_TEXT, 0)
CREATED_COLUMN = Column("Created At", "date", "", _AGE_TEXT, 0)


DEFAULT_PRINTER = Printer((NAME_COLUMN, CREATED_COLUMN), name_and_creation)
"""For kinds without a printer: name and creation time."""


def _scale_cells(scale: JSONObject, now: datetime) -> list[object]:
    spec, status = scale["spec"], scale["status"]
    return [name(scale), spec.get("replicas") or 0, status["replicas"], age_of(scale, now)]


SCALE_PRINTER = Printer(
    (
        replace(NAME_COLUMN, format=""),
        Column("Desired", "integer", "", "replicas is the desired number of instances for the scaled object.", 0),
        Column(
            "Available", "integer", "", "replicas is the actual number of observed instances of the scaled object.", 0
        ),
        Column("Age", "string", "", _AGE_TEXT, 0),
    ),
    _scale_cells,
)


class TableForm:
    """Objects as a Table. `include` is the query's includeObject: `Metadata` (or empty), `Object` or `None`."""

    kind = "Table"

    def __init__(self, printer: Printer | None, version: str, include: str, clock: Clock) -> None:
        self.api_version = f"meta.k8s.io/{version}"
        self.key: Hashable = ("Table", version, include)
        self._printer = printer or DEFAULT_PRINTER
        self._include = include
        self._clock = clock

    def one(self, data: bytes) -> bytes:
        obj = decode_json(data)
        version = obj["metadata"].get("resourceVersion")  # the object of a dry run has none
        return self._table({"resourceVersion": version} if version else {}, [self._row(obj)], self._columns())

    def listing(self, metadata: JSONObject, items: Iterable[bytes]) -> bytes:
        rows = [msgspec.Raw(encode_json(self._row(decode_json(data)))) for data in items]
        return self._table(metadata, rows, self._columns())

    def watched(self, data: bytes, *, first: bool) -> bytes:
        """Return the Table of a watch event. Only the first event of a watch has the columns."""
        obj = decode_json(data)
        metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        return self._table(metadata, [self._row(obj)], self._columns() if first else None)

    def bookmark(self, metadata: JSONObject) -> bytes:
        """Return a row of an empty object with the bookmark's annotations, as a real API server does."""
        nothing: JSONObject = {"metadata": {"name": ""}}
        row = {
            "cells": self._printer.cells(nothing, self._clock.now()),
            "object": self._included({"metadata": metadata}),
        }
        return self._table({"resourceVersion": metadata["resourceVersion"]}, [row], None)

    def _table(self, metadata: JSONObject, rows: list[Any], columns: Any) -> bytes:
        head = {"kind": self.kind, "apiVersion": self.api_version, "metadata": metadata}
        return encode_json({**head, "columnDefinitions": columns, "rows": rows})

    def _columns(self) -> list[JSONObject]:
        return [
            {
                "name": each.name,
                "type": each.type,
                "format": each.format,
                "description": each.description,
                "priority": each.priority,
            }
            for each in self._printer.columns
        ]

    def _row(self, obj: JSONObject) -> JSONObject:
        return {"cells": self._printer.cells(obj, self._clock.now()), "object": self._included(obj)}

    def _included(self, obj: JSONObject) -> JSONObject | None:
        if self._include == "None":
            return None
        if self._include == "Object":
            return obj
        return {"kind": "PartialObjectMetadata", "apiVersion": self.api_version, "metadata": obj["metadata"]}
