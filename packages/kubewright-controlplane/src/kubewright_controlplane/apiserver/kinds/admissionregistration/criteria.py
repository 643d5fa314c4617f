"""Validation of what webhooks and policies match: rules, selectors, and match conditions.

Follows k8s.io/kubernetes pkg/apis/admissionregistration/validation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kubewright.cel.syntax import CompileError
from kubewright.cel.types import BOOL, Type
from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, duplicate, invalid, not_supported, required, too_many
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.schema.cel.admission import VARIABLES, compile_expression

FAILURE_POLICIES: Final = ("Fail", "Ignore")
MATCH_POLICIES: Final = ("Equivalent", "Exact")
REINVOCATION_POLICIES: Final = ("IfNeeded", "Never")
OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_MAX_CONDITIONS: Final = 64


def default_match(match: JSONObject) -> None:
    """Set the defaults of a policy's `matchConstraints` or a binding's `matchResources`, in place."""
    match.setdefault("matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    for rule in (*(match.get("resourceRules") or ()), *(match.get("excludeResourceRules") or ())):
        rule.setdefault("scope", "*")


def match_errors(path: str, match: JSONObject | None) -> list[FieldError]:
    """Return the errors of `matchConstraints` or `matchResources`; none if it is absent."""
    if match is None:
        return []
    errors = checks.one_of(f"{path}.matchPolicy", match.get("matchPolicy"), MATCH_POLICIES)
    for selector in ("namespaceSelector", "objectSelector"):
        errors += checks.label_selector(f"{path}.{selector}", match.get(selector))
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(field) or ()):
            errors += _named_rule_errors(f"{path}.{field}[{index}]", rule)
    return errors


def _named_rule_errors(path: str, rule: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    given: Sequence[str] = rule.get("resourceNames") or ()
    repeated = checks.repeated(given)
    for index, name in enumerate(given):
        at = f"{path}.resourceNames[{index}]"
        errors += checks.named(at, name, names.path_segment)
        if index in repeated:
            errors.append(duplicate(at, name))
    return errors + rule_errors(path, rule)


def rule_errors(path: str, rule: JSONObject, operations: Sequence[str] = OPERATIONS) -> list[FieldError]:
    """Return the errors of a RuleWithOperations, which may have these operations."""
    errors = _list_errors(f"{path}.operations", rule.get("operations") or [], "operations")
    for index, operation in enumerate(rule.get("operations") or ()):
        if operation not in operations:
            errors.append(not_supported(f"{path}.operations[{index}]", operation, operations))
    errors += _list_errors(f"{path}.apiGroups", rule.get("apiGroups") or [], "API groups")
    versions: list[str] = rule.get("apiVersions") or []
    errors += _list_errors(f"{path}.apiVersions", versions, "API versions")
    errors += [required(f"{path}.apiVersions[{index}]") for index, each in enumerate(versions) if not each]
    errors += _resource_errors(f"{path}.resources", rule.get("resources") or [])
    scope = rule.get("scope", "*")
    return errors if scope in _SCOPES else [*errors, not_supported(f"{path}.scope", scope, _SCOPES)]


def _list_errors(path: str, values: list[str], what: str) -> list[FieldError]:
    if not values:
        return [required(path)]
    if len(values) > 1 and "*" in values:
        return [invalid(path, values, f"if '*' is present, must not specify other {what}")]
    return []


def _resource_errors(path: str, resources: list[str]) -> list[FieldError]:
    if not resources:
        return [required(path)]
    errors: list[FieldError] = []
    whole: set[str] = set()
    """Resources whose subresources are all listed, as in `pods/*`."""
    everywhere: set[str] = set()
    """Subresources that are listed for all resources, as in `*/status`."""
    last_is_plain = False
    for index, each in enumerate(resources):
        if not each:
            errors.append(required(f"{path}[{index}]"))
            continue
        resource, slash, subresource = each.partition("/")
        if not slash:
            last_is_plain = each != "*"  # a real API server looks at the last one only
            continue
        if resource in whole:
            why = f"if '{resource}/*' is present, must not specify {each}"
            errors.append(invalid(f"{path}[{index}]", each, why))
        if subresource in everywhere:
            why = f"if '*/{subresource}' is present, must not specify {each}"
            errors.append(invalid(f"{path}[{index}]", each, why))
        if subresource == "*":
            whole.add(resource)
        if resource == "*":
            everywhere.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        errors.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and last_is_plain:
        why = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, resources, why))
    return errors


def condition_errors(
    path: str, conditions: Sequence[JSONObject], variables: Mapping[str, Type] = VARIABLES
) -> list[FieldError]:
    """Return the errors of `matchConditions`, whose expressions may use these variables."""
    errors: list[FieldError] = []
    if len(conditions) > _MAX_CONDITIONS:
        errors.append(too_many(path, len(conditions), _MAX_CONDITIONS))
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        at, name = f"{path}[{index}]", condition.get("name") or ""
        errors += _expression_errors(f"{at}.expression", (condition.get("expression") or "").strip(), variables)
        errors += checks.required_name(f"{at}.name", name, names.qualified_name)
        if name and name in seen:
            errors.append(duplicate(f"{at}.name", name))
        seen.add(name)
    return errors


def _expression_errors(path: str, source: str, variables: Mapping[str, Type]) -> list[FieldError]:
    if not source:
        return [required(path)]
    try:
        compile_expression(source, variables, BOOL)
    except CompileError as error:
        return [invalid(path, source, str(error))]
    return []
