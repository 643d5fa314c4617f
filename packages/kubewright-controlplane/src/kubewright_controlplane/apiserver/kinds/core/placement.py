"""Where a Pod may run: affinity, topology spread constraints and tolerations.

Follows k8s.io/kubernetes pkg/apis/core/validation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, duplicate, forbidden, invalid, not_supported, required
from kubewright.machinery.json import JSONArray, JSONObject
from kubewright_controlplane.apiserver.kinds.core import nodeselectors
from kubewright_controlplane.apiserver.registry import checks

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")
_NODE_POLICIES: Final = ("Honor", "Ignore")


def toleration_errors(path: str, given: list[JSONObject]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, toleration in enumerate(given):
        at = f"{path}[{index}]"
        key, operator = toleration.get("key") or "", toleration.get("operator") or ""
        value, effect = toleration.get("value") or "", toleration.get("effect") or ""
        if key:
            errors += checks.named(f"{at}.key", key, names.qualified_name)
        elif operator != "Exists":
            detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(invalid(f"{at}.operator", operator, detail))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(invalid(f"{at}.effect", effect, detail))
        if operator in ("", "Equal"):
            wrong = names.label_value(value)
            if wrong:
                errors.append(invalid(f"{at}.operator", value, ";".join(wrong)))
        elif operator == "Exists":
            if value:
                errors.append(invalid(f"{at}.operator", value, "value must be empty when `operator` is 'Exists'"))
        else:
            errors.append(not_supported(f"{at}.operator", operator, ("Equal", "Exists")))
        if effect:
            errors += checks.one_of(f"{at}.effect", effect, _EFFECTS)
    return errors


def affinity_errors(path: str, affinity: JSONObject) -> list[FieldError]:
    nodes: JSONObject = affinity.get("nodeAffinity") or {}
    errors: list[FieldError] = []
    if nodes.get(_REQUIRED) is not None:
        errors += nodeselectors.selector_errors(f"{path}.nodeAffinity.{_REQUIRED}", nodes[_REQUIRED])
    preferred: JSONArray = nodes.get(_PREFERRED) or []
    errors += nodeselectors.preference_errors(f"{path}.nodeAffinity.{_PREFERRED}", preferred)
    for kind in ("podAffinity", "podAntiAffinity"):
        errors += _pod_affinity_errors(f"{path}.{kind}", affinity.get(kind) or {})
    return errors


def _pod_affinity_errors(path: str, terms: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, term in enumerate(terms.get(_REQUIRED) or ()):
        errors += _term_errors(f"{path}.{_REQUIRED}[{index}]", term)
    for index, weighted in enumerate(terms.get(_PREFERRED) or ()):
        at, weight = f"{path}.{_PREFERRED}[{index}]", weighted.get("weight") or 0
        if not 1 <= weight <= 100:
            errors.append(invalid(f"{at}.weight", weight, "must be in the range 1-100"))
        errors += _term_errors(f"{at}.podAffinityTerm", weighted.get("podAffinityTerm") or {})
    return errors


def _term_errors(path: str, term: JSONObject) -> list[FieldError]:
    errors = checks.label_selector(f"{path}.labelSelector", term.get("labelSelector"))
    errors += checks.label_selector(f"{path}.namespaceSelector", term.get("namespaceSelector"))
    for namespace in term.get("namespaces") or ():
        errors += checks.named(f"{path}.namespace", namespace, names.dns1123_label)
    errors += _label_key_errors(path, term)
    if not term.get("topologyKey"):
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    return errors + checks.named(f"{path}.topologyKey", term.get("topologyKey") or "", names.qualified_name)


def spread_errors(path: str, constraints: JSONArray) -> list[FieldError]:
    """Return the errors of topology spread constraints."""
    errors: list[FieldError] = []
    kinds = [(each.get("topologyKey") or "", each.get("whenUnsatisfiable") or "") for each in constraints]
    rest = Counter(kinds)
    for index, constraint in enumerate(constraints):
        at, (key, action) = f"{path}[{index}]", kinds[index]
        errors += checks.positive(f"{at}.maxSkew", constraint.get("maxSkew") or 0)
        if not key:
            errors.append(required(f"{at}.topologyKey", "can not be empty"))
        if action not in _UNSATISFIABLE:
            errors.append(not_supported(f"{at}.whenUnsatisfiable", action, _UNSATISFIABLE))
        rest[kinds[index]] -= 1
        if rest[kinds[index]]:
            errors.append(duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
        errors += _domain_errors(at, constraint, action)
        errors += _label_key_errors(at, constraint)
        errors += checks.label_selector(f"{at}.labelSelector", constraint.get("labelSelector"))
    return errors


def _domain_errors(path: str, constraint: JSONObject, action: str) -> list[FieldError]:
    domains = constraint.get("minDomains")
    errors = checks.positive(f"{path}.minDomains", domains)
    if domains is not None and action != "DoNotSchedule":
        why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.append(invalid(f"{path}.minDomains", domains, why))
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        policy = constraint.get(field)
        if policy is not None and policy not in _NODE_POLICIES:
            errors.append(not_supported(f"{path}.{field}", policy, _NODE_POLICIES))
    return errors


def _label_key_errors(path: str, term: JSONObject) -> list[FieldError]:
    """Return the errors of `matchLabelKeys` and `mismatchLabelKeys`, which add the Pod's own labels to a selector."""
    matched: list[str] = term.get("matchLabelKeys") or []
    others: list[str] = term.get("mismatchLabelKeys") or []
    selector: JSONObject | None = term.get("labelSelector")
    errors: list[FieldError] = []
    for field, keys in (("matchLabelKeys", matched), ("mismatchLabelKeys", others)):
        if keys and selector is None:
            errors.append(forbidden(f"{path}.{field}", "must not be specified when labelSelector is not set"))
        for index, key in enumerate(keys if selector is not None else ()):
            errors += checks.named(f"{path}.{field}[{index}]", key, names.qualified_name)
    places = {key: index for index, key in enumerate(matched)}
    for key in _repeated_keys(selector or {}):
        if key in places:
            errors.append(invalid(f"{path}[{places[key]}]", key, "exists in both matchLabelKeys and labelSelector"))
    both = set(others)
    why = "exists in both matchLabelKeys and mismatchLabelKeys"
    return errors + [
        invalid(f"{path}.matchLabelKeys[{index}]", key, why) for index, key in enumerate(matched) if key in both
    ]


def _repeated_keys(selector: JSONObject) -> Iterator[str]:
    seen = set[str](selector.get("matchLabels") or ())
    for expression in selector.get("matchExpressions") or ():
        key = expression.get("key") or ""
        if key in seen:
            yield key
        seen.add(key)
