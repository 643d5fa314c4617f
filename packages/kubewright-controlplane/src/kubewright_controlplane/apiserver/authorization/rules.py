"""RBAC rules: evaluation of a rule, and whether rules cover other rules.

Pure: knows neither users nor bindings. Follows k8s.io/kubernetes pkg/apis/rbac/v1 (matching) and
k8s.io/component-helpers auth/rbac/validation (coverage, to prevent escalation).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

import msgspec

from kubewright.machinery.json import JSONObject
from kubewright_controlplane.schema.steps import lengthen

ALL: Final = "*"
_SHORT: Final = 8
"""Length up to which a tuple is searched as fast as a set."""
_FEW: Final = 10_000
"""Comparisons of rules that the event loop makes: some milliseconds."""
_MOST: Final = 4_000_000
"""Comparisons of rules that a write may cost: some seconds."""
_FIELDS: Final = {
    "groups": "apiGroups",
    "names": "resourceNames",
    "urls": "nonResourceURLs",
}


class TooManyComparisons(Exception):
    """Rules are too many, or have too many combinations of verbs, groups, resources and names."""


class Rule(msgspec.Struct, frozen=True, dict=True, rename=_FIELDS):
    """One compiled `PolicyRule`. Keeps the order of its lists, which answers and messages show."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    @cached_property
    def _verbs(self) -> Collection[str]:
        return _searchable(self.verbs)

    @cached_property
    def _groups(self) -> Collection[str]:
        return _searchable(self.groups)

    @cached_property
    def _resources(self) -> Collection[str]:
        return _searchable(self.resources)

    @cached_property
    def allowed_names(self) -> Collection[str]:
        """The same as `names`, to search in."""
        return _searchable(self.names)

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
        if verb not in self._verbs and ALL not in self._verbs:
            return False
        if not self.concerns(group):
            return False
        if ALL in self._resources:
            return True
        if not subresource:
            return resource in self._resources
        return f"{resource}/{subresource}" in self._resources or f"*/{subresource}" in self._resources

    def concerns(self, group: str) -> bool:
        """Return whether the rule is about resources of this group."""
        return group in self._groups or ALL in self._groups

    def matches_url(self, verb: str, path: str) -> bool:
        if verb not in self._verbs and ALL not in self._verbs:
            return False
        return any(_url_covers(url, path) for url in self.urls)

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


class _Role(msgspec.Struct):
    rules: tuple[Rule, ...] = ()


def decode_rules(data: bytes) -> tuple[Rule, ...]:
    """Compile the rules of a stored Role or ClusterRole, four times faster than from its document."""
    try:
        return msgspec.json.decode(data, type=_Role).rules
    except msgspec.ValidationError:  # a list is null
        rules: list[JSONObject] | None = msgspec.json.decode(data)["rules"]
        return compile_rules(rules)


def uncovered(owned: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """Return the part of `wanted` that no rule of `owned` grants: a rule for each group, resource and name, or for each
    verb and URL.

    Raises TooManyComparisons, and StepTooLong.
    """
    grants = _Grants(owned)
    missing: dict[Rule, list[str]] = {}
    for rule in wanted:
        for part, verb in grants.lacking(rule):
            missing.setdefault(part, []).append(verb)
    return [msgspec.structs.replace(part, verbs=tuple(verbs)) for part, verbs in missing.items()]


class _Grants:
    """What rules grant, indexed by resource."""

    def __init__(self, owned: Sequence[Rule]) -> None:
        self._by_resource: dict[str, list[Rule]] = {}
        self._with_urls = [rule for rule in owned if rule.urls]
        self._urls = sum(len(rule.urls) for rule in self._with_urls)
        self._compared = 0
        for rule in owned:
            self._count(len(rule.resources))
            for resource in rule.resources:
                self._by_resource.setdefault(resource, []).append(rule)

    def lacking(self, rule: Rule) -> Iterator[tuple[Rule, str]]:
        """Yield the parts of a rule that are not granted, and the verb of each."""
        for group in rule.groups:
            for resource in rule.resources:
                yield from self._lacking_of(group, resource, rule)
        for url in rule.urls:
            self._count(len(rule.verbs) * (1 + self._urls))
            for verb in rule.verbs:
                if not any(own.matches_url(verb, url) for own in self._with_urls):
                    yield Rule(verbs=(verb,), urls=(url,)), verb

    def _lacking_of(self, group: str, resource: str, rule: Rule) -> Iterator[tuple[Rule, str]]:
        always, named = self._verbs_for(group, resource)
        self._count(1)
        if ALL in always:
            return
        lacking = [verb for verb in rule.verbs if verb not in always]
        self._count(len(rule.verbs) + len(lacking) * len(rule.names))
        for verb in lacking:
            if not rule.names:
                yield Rule(groups=(group,), resources=(resource,)), verb
            for name in rule.names:
                verbs = named.get(name, ())
                if verb not in verbs and ALL not in verbs:
                    yield Rule(groups=(group,), resources=(resource,), names=(name,)), verb

    def _verbs_for(self, group: str, resource: str) -> tuple[set[str], dict[str, set[str]]]:
        """Return the verbs that are granted for all objects of a resource, and those for objects with a name."""
        always: set[str] = set()
        named: dict[str, set[str]] = {}
        for rule in self._about(resource):
            self._count(1)
            if not rule.concerns(group):
                continue
            self._count((len(rule.names) or 1) * len(rule.verbs))
            if not rule.names:
                always.update(rule.verbs)
            for name in rule.names:
                named.setdefault(name, set()).update(rule.verbs)
        return always, named

    def _about(self, resource: str) -> Iterator[Rule]:
        _, slash, subresource = resource.partition("/")
        for each in dict.fromkeys((resource, ALL, f"*/{subresource}" if slash else ALL)):
            yield from self._by_resource.get(each, ())

    def _count(self, comparisons: int) -> None:
        """Count comparisons. Raises TooManyComparisons, and StepTooLong."""
        self._compared += comparisons
        if self._compared > _FEW:
            lengthen()
        if self._compared > _MOST:
            raise TooManyComparisons


def quoted(values: Iterable[str]) -> str:
    """Return a list of strings as Go's `%q` shows it: `["a" "b"]`."""
    return "[" + " ".join(json.dumps(value, ensure_ascii=False) for value in values) + "]"


def _searchable(values: tuple[str, ...]) -> Collection[str]:
    return values if len(values) <= _SHORT else frozenset(values)


def _url_covers(own: str, path: str) -> bool:
    return own == path or (own.endswith(ALL) and path.startswith(own.rstrip(ALL)))
