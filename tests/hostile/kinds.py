"""The built-in kinds, an example of each, and random documents of their schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

from hostile.values import TEXTS, copied, scalar
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver import catalog

NAMESPACE: Final = "hostile"
"""The namespace of the objects that administrators write."""
TENANT: Final = "tenant"
"""The namespace in which the tenant has all permissions."""
VAULT: Final = "vault"
"""A namespace in which only administrators have permissions."""
NAMES: Final = ("a", "b", "c-1", "d.e")
_GOLDEN: Final = Path(__file__).parents[1] / "golden" / "created.json"
_DEEPEST: Final = 7


@dataclass(frozen=True, slots=True)
class Kind:
    """A resource and examples of its documents."""

    gvk: GroupVersionKind
    plural: str
    namespaced: bool
    verbs: tuple[str, ...]
    subresources: tuple[str, ...]
    examples: tuple[JSONObject, ...] = ()
    schema: JSONObject | None = None
    """A reference to the schema of a built-in kind."""

    def path(self, namespace: str = NAMESPACE) -> str:
        version = f"/apis/{self.gvk.group}/{self.gvk.version}" if self.gvk.group else f"/api/{self.gvk.version}"
        return f"{version}/namespaces/{namespace}/{self.plural}" if self.namespaced else f"{version}/{self.plural}"

    def named(self, rng: Random, name: str = "") -> tuple[JSONObject, str]:
        """Return a copy of an example with a name from a small set, and the name."""
        name = name or f"hostile-{rng.choice(NAMES)}"
        document = copied(rng.choice(self.examples)) if self.examples else {"metadata": {}}
        document |= {"apiVersion": self.gvk.api_version, "kind": self.gvk.kind}
        metadata = document.setdefault("metadata", {})
        if "." not in metadata.get("name", "") or self.gvk.kind in ("IPAddress",):
            metadata["name"] = name
        if self.namespaced:
            metadata["namespace"] = NAMESPACE
        return document, metadata["name"]


@cache
def built_in() -> tuple[Kind, ...]:
    """Return all built-in kinds that are served by default."""
    examples = _examples()
    found: list[Kind] = []
    for gv in catalog.group_versions():
        if gv in catalog.OPTIONAL:
            continue
        for facts in catalog.resources(gv):
            kind = facts.kind
            found.append(
                Kind(
                    kind,
                    facts.resource.resource,
                    facts.namespaced,
                    facts.verbs,
                    tuple(each.name for each in facts.subresources),
                    examples.get((kind.api_version, kind.kind), ()),
                    {"$ref": catalog.schema_ref(kind)},
                )
            )
    return tuple(found)


def kind_of(name: str) -> Kind:
    return next(each for each in built_in() if each.plural == name)


def _examples() -> dict[tuple[str, str], tuple[JSONObject, ...]]:
    found: dict[tuple[str, str], tuple[JSONObject, ...]] = {}
    for entry in json.loads(_GOLDEN.read_text())["created"]:
        sent = entry["sent"]
        key = (sent["apiVersion"], sent["kind"])
        found[key] = (*found.get(key, ()), sent)
    return found


def random_document(rng: Random, kind: Kind, wrong: float = 0.02) -> JSONObject:
    """Return a random document of a kind's schema. The share `wrong` of its values does not fit the schema."""
    made = _value(rng, kind.schema or {}, 0, wrong)
    document: JSONObject = made if isinstance(made, dict) else {}
    base, _ = kind.named(rng)
    return document | {key: base[key] for key in ("apiVersion", "kind", "metadata")}


def random_change(rng: Random, kind: Kind, wrong: float = 0.05) -> JSONObject:
    """Return a document with a random value at one random path of a kind's schema, and nothing else below its root."""
    return _single(rng, _resolved(kind.schema or {}), 0, wrong) or {}


def _resolved(schema: JSONObject) -> JSONObject:
    while "$ref" in schema or "allOf" in schema:
        if "$ref" in schema:
            components: Mapping[str, JSONObject] = catalog.components()
            schema = components[schema["$ref"].rpartition("/")[2]]
        else:
            schema = schema["allOf"][0]
    return schema


def _single(rng: Random, schema: JSONObject, depth: int, wrong: float) -> Any:
    """Return a document with one path."""
    schema = _resolved(schema)
    if depth > 12 or (depth and rng.random() < wrong):
        return scalar(rng)
    properties: JSONObject = schema.get("properties") or {}
    if properties:
        names = [name for name in properties if depth or name not in ("apiVersion", "kind")]
        name = rng.choice(names)
        return {name: _single(rng, properties[name], depth + 1, wrong)}
    if schema.get("type") == "array":
        return [_single(rng, schema.get("items") or {}, depth + 1, wrong)]
    if isinstance(schema.get("additionalProperties"), dict):
        return {rng.choice(TEXTS): _single(rng, schema["additionalProperties"], depth + 1, wrong)}
    return scalar(rng) if rng.random() < 0.5 else _scalar(rng, schema)


def _value(rng: Random, schema: JSONObject, depth: int, wrong: float) -> Any:
    """Return a random value of a schema: required fields, and some others."""
    if rng.random() < wrong:
        return scalar(rng)
    schema = _resolved(schema)
    properties: JSONObject = schema.get("properties") or {}
    if properties:
        required = schema.get("required", ())
        share = 0.35 if depth < 3 else 0.12 if depth < _DEEPEST else 0.0
        return {
            name: _value(rng, item, depth + 1, wrong)
            for name, item in properties.items()
            if name in required or rng.random() < share
        }
    if schema.get("type") == "array":
        count = rng.choice((0, 1, 1, 2)) if depth < _DEEPEST else 0
        return [_value(rng, schema.get("items") or {}, depth + 1, wrong) for _ in range(count)]
    if isinstance(schema.get("additionalProperties"), dict):
        names = rng.sample(("a", "b", "c/d", "", "x.y/z"), rng.choice((0, 1, 2)))
        return {name: _value(rng, schema["additionalProperties"], depth + 1, wrong) for name in names}
    return _scalar(rng, schema)


def _scalar(rng: Random, schema: JSONObject) -> Any:
    """Return a value of the type that a schema without fields asks for."""
    if "default" in schema and rng.random() < 0.3:
        return copied(schema["default"])
    if schema.get("enum"):
        return rng.choice(schema["enum"])
    kind, form = schema.get("type"), schema.get("format")
    if kind == "integer":
        return rng.choice((0, 1, 2, 80, 443, 1000, 30001, -1, 2**31 - 1, 2**63 - 1))
    if kind == "number":
        return rng.choice((0, 1.5, -2))
    if kind == "boolean":
        return rng.random() < 0.5
    if form in ("date-time",):
        return rng.choice(
            ("2026-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2026-01-01T00:00:00.5+14:00")
        )
    if form == "byte":
        return rng.choice(("", "YQ==", "AAECAw=="))
    if form == "int-or-string":
        return rng.choice((0, 80, "80", "http", "50%", "0%", "101%"))
    if form == "quantity" or "quantity" in str(schema.get("oneOf", "")):
        return rng.choice(("1", "100m", "1Gi", "0", "1e3", 5))
    if kind == "object" or not kind:
        return rng.choice(({}, {"a": "b"}, {"kind": "Pod", "apiVersion": "v1"}, "1", 5))
    return rng.choice(
        ("a", "b", "x-1", "a.example.com", "", "Always", "None", "TCP", "1.2.3.4", "10.0.0.0/24", *TEXTS[:6])
    )
