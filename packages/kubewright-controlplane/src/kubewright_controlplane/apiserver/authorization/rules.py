"""RBAC rules: evaluation of a rule, and whether rules cover other rules.

Pure: knows neither users nor bindings. Follows k8s.io/kubernetes pkg/apis/rbac/v1 (matching) and
k8s.io/component-helpers auth/rbac/validation (coverage, to prevent escalation).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kubewright.machinery.json import JSONObject

ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class Rule:
    """One compiled `PolicyRule`. Keeps the order of its lists, which answers and messages show."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, rule: JSONObject) -> Rule:
        return cls(
            tuple(rule.get("verbs") or ()),
            tuple(rule.get("apiGroups") or ()),
            tuple(rule.get("resources") or ()),
            tuple(rule.get("resourceNames") or ()),
            tuple(rule.get("nonResourceURLs") or ()),
        )

    def matches_resource(self, verb: str, group: str, resource: str, subresource: str) -> bool:
        """Return whether the rule allows this verb on this resource; `names` may restrict it to some objects."""
        if verb not in self.verbs and ALL not in self.verbs:
            return False
        if group not in self.groups and ALL not in self.groups:
            return False
        if ALL in self.resources:
            return True
        if not subresource:
            return resource in self.resources
        return f"{resource}/{subresource}" in self.resources or f"*/{subresource}" in self.resources

    def matches_url(self, verb: str, path: str) -> bool:
        if verb not in self.verbs and ALL not in self.verbs:
            return False
        return any(_url_covers(url, path) for url in self.urls)

    def covers(self, part: Rule) -> bool:
        """Return whether this rule grants all of `part`, one of the rules from `atoms`."""
        return (
            _has_all(self.verbs, part.verbs)
            and _has_all(self.groups, part.groups)
            and all(self._covers_resource(resource) for resource in part.resources)
            and all(any(_url_covers(own, url) for own in self.urls) for url in part.urls)
            and (not self.names or (bool(part.names) and set(part.names) <= set(self.names)))
        )

    def _covers_resource(self, resource: str) -> bool:
        if ALL in self.resources or resource in self.resources:
            return True
        _, slash, subresource = resource.partition("/")
        return bool(slash) and f"*/{subresource}" in self.resources

    def atoms(self) -> Iterator[Rule]:
        """Split the rule into rules with one verb and one group, resource and name, or one URL."""
        for group in self.groups:
            for resource in self.resources:
                for verb in self.verbs:
                    if not self.names:
                        yield Rule((verb,), (group,), (resource,))
                    for name in self.names:
                        yield Rule((verb,), (group,), (resource,), (name,))
        for url in self.urls:
            for verb in self.verbs:
                yield Rule(verbs=(verb,), urls=(url,))

    def __str__(self) -> str:
        parts = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.urls),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{name}:{quoted(values)}" for name, values in parts if values) + "}"


def compile_rules(rules: Iterable[JSONObject] | None) -> tuple[Rule, ...]:
    """Compile the `rules` of a Role or ClusterRole."""
    return tuple(Rule.from_dict(rule) for rule in rules or ())


def uncovered(owned: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """Return the part of `wanted` that no rule of `owned` grants, with the verbs of a resource joined again."""
    missing = [atom for rule in wanted for atom in rule.atoms() if not any(own.covers(atom) for own in owned)]
    joined: dict[object, Rule] = {}
    for rule in missing:
        key: object = (rule.groups, rule.resources, rule.names) if rule.resources else rule
        earlier = joined.get(key)
        joined[key] = rule if earlier is None else replace(earlier, verbs=earlier.verbs + rule.verbs)
    return list(joined.values())


def quoted(values: Iterable[str]) -> str:
    """Return a list of strings as Go's `%q` shows it: `["a" "b"]`."""
    return "[" + " ".join(json.dumps(value, ensure_ascii=False) for value in values) + "]"


def _has_all(own: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    return ALL in own or all(each in own for each in wanted)


def _url_covers(own: str, path: str) -> bool:
    return own == path or (own.endswith(ALL) and path.startswith(own.rstrip(ALL)))
