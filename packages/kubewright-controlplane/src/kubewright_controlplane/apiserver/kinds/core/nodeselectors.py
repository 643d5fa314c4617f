"""Selectors of Nodes: in the affinity of Pods and PersistentVolumes, and in the topologies of StorageClasses.

Follows k8s.io/kubernetes pkg/apis/core/validation.
"""

from __future__ import annotations

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, duplicate, forbidden, invalid, required
from kubewright.machinery.json import JSONArray, JSONObject
from kubewright_controlplane.apiserver.registry import checks


def selector_errors(path: str, selector: JSONObject) -> list[FieldError]:
    """Return the errors of a NodeSelector."""
    terms: JSONArray = selector.get("nodeSelectorTerms") or []
    if not terms:
        return [required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    errors: list[FieldError] = []
    for index, term in enumerate(terms):
        errors += _term_errors(f"{path}.nodeSelectorTerms[{index}]", term, check_values=True)
    return errors


def preference_errors(path: str, preferences: JSONArray) -> list[FieldError]:
    """Return the errors of weighted terms. Their values may be invalid, because a cluster can have one Node."""
    errors: list[FieldError] = []
    for index, each in enumerate(preferences):
        weight = each.get("weight") or 0
        if not 1 <= weight <= 100:
            errors.append(invalid(f"{path}[{index}].weight", weight, "must be in the range 1-100"))
        errors += _term_errors(f"{path}[{index}].preference", each.get("preference") or {}, check_values=False)
    return errors


def topology_errors(path: str, topologies: JSONArray) -> list[FieldError]:
    """Return the errors of the allowed topologies of a StorageClass."""
    errors: list[FieldError] = []
    known: set[frozenset[tuple[str, frozenset[str]]]] = set()
    for index, topology in enumerate(topologies):
        expressions = topology.get("matchLabelExpressions") or []
        found, values = _topology_term_errors(f"{path}[{index}].matchLabelExpressions", expressions)
        errors += found
        if values in known:
            errors.append(duplicate(f"{path}[{index}].matchLabelExpressions", ""))
        known.add(values)
    return errors


def _term_errors(path: str, term: JSONObject, *, check_values: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        errors += _label_errors(f"{path}.matchExpressions[{index}]", expression, check_values=check_values)
    for index, expression in enumerate(term.get("matchFields") or ()):
        errors += _field_errors(f"{path}.matchFields[{index}]", expression)
    return errors


def _label_errors(path: str, expression: JSONObject, *, check_values: bool) -> list[FieldError]:
    operator, values = expression.get("operator") or "", expression.get("values") or []
    errors: list[FieldError] = []
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(f"{path}.values", why))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            errors.append(required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"))
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    errors += checks.named(f"{path}.key", expression.get("key") or "", names.qualified_name)
    for index, value in enumerate(values if check_values else ()):
        errors += checks.named(f"{path}.values[{index}]", value, names.label_value)
    return errors


def _field_errors(path: str, expression: JSONObject) -> list[FieldError]:
    key, values = expression.get("key") or "", expression.get("values") or []
    operator = expression.get("operator") or ""
    errors: list[FieldError] = []
    if operator not in ("In", "NotIn"):
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(f"{path}.values", why))
    if key != "metadata.name":
        return [*errors, invalid(f"{path}.key", key, "not a valid field selector key")]
    for index, value in enumerate(values):
        errors += checks.named(f"{path}.values[{index}]", value, names.dns1123_subdomain)
    return errors


def _topology_term_errors(
    path: str, expressions: JSONArray
) -> tuple[list[FieldError], frozenset[tuple[str, frozenset[str]]]]:
    """Return the errors of a term, and the values of each key."""
    errors: list[FieldError] = []
    found: dict[str, set[str]] = {}
    for index, expression in enumerate(expressions):
        at, key, values = f"{path}[{index}]", expression.get("key") or "", expression.get("values") or []
        if not values:
            errors.append(required(f"{at}.values"))
        seen: set[str] = set()
        for place, value in enumerate(values):
            if value in seen:
                errors.append(duplicate(f"{at}.values[{place}]", value))
            seen.add(value)
        errors += checks.named(f"{at}.key", key, names.qualified_name)
        if key in found:
            errors.append(duplicate(f"{at}.key", key))
        found[key] = seen
    return errors, frozenset((key, frozenset(values)) for key, values in found.items())
