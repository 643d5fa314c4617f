"""Strategies of rbac.authorization.k8s.io. Users cannot grant permissions that they do not have.

Follows k8s.io/kubernetes pkg/registry/rbac, pkg/apis/rbac/validation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.errors import NotFound, StatusDetails
from kubewright.machinery.fields import FieldError, invalid, not_supported, required
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.authorization.attributes import AccessAttributes, forbidden_object
from kubewright_controlplane.apiserver.authorization.rbac import RBAC
from kubewright_controlplane.apiserver.authorization.rules import (
    Rule,
    TooManyComparisons,
    compile_rules,
    quoted,
    uncovered,
)
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.kinds.generic import UpsertStrategy
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Attributes, Strategy
from kubewright_controlplane.apiserver.user import UserInfo

_GROUP: Final = "rbac.authorization.k8s.io"
_EVERYTHING: Final = (Rule(("*",), ("*",), ("*",)), Rule(verbs=("*",), urls=("*",)))
_TOO_LARGE: Final = (
    "the rules have too many combinations of verbs, groups, resources and names to compare them with the permissions "
    "of the user; split them, or let a user with the permission to escalate or bind write them"
)
_COLLECTED: Final = frozenset({"ownerReferences", "finalizers", "managedFields", "resourceVersion"})


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    rbac = server.authorizer.rbac
    return {
        "roles": RoleStrategy(rbac, "roles"),
        "clusterroles": RoleStrategy(rbac, "clusterroles"),
        "rolebindings": BindingStrategy(rbac, "rolebindings"),
        "clusterrolebindings": BindingStrategy(rbac, "clusterrolebindings"),
    }


class _EscalationChecked(UpsertStrategy):
    """A kind whose writes are checked against the permissions of the writer."""

    def __init__(self, rbac: RBAC, plural: str) -> None:
        self._rbac = rbac
        self._plural = plural
        self._namespaced = not plural.startswith("cluster")

    def name_errors(self, name: str) -> list[str]:
        return names.path_segment(name)

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        if not attributes.user.is_superuser:
            self.check(obj, {}, attributes)

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, attributes: Attributes) -> None:
        if not attributes.user.is_superuser and not _only_gc_fields_differ(obj, old):
            self.check(obj, old, attributes)

    def check(self, obj: JSONObject, old: JSONObject, attributes: Attributes) -> None:
        """Raise Forbidden if the write grants permissions that the user lacks."""
        raise NotImplementedError

    def _may(self, attributes: Attributes, verb: str, resource: str, name: str) -> bool:
        access = AccessAttributes(
            attributes.user, verb, _GROUP, "*", resource, namespace=attributes.namespace, name=name
        )  # fmt: skip
        return self._rbac.authorize(access).allowed

    def _require(self, rules: Iterable[Rule], attributes: Attributes, otherwise: str = "") -> None:
        user = attributes.user
        try:
            missing = uncovered(list(self._rbac.rules_for(user, attributes.namespace)), rules)
        except TooManyComparisons:
            raise forbidden_object(_GROUP, self._plural, attributes.name, _TOO_LARGE) from None
        if missing:
            why = otherwise or _escalation(user, missing, self._rbac.missing_roles(user, attributes.namespace))
            raise forbidden_object(_GROUP, self._plural, attributes.name, why)


class RoleStrategy(_EscalationChecked):
    """Roles and ClusterRoles."""

    def default(self, obj: JSONObject) -> None:
        obj.setdefault("rules", None)

    def check(self, obj: JSONObject, old: JSONObject, attributes: Attributes) -> None:
        if self._may(attributes, "escalate", self._plural, attributes.name):
            return
        self._require(compile_rules(obj.get("rules")), attributes)
        if _aggregates(obj) or _aggregates(old):
            why = "must have cluster-admin privileges to use the aggregationRule"
            self._require(_EVERYTHING, attributes, otherwise=why)

    def validate(self, obj: JSONObject) -> list[FieldError]:
        errors: list[FieldError] = []
        for index, rule in enumerate(obj.get("rules") or ()):
            errors += _rule_errors(f"rules[{index}]", rule, namespaced=self._namespaced)
        aggregation = obj.get("aggregationRule")
        if aggregation is not None:
            path, selectors = "aggregationRule.clusterRoleSelectors", aggregation.get("clusterRoleSelectors") or []
            if not selectors:
                why = "at least one clusterRoleSelector required if aggregationRule is non-nil"
                errors.append(required(path, why))
            for index, selector in enumerate(selectors):
                errors += checks.label_selector(f"{path}[{index}]", selector)
        return errors


class BindingStrategy(_EscalationChecked):
    """RoleBindings and ClusterRoleBindings."""

    def default(self, obj: JSONObject) -> None:
        reference: JSONObject = obj.setdefault("roleRef", {})
        if not reference.get("apiGroup"):
            reference["apiGroup"] = _GROUP
        for subject in obj.get("subjects") or ():
            if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = _GROUP

    def check(self, obj: JSONObject, old: JSONObject, attributes: Attributes) -> None:
        reference = obj["roleRef"]
        kind, name = reference.get("kind") or "", reference.get("name") or ""
        if kind not in ("Role", "ClusterRole"):
            return
        resource = "roles" if kind == "Role" else "clusterroles"
        if self._may(attributes, "bind", resource, name):
            return
        rules = self._rbac.rules_of_role(kind, attributes.namespace, name)
        if rules is None:
            text = f'{self._plural}.{_GROUP} "{name}" not found'
            raise NotFound(text, details=StatusDetails(name=name, group=_GROUP, kind=self._plural))
        self._require(rules, attributes)

    def validate(self, obj: JSONObject) -> list[FieldError]:
        reference = obj["roleRef"]
        errors: list[FieldError] = []
        if reference.get("apiGroup") != _GROUP:
            errors.append(not_supported("roleRef.apiGroup", reference.get("apiGroup") or "", (_GROUP,)))
        kinds = ("Role", "ClusterRole") if self._namespaced else ("ClusterRole",)
        if reference.get("kind") not in kinds:
            errors.append(not_supported("roleRef.kind", reference.get("kind") or "", kinds))
        errors += checks.required_name("roleRef.name", reference.get("name"), names.path_segment)
        for index, subject in enumerate(obj.get("subjects") or ()):
            errors += _subject_errors(f"subjects[{index}]", subject, namespaced=self._namespaced)
        return errors

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        if checks.same(obj["roleRef"], old["roleRef"]):
            return []
        reference = obj["roleRef"]
        shown = {"APIGroup": reference["apiGroup"], "Kind": reference.get("kind"), "Name": reference.get("name")}
        return [invalid("roleRef", shown, "cannot change roleRef")]


def _escalation(user: UserInfo, missing: Iterable[Rule], unresolved: Iterable[tuple[str, str]]) -> str:
    listed = "\n".join(sorted({str(rule) for rule in missing}))
    errors = [f'{kind.lower()}s.{_GROUP} "{name}" not found' for kind, name in unresolved]
    return (
        f'user "{user.name}" (groups={quoted(user.groups)}) is attempting to grant RBAC permissions '
        f"not currently held:\n{listed}" + (f"; resolution errors: [{', '.join(errors)}]" if errors else "")
    )


def _aggregates(role: JSONObject) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _only_gc_fields_differ(obj: JSONObject, old: JSONObject) -> bool:
    """Return whether only fields differ that the garbage collector changes."""

    def rest(each: JSONObject) -> JSONObject:
        return {**each, "metadata": {key: val for key, val in each["metadata"].items() if key not in _COLLECTED}}

    return checks.same(rest(obj), rest(old))


def _rule_errors(path: str, rule: JSONObject, *, namespaced: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    if not rule.get("verbs"):
        errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs")
    if urls:
        at = f"{path}.nonResourceURLs"
        if namespaced:
            errors.append(invalid(at, urls, "namespaced rules cannot apply to non-resource URLs"))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            why = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(invalid(at, urls, why))
        return errors
    if not rule.get("apiGroups"):
        errors.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return errors


def _subject_errors(path: str, subject: JSONObject, *, namespaced: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    kind, name, group = subject.get("kind") or "", subject.get("name") or "", subject.get("apiGroup") or ""
    if not name:
        errors.append(required(f"{path}.name"))
    if kind == "ServiceAccount":
        if name:
            errors += checks.named(f"{path}.name", name, names.dns1123_subdomain)
        if group:
            errors.append(not_supported(f"{path}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            errors.append(required(f"{path}.namespace"))
    elif kind in ("User", "Group"):
        if group != _GROUP:
            errors.append(not_supported(f"{path}.apiGroup", group, (_GROUP,)))
    else:
        errors.append(not_supported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group")))
    return errors
