"""RBAC: the rules of a user, and authorization by them.

`put_role`, `put_binding` and `remove` take the four kinds as they are committed; checks use the compiled rules. A
change discards all cached decisions. After that, a repeated check of a user, namespace, verb and resource is two
dictionary lookups, whatever the number of roles.

Follows k8s.io/kubernetes pkg/registry/rbac/validation and plugin/pkg/auth/authorizer/rbac: rules are additive. A
binding to a missing role grants nothing, and the reason of a denial names the role.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
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

_Verdict: TypeAlias = tuple[Collection[str], ...] | None
"""Names of the objects that are allowed, of each rule; None: all objects."""
_Place: TypeAlias = tuple[str, tuple[str, ...], str]
"""User name, groups and namespace."""
_Question: TypeAlias = tuple[str, str, str, str]
"""Verb, group, resource, subresource."""
_MAX_VERDICTS: Final = 65_536
"""Verdicts that are cached, and rules with names in them."""
_LONGEST: Final = 4096
"""Characters of a question whose verdict is cached, with the names of the user and the groups."""
_EVERYTHING: Final[list[JSONObject]] = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]


@dataclass(frozen=True, slots=True)
class _Binding:
    kind: str
    namespace: str
    name: str
    role_kind: str
    role_name: str
    subjects: tuple[_Subject, ...]
    described: tuple[str, ...]
    """Subjects as reasons name them: `ServiceAccount "name/namespace"`."""

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
    """The rules of a cluster, and the subjects they are bound to.

    Guarantees
        A check sees every earlier change.
        A member of `system:masters` may do anything, whatever the rules.

    Written by one thread. Any thread may check: it sees the rules before or after a change, and leaves no decision by
    the rules before it.
    """

    def __init__(self, *, allow_all: bool = False) -> None:
        """With `allow_all`, every user may do anything."""
        self._for_all = compile_rules(_EVERYTHING) if allow_all else ()
        self._roles: dict[_Key, tuple[Rule, ...]] = {}
        self._bindings: dict[_Key, _Binding] = {}
        self._bound: dict[_Subject, dict[_Key, _Binding]] = {}
        self._verdicts: dict[_Place, dict[_Question, _Verdict]] = {}
        self._kept = 0
        """The size of the verdicts, or more: changes of roles drop them uncounted."""

    def put_role(self, namespace: str, name: str, rules: tuple[Rule, ...]) -> None:
        """Add or replace a Role, or a ClusterRole, which has no namespace."""
        self._verdicts = {}
        self._roles[namespace, name] = rules

    def put_binding(self, kind: str, obj: JSONObject) -> None:
        """Add or replace a RoleBinding or ClusterRoleBinding."""
        metadata = obj["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        self._verdicts = {}
        self._unbind(key)
        binding = _Binding.from_dict(kind, obj)
        self._bindings[key] = binding
        for subject in binding.subjects:
            self._bound.setdefault(subject, {})[key] = binding

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Remove a deleted role or binding."""
        self._verdicts = {}
        if kind in ("Role", "ClusterRole"):
            self._roles.pop((namespace, name), None)
        else:
            self._unbind((namespace, name))

    def authorize(self, access: AccessAttributes) -> Decision:
        """Return whether the user may do it. A denial names the bound roles that are missing."""
        return ALLOWED if self.allows(access) else Decision(False, self._reason_of_denial(access))

    def allows(self, access: AccessAttributes) -> bool:
        user = access.user
        if user.is_superuser:
            return True
        if not access.resource:
            return any(rule.matches_url(access.verb, access.path) for rule in self.rules_for(user, namespace=""))
        allowed = self._verdict(access)
        return allowed is None or any(access.name in names for names in allowed)

    def explain(self, access: AccessAttributes) -> str:
        """Return the binding that allows it, or else the bound roles that are missing, as text for people."""
        if access.user.is_superuser:
            return ""
        for binding in self._bindings_of(access.user, access.namespace):
            if any(_allows(rule, access) for rule in self._rules_of(binding) or ()):
                return f"RBAC: allowed by {binding.describe(access.user)}"
        return self._reason_of_denial(access)

    def _reason_of_denial(self, access: AccessAttributes) -> str:
        unresolved = self.unresolved(access.user, access.namespace)
        return f"RBAC: {unresolved}" if unresolved else ""

    def unresolved(self, user: UserInfo, namespace: str) -> str:
        """Return the bound roles of the user that are missing, as text for people; empty if there are none."""
        missing = self.missing_roles(user, namespace)
        texts = [f'{kind.lower()}.rbac.authorization.k8s.io "{name}" not found' for kind, name in missing]
        return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""

    def missing_roles(self, user: UserInfo, namespace: str) -> list[tuple[str, str]]:
        """Yield kind and name of each bound role of the user that is missing."""
        bindings = self._bindings_of(user, namespace)
        missing = ((each.role_kind, each.role_name) for each in bindings if self._rules_of(each) is None)
        return list(dict.fromkeys(missing))

    def rules_for(self, user: UserInfo, namespace: str) -> Iterator[Rule]:
        """Return the rules of the user for the cluster, followed by those in `namespace` unless it is empty."""
        yield from self._for_all
        for binding in self._bindings_of(user, namespace):
            yield from self._rules_of(binding) or ()

    def rules_of_role(self, role_kind: str, namespace: str, name: str) -> tuple[Rule, ...] | None:
        """Return the rules of a Role or ClusterRole; None if it does not exist."""
        return self._roles.get((namespace if role_kind == "Role" else "", name))

    def _verdict(self, access: AccessAttributes) -> _Verdict:
        user = access.user
        place = (user.name, user.groups, access.namespace)
        asked = (access.verb, access.group, access.resource, access.subresource)
        verdicts = self._verdicts
        try:
            return verdicts[place][asked]
        except KeyError:
            verdict = self._names_allowed(access)
        if sum(map(len, (user.name, *user.groups, access.namespace, *asked))) <= _LONGEST:
            if self._kept >= _MAX_VERDICTS:
                verdicts = self._verdicts = {}
                self._kept = 0
            verdicts.setdefault(place, {})[asked] = verdict
            self._kept += 1 + len(verdict or ())
        return verdict

    def _names_allowed(self, access: AccessAttributes) -> _Verdict:
        found: list[Collection[str]] = []
        for rule in self.rules_for(access.user, access.namespace):
            if rule.matches_resource(access.verb, access.group, access.resource, access.subresource):
                if not rule.names:
                    return None
                found.append(rule.allowed_names)
        return tuple(found)

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
        not rule.names or access.name in rule.allowed_names
    )
