"""The tables of docs/markers.md, row by row, for the tests of markers."""

from __future__ import annotations

import re
import typing
from pathlib import Path
from typing import Any, NamedTuple

import kubewright.models
from kubewright import markers
from kubewright.apis.meta import v1 as meta
from kubewright.machinery import yaml
from kubewright.models import CustomResource, Model, field

PAGE = Path(__file__).parents[1] / "docs" / "markers.md"


class Row(NamedTuple):
    """A row: the marker of controller-gen, Kubewright's code, and the result in the CRD as YAML, with a note."""

    marker: str
    code: str
    crd: str
    note: str

    @property
    def expected(self) -> Any:
        return yaml.load(self.crd)


class Part(Model):
    a: int = 2
    b: str | None = None


class Spec(Model):
    size: int = 1
    selector: str | None = None


class Status(Model):
    replicas: int = 0


NAMES: dict[str, Any] = {
    **vars(typing),
    **vars(markers),
    **vars(meta),
    **vars(kubewright.models),
    "Part": Part,
    "Spec": Spec,
    "Status": Status,
    "__name__": __name__,
}


def rows(heading: str) -> list[Row]:
    """Return the rows of the table under `heading`."""
    section = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [_row(re.split(r"(?<!\\)\|", line.strip("|"))) for line in lines]


def _row(cells: list[str]) -> Row:
    marker, code, crd = (cell.strip().replace("\\|", "|") for cell in cells)
    return Row(marker, _first_code(code), _first_code(crd), crd.rpartition("`")[2].strip(", "))


def _first_code(cell: str) -> str:
    found = re.search("`([^`]+)`", cell)
    return found[1] if found and cell.startswith("`") else ""


def kind_with_field(row: Row) -> type[CustomResource]:
    """Return a kind with the field `x` of a row of the table of fields."""
    return _made(f"class Thing(CustomResource, group='example.com', version='v1'):\n    {row.code}")


def kind_with_model(row: Row) -> type[CustomResource]:
    """Return a kind with a field `x` of a model with the class arguments of a row of the table of models."""
    model = f"class Thingy(Model, {row.code}):\n    a: int | None = None\n    b: int | None = None"
    return _made(f"{model}\nclass Thing(CustomResource, group='example.com', version='v1'):\n    x: Thingy")


def kind_with_arguments(row: Row) -> type[CustomResource]:
    """Return a kind with the class arguments of a row of the table of kinds."""
    head = f"class Thing(CustomResource, group='example.com', version='v1', {row.code}):"
    return _made(f"{head}\n    spec: Spec\n    status: Status = field(default_factory=Status)")


def _made(source: str) -> type[CustomResource]:
    names = {**NAMES, "field": field}
    exec(source, names)
    made: type[CustomResource] = names["Thing"]
    return made
