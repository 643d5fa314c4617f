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

from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.authorization.attributes import ALLOWED, AccessAttributes, Decision
from kubewright_controlplane.apiserver.authorization.rules import Rule, compile_rules
from kubewright_controlplane.apiserver.user import UserInfo

_Key: TypeAlias = tuple[str, str]
"""Namespace (empty for the cluster) and name."""
_Subject: TypeAlias = tuple[str, str]
"""`User` or `Group`, and its name."""

_Verdict: TypeAlias = frozenset[str] | None
"""Names of the objects for which an answer is yes; None: of all objects."""
_Place: TypeAlias = tuple[str, tuple[str, ...], str]
"""A user's name, its groups, and a namespace."""
_Question: TypeAlias = tuple[str, str, str, str]
"""Verb, group, resource, subresource."""
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
        self._verdicts: dict[_Place, dict[_Question, _Verdict]] = {}

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

    def authorize(self, access: AccessAttributes) -> Decision:
        """Whether the user may do it; a denial says which bound roles are missing."""
        return ALLOWED if self.allows(access) else Decision(False, self.explain(access))

    def allows(self, access: AccessAttributes) -> bool:
        user = access.user
        if user.is_superuser:
            return True
        if not access.resource:
            return any(rule.matches_url(access.verb, access.path) for rule in self.rules_for(user, namespace=""))
        place = (user.name, user.groups, access.namespace)
        verdicts = self._verdicts.get(place)
        if verdicts is None:
            if len(self._verdicts) >= _MAX_USERS:
                self._verdicts.clear()
            verdicts = self._verdicts[place] = {}
        asked = (access.verb, access.group, access.resource, access.subresource)
        try:
            names = verdicts[asked]
        except KeyError:
            names = verdicts[asked] = self._names_allowed(access)
        return names is None or access.name in names

    def explain(self, access: AccessAttributes) -> str:
        """For people: the binding that allows it, or else the roles that are bound and missing, if any."""
        if access.user.is_superuser:
            return ""
        for binding in self._bindings_of(access.user, access.namespace):
            if any(_allows(rule, access) for rule in self._rules_of(binding) or ()):
                return f"RBAC: allowed by {binding.describe(access.user)}"
        unresolved = self.unresolved(access.user, access.namespace)
        return f"RBAC: {unresolved}" if unresolved else ""

    def unresolved(self, user: UserInfo, namespace: str) -> str:
        """For people: the roles that the user is bound to and that are missing; empty when there are none."""
        missing = self.missing_roles(user, namespace)
        texts = [f'{kind.lower()}.rbac.authorization.k8s.io "{name}" not found' for kind, name in missing]
        return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""

    def missing_roles(self, user: UserInfo, namespace: str) -> list[tuple[str, str]]:
        """Kind and name of each role that the user is bound to and that is not there."""
        bindings = self._bindings_of(user, namespace)
        missing = ((each.role_kind, each.role_name) for each in bindings if self._rules_of(each) is None)
        return list(dict.fromkeys(missing))

    def rules_for(self, user: UserInfo, namespace: str) -> Iterator[Rule]:
        """The rules that the user has for the cluster, then in `namespace` unless it is empty."""
        for binding in self._bindings_of(user, namespace):
            yield from self._rules_of(binding) or ()

    def rules_of_role(self, role_kind: str, namespace: str, name: str) -> tuple[Rule, ...] | None:
        """The rules of a Role or ClusterRole; None when there is none of that name."""
        return self._roles.get((namespace if role_kind == "Role" else "", name))

    def _names_allowed(self, access: AccessAttributes) -> _Verdict:
        names: set[str] = set()
        for rule in self.rules_for(access.user, access.namespace):
            if rule.matches_resource(access.verb, access.group, access.resource, access.subresource):
                if not rule.names:
                    return None
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


def _allows(rule: Rule, access: AccessAttributes) -> bool:
    if not access.resource:
        return rule.matches_url(access.verb, access.path)
    return rule.matches_resource(access.verb, access.group, access.resource, access.subresource) and (
        not rule.names or access.name in rule.names
    )
