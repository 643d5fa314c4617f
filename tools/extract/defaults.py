"""The defaults of the built-in kinds, found by creating sample objects (dry run) and looking at what was added.

A default belongs to a field of a schema, wherever that schema is used: what is added to a container of a Pod is added
to a container of a Deployment's template. A field that was added in one place and not in another, or with different
values, depends on something else: no default can state it. Such fields are reported, for code to take care of.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from server import Server

from kubewright.machinery.gvk import GroupVersion, GroupVersionResource
from kubewright.machinery.json import JSONObject

SAMPLES = Path(__file__).with_name("samples")
METADATA = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
REVIEWS = ("authentication.k8s.io", "authorization.k8s.io")
"""Groups whose status is the answer to a question, not a default."""

OF_EVERY_KIND = ("apiVersion", "kind", "metadata")
TIME = re.compile(r"\d{4}-\d\d-\d\dT")
NOW = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ALIKE = {"io.k8s.api.core.v1.EphemeralContainer": "io.k8s.api.core.v1.Container"}
"""Schemas that no object can be created with, and the ones whose defaults they share."""

Place = tuple[str, str]
"""A schema's name and a property of it."""

GIVEN = {("io.k8s.api.core.v1.Namespace", "spec")}
"""What the server gives every object by itself, which is no default: nobody owns it."""


@dataclass
class Defaults:
    unconditional: dict[Place, object]
    conditional: list[str]
    created: list[JSONObject]
    """Each sample as it was `sent` and as the server `made` it for a manager, with uids and times blotted out."""


@dataclass
class _Sightings:
    added: dict[Place, list[object]] = field(default_factory=lambda: defaultdict(list))
    left_out: set[Place] = field(default_factory=set)


def observe(server: Server, groups: list[JSONObject], schemas: JSONObject, kinds: Mapping[str, str]) -> Defaults:
    resources = _resources_by_kind(groups)
    sightings = _Sightings()
    created: list[JSONObject] = []
    for sample in _samples():
        kind = f"{sample['apiVersion']}/{sample['kind']}"
        namespace = sample.get("metadata", {}).get("namespace")
        made = server.dry_run(resources[kind].path(namespace), sample)
        if GroupVersion.parse(sample["apiVersion"]).group in REVIEWS:
            made.pop("status", None)
        else:
            created.append({"sent": sample, "made": _blotted(made)})
        _Comparison(schemas, sightings).compare(kinds[kind], sample, made)
    return _judge(sightings, created)


def _judge(sightings: _Sightings, created: list[JSONObject]) -> Defaults:
    found = Defaults({}, [], created)
    for place, values in sorted(sightings.added.items()):
        differs = place in sightings.left_out or any(value != values[0] for value in values)
        if differs or place in GIVEN or TIME.search(str(values[0])):
            found.conditional.append(".".join(place))
        elif values[0] is not None:
            found.unconditional[place] = _without_nulls(values[0])
    for alike, name in ALIKE.items():
        found.unconditional |= {(alike, key): value for (n, key), value in found.unconditional.items() if n == name}
    return found


def _blotted(made: JSONObject) -> JSONObject:
    """Without what differs each time."""
    text = UID.sub("<uid>", NOW.sub("<time>", json.dumps(made)))
    blotted: JSONObject = json.loads(text)
    return blotted


def _without_nulls(value: object) -> object:
    """Go writes null for some empty lists; to a schema it is no value."""
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return value


class _Comparison:
    """Walks a sample and what was made of it side by side, along the schema."""

    def __init__(self, schemas: JSONObject, sightings: _Sightings) -> None:
        self._schemas = schemas
        self._sightings = sightings

    def compare(self, name: str, sent: JSONObject, made: JSONObject) -> None:
        properties = self._schemas[name].get("properties", {})
        of_a_kind = all(key in properties for key in OF_EVERY_KIND)
        for key, schema in properties.items():
            if of_a_kind and key in OF_EVERY_KIND:
                continue
            place = (name, key)
            if key not in made:
                self._sightings.left_out.add(place)
            elif key not in sent:
                self._sightings.added[place].append(made[key])
            else:
                self._descend(schema, sent[key], made[key])

    def _descend(self, schema: JSONObject, sent: Any, made: Any) -> None:
        if "allOf" in schema:
            schema = schema["allOf"][0]
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name != METADATA and isinstance(made, dict):
                self.compare(name, sent, made)
        elif isinstance(made, list):
            for one, other in zip(sent, made, strict=True):
                self._descend(schema["items"], one, other)
        elif isinstance(made, dict) and "additionalProperties" in schema:
            for key, one in sent.items():
                self._descend(schema["additionalProperties"], one, made[key])


def _samples() -> Iterator[JSONObject]:
    for file in sorted(SAMPLES.glob("*.yaml")):
        yield from yaml.safe_load_all(file.read_text())


def _resources_by_kind(groups: list[JSONObject]) -> dict[str, GroupVersionResource]:
    return {
        f"{GroupVersion(group['name'], version['version'])}/{resource['kind'][2]}": GroupVersionResource(
            group["name"], version["version"], resource["name"]
        )
        for group in groups
        for version in group["versions"]
        for resource in version["resources"]
    }
