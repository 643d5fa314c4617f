"""The defaults of the built-in kinds, found by creating sample objects (dry run) and comparing them with the answers.

A default belongs to a field of a schema, wherever that schema is used: a default of a container in a Pod is also a
default of a container in a Deployment's template. A field that is added in only some places, or with different values,
has a conditional default, which a schema cannot express. Such fields are reported, because they need code.
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
"""Groups whose status is the answer to a request, not a default."""

OF_EVERY_KIND = ("apiVersion", "kind", "metadata")
TIME = re.compile(r"\d{4}-\d\d-\d\dT")
NOW = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SAME_DEFAULTS = {"io.k8s.api.core.v1.EphemeralContainer": "io.k8s.api.core.v1.Container"}
"""Schemas that cannot be used to create an object, and the schemas whose defaults they share."""

Place = tuple[str, str]
"""A schema's name and a property of it."""

SET_BY_SERVER = {("io.k8s.api.core.v1.Namespace", "spec")}
"""Fields that the server sets on every object. They are not defaults: no manager owns them."""

SET_BY_CODE = {("io.k8s.api.apps.v1.StatefulSetUpdateStrategy", "type")}
"""Fields whose default depends on other fields, although no sample shows it."""


@dataclass
class Defaults:
    unconditional: dict[Place, object]
    conditional: list[str]
    created: list[JSONObject]
    """Each sample as it was `sent` and as the server `made` it for a manager, with uids and times replaced."""


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
            created.append({"sent": sample, "made": _normalized(made)})
        _Comparison(schemas, sightings).compare(kinds[kind], sample, made)
    return _divide(sightings, created)


def _divide(sightings: _Sightings, created: list[JSONObject]) -> Defaults:
    found = Defaults({}, [], created)
    for place, values in sorted(sightings.added.items()):
        differs = place in sightings.left_out or any(value != values[0] for value in values)
        if differs or place in SET_BY_SERVER | SET_BY_CODE or TIME.search(str(values[0])):
            found.conditional.append(".".join(place))
        elif values[0] is not None:
            found.unconditional[place] = _without_nulls(values[0])
    for schema, name in SAME_DEFAULTS.items():
        found.unconditional |= {(schema, key): value for (n, key), value in found.unconditional.items() if n == name}
    return found


def _normalized(made: JSONObject) -> JSONObject:
    """Replace values that differ each time."""
    text = UID.sub("<uid>", NOW.sub("<time>", json.dumps(made)))
    normalized: JSONObject = json.loads(text)
    return normalized


def _without_nulls(value: object) -> object:
    """Remove nulls: Go writes null for some empty lists, which is not a value in a schema."""
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return value


class _Comparison:
    """Compares a sample with the object that the server made of it, along the schema."""

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
