"""Validation of what webhooks and policies match: rules, match policies and selectors.

Follows k8s.io/kubernetes pkg/apis/admissionregistration/validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, duplicate, invalid, not_supported, required
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.registry import checks

FAILURE_POLICIES: Final = ("Fail", "Ignore")
MATCH_POLICIES: Final = ("Equivalent", "Exact")
REINVOCATION_POLICIES: Final = ("IfNeeded", "Never")
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")


def default_match(match: JSONObject) -> None:
    """Set the defaults of a policy's `matchConstraints` or a binding's `matchResources`, in place."""
    match.setdefault("matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    for rule in (*(match.get("resourceRules") or ()), *(match.get("excludeResourceRules") or ())):
        rule.setdefault("scope", "*")


def match_faults(path: str, match: JSONObject | None) -> list[FieldError]:
    """Return the faults of `matchConstraints` or `matchResources`; none if it is absent."""
    if match is None:
        return []
    faults = checks.one_of(f"{path}.matchPolicy", match.get("matchPolicy"), MATCH_POLICIES)
    faults += checks.label_selector(f"{path}.namespaceSelector", match.get("namespaceSelector"))
    faults += checks.label_selector(f"{path}.objectSelector", match.get("objectSelector"))
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(field) or ()):
            faults += _named_rule_faults(f"{path}.{field}[{index}]", rule)
    return faults


def _named_rule_faults(path: str, rule: JSONObject) -> list[FieldError]:
    faults: list[FieldError] = []
    given: Sequence[str] = rule.get("resourceNames") or ()
    for index, name in enumerate(given):
        at = f"{path}.resourceNames[{index}]"
        faults += checks.named(at, name, names.path_segment)
        if name in given[:index]:
            faults.append(duplicate(at, name))
    return faults + rule_faults(path, rule)


def rule_faults(path: str, rule: JSONObject) -> list[FieldError]:
    """Return the faults of a rule with operations."""
    operations: Sequence[str] = rule.get("operations") or ()
    faults = _wildcard_faults(f"{path}.operations", operations, "operations")
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            faults.append(not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS))
    faults += _wildcard_faults(f"{path}.apiGroups", rule.get("apiGroups") or (), "API groups")
    versions: Sequence[str] = rule.get("apiVersions") or ()
    faults += _wildcard_faults(f"{path}.apiVersions", versions, "API versions")
    faults += [required(f"{path}.apiVersions[{index}]") for index, version in enumerate(versions) if not version]
    faults += _resource_faults(f"{path}.resources", rule.get("resources") or ())
    scope = rule.get("scope")
    if scope is not None and scope not in _SCOPES:
        faults.append(not_supported(f"{path}.scope", scope, _SCOPES))
    return faults


def _wildcard_faults(path: str, values: Sequence[str], what: str) -> list[FieldError]:
    if not values:
        return [required(path)]
    if len(values) > 1 and "*" in values:
        return [invalid(path, list(values), f"if '*' is present, must not specify other {what}")]
    return []


def _resource_faults(path: str, resources: Sequence[str]) -> list[FieldError]:
    faults = [] if resources else [required(path)]
    every_subresource: set[str] = set()
    every_resource: set[str] = set()
    plain = False
    for index, each in enumerate(resources):
        if not each:
            faults.append(required(f"{path}[{index}]"))
            continue
        resource, slash, subresource = each.partition("/")
        if not slash:
            plain = each != "*"
            continue
        if resource in every_subresource:
            text = f"if '{resource}/*' is present, must not specify {each}"
            faults.append(invalid(f"{path}[{index}]", each, text))
        if subresource in every_resource:
            text = f"if '*/{subresource}' is present, must not specify {each}"
            faults.append(invalid(f"{path}[{index}]", each, text))
        if subresource == "*":
            every_subresource.add(resource)
        if resource == "*":
            every_resource.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        text = "if '*/*' is present, must not specify other resources"
        faults.append(invalid(path, list(resources), text))
    if "*" in resources and plain:
        text = "if '*' is present, must not specify other resources without subresources"
        faults.append(invalid(path, list(resources), text))
    return faults
