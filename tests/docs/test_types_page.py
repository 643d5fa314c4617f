"""The table of defaults in docs/types.md, row by row, on an API server."""

from __future__ import annotations

import re
from typing import Annotated, Any, NamedTuple

import pytest

import kubewright
from docs.snippets import ROOT
from kubewright import CustomResource, Invalid, Model, ObjectMeta, field
from kubewright import markers as m
from kubewright.client import RESTMapper
from kubewright.models import UNSET, UnsetType, codec
from kubewright.testing import Cluster


class Backup(Model):
    keep: int = 7


class Row(NamedTuple):
    declaration: str
    absent: str
    null: str
    unset: str


NAMES: dict[str, Any] = {
    **{each: getattr(kubewright, each) for each in kubewright.__all__},
    "m": m,
    "field": field,
    "UNSET": UNSET,
    "UnsetType": UnsetType,
    "Backup": Backup,
    "Any": Any,
    "Annotated": Annotated,
    "__name__": __name__,
}

READ_AS: dict[str, Any] = {
    "the API server fills in 3": 3,
    "is `None`": None,
    "is `None`, and kept as null": None,
    "is `UNSET`": UNSET,
    "the API server fills in `Backup` with its defaults": Backup(),
}
REFUSED = "refused"
NOTHING = ("nothing", "nothing, so your applies do not own the field")


def rows() -> list[Row]:
    section = (ROOT / "docs/types.md").read_text().split("\n## Required, optional, nullable, default\n")[1]
    lines = [line for line in section.split("\n## ")[0].splitlines() if line.startswith("| `")]
    found: list[Row] = []
    for line in lines:
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
        declarations = re.findall("`([^`]+)`", cells[0])
        absent, null, unset = cells[1], cells[1] if cells[2] == "the same" else cells[2], cells[3]
        found += [Row(each, absent, null, unset) for each in declarations]
    return found


def kind_of(row: Row, number: int) -> type[CustomResource]:
    names = dict(NAMES)
    exec(
        f"class Spec(Model):\n    {row.declaration}\n"
        f"class Row{number}(CustomResource, group='rows.example.com', version='v1'):\n    spec: Spec",
        names,
    )
    made: type[CustomResource] = names[f"Row{number}"]
    return made


@pytest.mark.parametrize(("number", "row"), list(enumerate(rows())), ids=[row.declaration for row in rows()])
async def test_a_field_behaves_as_its_row_states(number: int, row: Row, cluster: Cluster, namespace: str) -> None:
    kind = kind_of(row, number)
    await cluster.install(kind)
    spec_class = kind.__annotations__["spec"]
    raw = await RESTMapper(cluster.client).kind(kind.__api__.api_version, kind.__api__.kind)
    for name, spec, said in (("absent", {}, row.absent), ("null", {"x": None}, row.null)):
        made = raw(metadata=ObjectMeta(name=name, namespace=namespace), content={"spec": spec})
        if said == REFUSED:
            with pytest.raises(Invalid):
                await cluster.client.create(made)
            continue
        stored = await cluster.client.create(made)
        assert ("x" in stored["spec"] and stored["spec"]["x"] is None) == ("kept as null" in said)
        read: Any = await cluster.client.get(kind, name, namespace=namespace)
        assert read.spec.x == (type(read.spec.x)() if said == "is empty" else READ_AS[said])
    if "you have to" in row.unset:
        with pytest.raises(TypeError, match="Missing required argument 'x'"):
            spec_class()
        return
    written = codec.to_dict(kind(spec=spec_class()))["spec"]
    expected = {} if row.unset in NOTHING else {"x": {"keep": 7} if row.unset == "all of it" else int(row.unset)}
    assert written == expected
