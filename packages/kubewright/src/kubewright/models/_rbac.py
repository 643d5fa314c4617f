"""RBAC rules and roles as controller-gen writes them: merged, without duplicates, in order."""

# ruff: noqa: RUF012 - each rule gets an empty list of its own

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kubewright.machinery.json import JSONObject
from kubewright.models._struct import Struct, field
from kubewright.models._values import plain


class PolicyRule(Struct):
    """Verbs that are allowed on resources or URLs of the API (rbac.authorization.k8s.io/v1)."""

    api_groups: list[str] = []
    non_resource_urls: list[str] = field(default=[], name="nonResourceURLs")
    resource_names: list[str] = []
    resources: list[str] = []
    verbs: list[str] = []


def merged(rules: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Merge rules into as few as controller-gen does, in its order.

    First the verbs on the same resource are merged, then resources, groups and URLs of rules that are otherwise equal.
    The verb `*` replaces all others.
    """
    found = [
        msgspec.structs.replace(rule, resources=resources)
        for rule in rules
        for resources in ([[each] for each in rule.resources] or [[]])
    ]
    for attribute in ("verbs", "resources", "api_groups", "non_resource_urls"):
        found = _joined(found, attribute)
    for rule in found:
        if "*" in rule.verbs:
            rule.verbs = ["*"]
    return sorted(found, key=_place)


def _joined(rules: list[PolicyRule], attribute: str) -> list[PolicyRule]:
    """Merge rules that differ in `attribute` only."""
    others = [each for each in PolicyRule.__struct_fields__ if each != attribute]
    joined: dict[tuple[tuple[str, ...], ...], set[str]] = {}
    for rule in rules:
        key = tuple(tuple(sorted(set(getattr(rule, each)))) for each in others)
        joined.setdefault(key, set()).update(getattr(rule, attribute))
    return [
        PolicyRule(**dict(zip(others, map(list, key), strict=True)), **{attribute: sorted(values)})
        for key, values in joined.items()
    ]


def _place(rule: PolicyRule) -> str:
    parts = (rule.api_groups, rule.resources, rule.resource_names, rule.non_resource_urls)
    return " + ".join("&".join(part) for part in parts)


def role(name: str, namespace: str, rules: Iterable[PolicyRule]) -> JSONObject:
    """Return a Role with `rules`, merged."""
    return _document("Role", {"name": name, "namespace": namespace}, rules)


def cluster_role(name: str, rules: Iterable[PolicyRule]) -> JSONObject:
    """Return a ClusterRole with `rules`, merged."""
    return _document("ClusterRole", {"name": name}, rules)


def _document(kind: str, metadata: JSONObject, rules: Iterable[PolicyRule]) -> JSONObject:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": [plain(rule) for rule in merged(rules)],
    }
