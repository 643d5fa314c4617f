"""The defaults in the catalog's schemas, compared with those of a real API server.

`tests/golden/created.json` has each object as sent and as created, and the fields that the server sets conditionally.
No default can express the latter; the strategies of the kinds set them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubewright.machinery.gvk import GroupVersionKind
from kubewright_controlplane.apiserver import catalog
from kubewright_controlplane.schema.structural.schema import Schema

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "created.json").read_text())
CONDITIONAL = {place.rpartition(".")[2] for place in GOLDEN["conditional"]}
ASSIGNED = {".metadata", ".status"}
EMBEDDED = {"apiVersion", "kind"}
"""Go omits it in a claim template; the test adds it."""


def name_of(case: dict[str, Any]) -> str:
    return f"{case['sent']['kind']}-{case['sent']['metadata']['name']}"


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Return the paths at which the two differ, except conditional fields and omitted empty values."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in ours.keys() | theirs.keys():
            where = f"{path}.{key}"
            if key not in ours and (key in CONDITIONAL | EMBEDDED or where in ASSIGNED or theirs[key] is None):
                continue
            if where == ".metadata" or (theirs.get(key) is None and ours[key] == []):
                continue
            yield from differences(ours.get(key, "absent"), theirs.get(key, "absent"), where)
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif ours != theirs:
        yield f"{path}: {ours!r} is {theirs!r} on a real server"


@pytest.mark.parametrize("case", GOLDEN["created"], ids=name_of)
def test_defaults_equal_those_of_a_real_server(case: dict[str, Any]) -> None:
    obj = case["sent"]
    kind = GroupVersionKind.parse(obj["apiVersion"], obj["kind"])
    schema = Schema.from_openapi(catalog.schema_ref(kind), catalog.components())
    assert schema.prune(obj) == []
    schema.default(obj)
    assert not list(differences(obj, case["made"]))
