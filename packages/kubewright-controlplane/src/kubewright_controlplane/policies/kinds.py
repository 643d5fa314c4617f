"""The kinds that a policy matches, and their types: built-in kinds, and those of CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Final

from kubewright.cel.types import BYTES, DURATION, DYN, STRING, TIMESTAMP, Type
from kubewright.machinery.cel_names import unescape
from kubewright.machinery.gvk import GroupVersion, GroupVersionKind
from kubewright.machinery.json import JSONObject, is_object
from kubewright_controlplane.apiserver import catalog
from kubewright_controlplane.apiserver.admission.policies.kindtypes import builtin_schema, custom_schema
from kubewright_controlplane.schema.cel.declare import declared

_ANY: Final[JSONObject] = {"x-kubernetes-int-or-string": True}
"""A schema whose values have the type `dyn`."""
_SCALE: Final = GroupVersionKind("autoscaling", "v1", "Scale")


class Kinds:
    """The built-in kinds, and those that `definitions` define."""

    def __init__(self, definitions: Iterable[JSONObject]) -> None:
        self._custom: dict[GroupVersionKind, JSONObject] = {}
        self._plurals: dict[tuple[str, str, str], GroupVersionKind] = {}
        self._types: dict[GroupVersionKind, Type] = {}
        for definition in definitions:
            spec = definition["spec"]
            for version in spec["versions"]:
                kind = GroupVersionKind(spec["group"], version["name"], spec["names"]["kind"])
                schema: JSONObject = version.get("schema") or {}
                self._custom[kind] = schema.get("openAPIV3Schema") or {}
                self._plurals[spec["group"], version["name"], spec["names"]["plural"]] = kind

    def type_of(self, kind: GroupVersionKind) -> Type:
        """Return the type of the objects of a kind; `dyn` if the kind is not known."""
        found = self._types.get(kind)
        if found is None:
            found = self._types[kind] = self._type_of(kind)
        return found

    def _type_of(self, kind: GroupVersionKind) -> Type:
        schema = self._custom.get(kind)
        if schema is None:
            return _builtin_type(kind)
        if "properties" not in schema:
            return DYN
        return _document_type(custom_schema(schema), kind.kind)

    def matched(self, spec: JSONObject) -> list[GroupVersionKind]:
        """Return the kinds of the objects that the rules of a policy name without wildcards, sorted."""
        match: JSONObject = spec.get("matchConstraints") or {}
        rules: list[JSONObject] = match.get("resourceRules") or []
        return sorted({kind for rule in rules for kind in self._of_rule(rule)}, key=str)

    def _of_rule(self, rule: JSONObject) -> Iterator[GroupVersionKind]:
        groups: list[str] = rule.get("apiGroups") or []
        versions: list[str] = rule.get("apiVersions") or []
        resources: list[str] = rule.get("resources") or []
        for group, version, resource in product(groups, versions, resources):
            plural, _, subresource = resource.partition("/")
            custom = self._plurals.get((group, version, plural))
            if custom is not None:
                yield _SCALE if subresource == "scale" else custom
                continue
            for facts in catalog.resources(GroupVersion(group, version)):
                if facts.resource.resource == plural:
                    kinds = {"": facts.kind, **{each.name: each.kind for each in facts.subresources}}
                    if subresource in kinds:
                        yield kinds[subresource]


@lru_cache(maxsize=32)
def _builtin_type(kind: GroupVersionKind) -> Type:
    try:
        return _document_type(builtin_schema(kind), kind.kind, any_object=True)
    except KeyError:
        return DYN


def _document_type(schema: JSONObject, name: str, *, any_object: bool = False) -> Type:
    """Return the type of documents. `any_object`: an object without properties may have any fields."""
    return _as_in_documents(declared(_opened(schema, any_object=any_object), name=name) or DYN)


def _opened(schema: JSONObject, *, any_object: bool) -> JSONObject:
    """Return a schema in which each part that may have unknown fields is of any type.

    Rules of CRDs cannot select unknown fields; policies can.
    """
    values = schema.get("additionalProperties")
    is_empty = any_object and not schema.get("properties") and not is_object(values)
    if (
        schema.get("x-kubernetes-preserve-unknown-fields")
        or values is True
        or "type" not in schema
        or (schema["type"] == "object" and is_empty)
    ):
        return _ANY
    out = dict(schema)
    if properties := schema.get("properties"):
        out["properties"] = {key: _opened(each, any_object=any_object) for key, each in properties.items()}
    for below in ("additionalProperties", "items"):
        if is_object(child := schema.get(below)):
            out[below] = _opened(child, any_object=any_object)
    return out


def _as_in_documents(type: Type) -> Type:
    """Return the type of values as they are in documents, on which policies are evaluated.

    Rules of CRDs write `self.__namespace__`, because `namespace` is a reserved word; policies write
    `object.metadata.namespace`. Times, durations and bytes are strings.
    """
    if type.fields is not None:
        return replace(type, fields={unescape(name): _as_in_documents(each) for name, each in type.fields.items()})
    if type.parameters:
        return replace(type, parameters=tuple(map(_as_in_documents, type.parameters)))
    return STRING if type in (TIMESTAMP, DURATION, BYTES) else type
