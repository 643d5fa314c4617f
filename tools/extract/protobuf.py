"""The messages of the protobuf encoding, from `generated.proto` and the Go types of the published API modules.

The `.proto` file has numbers, types and labels. The tags of the Go structs have the rest: the name of a field in JSON,
whether it is inlined there, and whether JSON omits a zero value.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kubewright.machinery.json import JSONObject

MODULES = ("api", "apimachinery", "apiextensions-apiserver", "kube-aggregator")
RESOLVER = Path(__file__).resolve().parents[1] / "controlplane" / "kubernetes"
"""The Go module that selects the versions."""

META = "k8s.io.apimachinery.pkg.apis.meta.v1"
OF_EVERY_GROUP = (
    "CreateOptions",
    "DeleteOptions",
    "GetOptions",
    "ListOptions",
    "PartialObjectMetadata",
    "PartialObjectMetadataList",
    "PatchOptions",
    "Status",
    "UpdateOptions",
)
"""Kinds that have the group version of the resource that they are used with."""

INTEGERS = ("int32", "int64")
SCALARS = ("string", "bytes", "bool", "double")

MESSAGE = re.compile(r"^message (\w+) \{(.*?)^\}", re.M | re.S)
FIELD = re.compile(r"^  (optional|repeated|map<string, (\S+)>) ?(?:(\S+) )?(\w+) = (\d+);", re.M)
STRUCT = re.compile(r"^type (\w+) struct \{(.*?)^\}", re.M | re.S)
TAGGED = re.compile(r"^\s+(?:\w+\s+)?(\S+)\s+`(?=.*json:\"([^\"]*)\")(?=.*protobuf:\"\w+,(\d+))", re.M)

Row = tuple[int, str, str, str]
"""Number, name in JSON, type, and how it occurs: "" once and omitted when zero, "=" once, "*" repeated, "{" map of
strings to the type, "+" inlined."""


class _Tag(NamedTuple):
    go_type: str
    json: str


def read(kinds: Mapping[str, str]) -> JSONObject:
    """Return the message of every kind in `kinds` (`apps/v1/Deployment` to schema name), and all that these need."""
    messages = dict(_messages())
    roots = {kind: message_of(schema) for kind, schema in kinds.items() if message_of(schema) in messages}
    roots |= {f"meta.k8s.io/v1/{kind}": f"{META}.{kind}" for kind in OF_EVERY_GROUP}
    needed = _reachable(messages, list(roots.values()))
    return {"kinds": roots, "messages": {name: messages[name] for name in sorted(needed)}}


def _messages() -> Iterator[tuple[str, list[Row]]]:
    for module in MODULES:
        command = ("go", "list", "-m", "-f", "{{.Dir}}", f"k8s.io/{module}")
        root = Path(subprocess.run(command, cwd=RESOLVER, check=True, capture_output=True, text=True).stdout.strip())
        for file in sorted(root.rglob("generated.proto")):
            yield from _messages_of(file)


def _messages_of(file: Path) -> Iterator[tuple[str, list[Row]]]:
    text = file.read_text()
    package = re.search(r"^package (\S+);", text, re.M)
    assert package is not None, file
    tags = _tags(file.parent)
    for name, body in MESSAGE.findall(text):
        rows = [
            _row(package[1], tags.get((name, int(number))), label, value or kind, field, int(number))
            for label, value, kind, field, number in FIELD.findall(body)
        ]
        yield f"{package[1]}.{name}", sorted(rows)


def _row(package: str, tag: _Tag | None, label: str, kind: str, field: str, number: int) -> Row:
    if kind in INTEGERS:
        kind = "int"
    elif kind not in SCALARS:
        kind = kind[1:] if kind.startswith(".") else f"{package}.{kind}"
    name, *options = tag.json.split(",") if tag else (field, "omitempty")
    if label == "repeated":
        occurs = "*"
    elif label.startswith("map"):
        occurs = "{"
    elif "inline" in options:
        occurs = "+"
    else:
        occurs = "" if "omitempty" in options and tag and not tag.go_type.startswith("*") else "="
    return number, name or field, kind, occurs


def _tags(folder: Path) -> dict[tuple[str, int], _Tag]:
    """Return the tags of the folder's structs, by struct and number."""
    found: dict[tuple[str, int], _Tag] = {}
    for file in folder.glob("*.go"):
        for struct, body in STRUCT.findall(file.read_text()):
            for go_type, json_name, number in TAGGED.findall(body):
                found[struct, int(number)] = _Tag(go_type, json_name)
    return found


def _reachable(messages: Mapping[str, list[Row]], roots: list[str]) -> set[str]:
    seen: set[str] = set()
    while roots:
        name = roots.pop()
        if name not in seen:
            seen.add(name)
            roots.extend(row[2] for row in messages[name] if row[2] in messages)
    return seen


def message_of(schema: str) -> str:
    """Return the message of a schema: `k8s.io.api.core.v1.Pod` of `io.k8s.api.core.v1.Pod`, with `_` instead of `-`."""
    return "k8s.io." + schema.removeprefix("io.k8s.").replace("-", "_")
