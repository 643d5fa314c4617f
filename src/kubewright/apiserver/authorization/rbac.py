"""RBAC: which rules a user has, and so what the user may do.

Takes the four kinds as they are committed (`put`, `remove`) and answers from what it compiled of them. A change throws
away the verdicts known so far; until the next one, a check of a user, namespace, verb and resource seen before is two
dictionary look-ups, whatever the number of roles.

Follows k8s.io/kubernetes pkg/registry/rbac/validation and plugin/pkg/auth/authorizer/rbac: rules only add up, a role
that a binding names and that is missing grants nothing and is told of in the reason for a denial.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from kubewright.apiserver.authentication.user import SUPERUSERS, UserInfo
from kubewright.apiserver.authorization.attributes import Attributes
from kubewright.apiserver.authorization.rules import Rule, compile_rules
from kubewright.machinery.json import JSONObject

KINDS: Final = frozenset({"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"})

_Key: TypeAlias = tuple[str, str]
"""Namespace (empty for the cluster) and name."""
_Subject: TypeAlias = tuple[str, str]
"""`User` or `Group`, and its name."""

_EVERY: Final[frozenset[str] | None] = None
"""A verdict that holds for objects of any name; else a verdict is the set of names that it holds for."""
_MAX_USERS: Final = 4096


@dataclass(frozen=True, slots=True)
class _Binding:
    kind: str
    namespace: str
    name: str
    role_kind: str
    role_name: str
    subjects: tuple[_Subject, ...]
    described: tuple[str, ...]
    """Each subject as a reason names it: `ServiceAccount "name/namespace"`."""

    @classmethod
    def from_dict(cls, kind: str, binding: JSONObject) -> _Binding:
        metadata, ref = binding["metadata"], binding["roleRef"]
        namespace = metadata.get("namespace", "") if kind == "RoleBinding" else ""
        subjects: list[_Subject] = []
        described: list[str] = []
        for subject in binding.get("subjects") or ():
            if subject["kind"] == "ServiceAccount":
                home = subject.get("namespace") or namespace
                if home:
                    subjects.append(("User", f"system:serviceaccount:{home}:{subject['name']}"))
                    described.append(f'ServiceAccount "{subject["name"]}/{home}"')
            else:
                subjects.append((subject["kind"], subject["name"]))
                described.append(f'{subject["kind"]} "{subject["name"]}"')
        return cls(
            kind, namespace, metadata["name"], ref["kind"], ref["name"], tuple(subjects), tuple(described)
        )  # fmt: skip

    def describe(self, user: UserInfo) -> str:
        at = next(i for i, subject in enumerate(self.subjects) if subject in _identities(user))
        place = f"{self.name}/{self.namespace}" if self.namespace else self.name
        return f'{self.kind} "{place}" of {self.role_kind} "{self.role_name}" to {self.described[at]}'


class RBAC:
    """The rules of a cluster, and whom they are bound to.

    Guarantees
        A check sees every change given by `put` and `remove` before it.
        A member of `system:masters` may do anything, whatever the rules.
    """

    def __init__(self) -> None:
        self._roles: dict[_Key, tuple[Rule, ...]] = {}
        self._bindings: dict[_Key, _Binding] = {}
        self._bound: dict[_Subject, dict[_Key, _Binding]] = {}
        self._verdicts: dict[
            tuple[str, tuple[str, ...], str], dict[tuple[str, str, str, str], frozenset[str] | None]
        ] = {}

    def put(self, kind: str, obj: JSONObject) -> None:
        """Take in a Role, ClusterRole, RoleBinding or ClusterRoleBinding as it now is."""
        metadata = obj["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        self._verdicts.clear()
        if kind in ("Role", "ClusterRole"):
            self._roles[key] = compile_rules(obj.get("rules"))
            return
        self._unbind(key)
        binding = _Binding.from_dict(kind, obj)
        self._bindings[key] = binding
        for subject in binding.subjects:
            self._bound.setdefault(subject, {})[key] = binding

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Forget one that was deleted."""
        self._verdicts.clear()
        if kind in ("Role", "ClusterRole"):
            self._roles.pop((namespace, name), None)
        else:
            self._unbind((namespace, name))

    def allows(self, attributes: Attributes) -> bool:
        """Whether the user of `attributes` may do what they say."""
        user = attributes.user
        if SUPERUSERS in user.groups:
            return True
        if not attributes.resource:
            return any(
                rule.matches_url(attributes.verb, attributes.path) for rule in self.rules_for(user, namespace="")
            )
        place = (user.name, user.groups, attributes.namespace)
        verdicts = self._verdicts.get(place)
        if verdicts is None:
            if len(self._verdicts) >= _MAX_USERS:
                self._verdicts.clear()
            verdicts = self._verdicts[place] = {}
        asked = (attributes.verb, attributes.group, attributes.resource, attributes.subresource)
        try:
            names = verdicts[asked]
        except KeyError:
            names = verdicts[asked] = self._names_allowed(attributes)
        return names is _EVERY or attributes.name in names

    def reason(self, attributes: Attributes) -> str:
        """Why `allows` said what it said: the binding that grants it, or roles that are bound and missing, or nothing."""
        if SUPERUSERS in attributes.user.groups:
            return ""
        missing: list[str] = []
        for binding in self._bindings_of(attributes.user, attributes.namespace):
            rules = self._rules_of(binding)
            if rules is None:
                resource = "role" if binding.role_kind == "Role" else "clusterrole"
                missing.append(f'{resource}.rbac.authorization.k8s.io "{binding.role_name}" not found')
            elif any(_allows(rule, attributes) for rule in rules):
                return f"RBAC: allowed by {binding.describe(attributes.user)}"
        texts = list(dict.fromkeys(missing))
        if not texts:
            return ""
        return f"RBAC: {texts[0]}" if len(texts) == 1 else f"RBAC: [{', '.join(texts)}]"

    def rules_for(self, user: UserInfo, namespace: str) -> Iterator[Rule]:
        """The rules that the user has for the cluster, then in `namespace` unless it is empty."""
        for binding in self._bindings_of(user, namespace):
            yield from self._rules_of(binding) or ()

    def rules_of_role(self, role_kind: str, namespace: str, name: str) -> tuple[Rule, ...] | None:
        """The rules of a Role or ClusterRole; None when there is none of that name."""
        return self._roles.get((namespace if role_kind == "Role" else "", name))

    def _names_allowed(self, attributes: Attributes) -> frozenset[str] | None:
        names: set[str] = set()
        for rule in self.rules_for(attributes.user, attributes.namespace):
            if rule.matches_resource(
                attributes.verb, attributes.group, attributes.resource, attributes.subresource
            ):  # fmt: skip
                if not rule.names:
                    return _EVERY
                names.update(rule.names)
        return frozenset(names)

    def _bindings_of(self, user: UserInfo, namespace: str) -> Iterator[_Binding]:
        found: dict[_Key, _Binding] = {}
        for subject in _identities(user):
            found.update(self._bound.get(subject, {}))
        yield from (found[key] for key in sorted(found) if not key[0])
        if namespace:
            yield from (found[key] for key in sorted(found) if key[0] == namespace)

    def _rules_of(self, binding: _Binding) -> tuple[Rule, ...] | None:
        return self.rules_of_role(binding.role_kind, binding.namespace, binding.role_name)

    def _unbind(self, key: _Key) -> None:
        binding = self._bindings.pop(key, None)
        for subject in binding.subjects if binding else ():
            self._bound.get(subject, {}).pop(key, None)


def _identities(user: UserInfo) -> tuple[_Subject, ...]:
    return (("User", user.name), *(("Group", group) for group in user.groups))


def _allows(rule: Rule, attributes: Attributes) -> bool:
    if not attributes.resource:
        return rule.matches_url(attributes.verb, attributes.path)
    return rule.matches_resource(
        attributes.verb, attributes.group, attributes.resource, attributes.subresource
    ) and (not rule.names or attributes.name in rule.names)
