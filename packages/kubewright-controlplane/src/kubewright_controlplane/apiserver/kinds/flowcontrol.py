"""Strategies of flowcontrol.apiserver.k8s.io. The objects are stored and served, but requests are not queued.

Follows k8s.io/kubernetes pkg/registry/flowcontrol and pkg/apis/flowcontrol.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import ceil, log2
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, duplicate, forbidden, invalid, not_supported, required
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver import catalog
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Attributes, Strategy

_EXEMPT: Final = "exempt"
_FIXED: Final = (_EXEMPT, "catch-all")
"""Objects that the server needs, and whose spec users cannot change."""
_LOWEST_PRECEDENCE: Final = 10_000
_METHODS: Final = ("ByNamespace", "ByUser")
_VERBS: Final = (
    "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch",
)  # fmt: skip
_SUBJECTS: Final = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
_MOST_QUEUES: Final = 10_000_000
_HASH_BITS: Final = 60
_NOT_NEGATIVE: Final = "must be a non-negative integer"
_NAMESPACE_RULE: Final = "each member of this list must be '*' or a DNS-1123 label; "


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {"flowschemas": FlowSchemaStrategy(), "prioritylevelconfigurations": PriorityLevelStrategy()}


class FlowSchemaStrategy(Strategy):
    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        obj["status"] = {}

    def validate(self, obj: JSONObject) -> list[FieldError]:
        spec, name = obj.get("spec") or {}, obj["metadata"].get("name") or ""
        errors = _precedence_errors("spec.matchingPrecedence", spec.get("matchingPrecedence") or 0, name)
        method = spec.get("distinguisherMethod")
        if method is not None and method.get("type") not in _METHODS:
            shown = {"Type": method.get("type") or ""}
            errors.append(not_supported("spec.distinguisherMethod.type", shown, _METHODS))
        errors += _reference_errors("spec.priorityLevelConfiguration.name", spec)
        for index, rule in enumerate(spec.get("rules") or ()):
            errors += _rule_errors(f"spec.rules[{index}]", rule)
        if name in _FIXED and not checks.same(spec, _fixed_spec("FlowSchema", name)):
            errors.append(invalid("spec", spec, f"spec of '{name}' must equal the fixed value"))
        return errors

    def validate_status_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return _condition_errors(obj.get("status") or {})


class PriorityLevelStrategy(Strategy):
    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        obj["status"] = {}

    def validate(self, obj: JSONObject) -> list[FieldError]:
        spec, name = obj.get("spec") or {}, obj["metadata"].get("name") or ""
        errors = _level_errors(spec, name)
        if name not in _FIXED:
            return errors
        fixed, excepted = _fixed_spec("PriorityLevelConfiguration", name), ""
        if name == _EXEMPT:
            fixed, excepted = {**fixed, "exempt": spec.get("exempt")}, " except the 'spec.exempt' field"
        if not checks.same(spec, fixed):
            errors.append(invalid("spec", spec, f"spec of '{name}'{excepted} must equal the fixed value"))
        return errors

    def validate_status_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return _condition_errors(obj.get("status") or {})


@cache
def _fixed_spec(kind: str, name: str) -> JSONObject:
    """Return the spec of an object that the server creates when it starts."""
    found = (each for each in catalog.bootstrap_objects() if each["kind"] == kind and each["metadata"]["name"] == name)
    spec: JSONObject = next(found)["spec"]
    return spec


def _condition_errors(status: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, condition in enumerate(status.get("conditions") or ()):
        at, kind = f"status.conditions[{index}].type", condition.get("type") or ""
        if kind in seen:
            errors.append(duplicate(at, kind))
        seen.add(kind)
        if not kind:
            errors.append(required(at))
    return errors


# Flow schemas


def _precedence_errors(path: str, precedence: int, name: str) -> list[FieldError]:
    if precedence <= 0:
        return [invalid(path, precedence, "must be a positive value")]
    if precedence > _LOWEST_PRECEDENCE:
        return [invalid(path, precedence, f"must not be greater than {_LOWEST_PRECEDENCE}")]
    if precedence == 1 and name != _EXEMPT:
        return [invalid(path, precedence, "only the schema named 'exempt' may have matchingPrecedence 1")]
    return []


def _reference_errors(path: str, spec: JSONObject) -> list[FieldError]:
    level = (spec.get("priorityLevelConfiguration") or {}).get("name")
    return (
        checks.named(path, level, names.dns1123_subdomain)
        if level
        else [required(path, "must reference a priority level")]
    )


def _rule_errors(path: str, rule: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    if not rule.get("subjects"):
        errors.append(required(f"{path}.subjects", "subjects must contain at least one value"))
    for index, subject in enumerate(rule.get("subjects") or ()):
        errors += _subject_errors(f"{path}.subjects[{index}]", subject)
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        errors.append(required(path, "at least one of resourceRules and nonResourceRules has to be non-empty"))
    for index, each in enumerate(rule.get("resourceRules") or ()):
        errors += _resource_rule_errors(f"{path}.resourceRules[{index}]", each)
    for index, each in enumerate(rule.get("nonResourceRules") or ()):
        errors += _url_rule_errors(f"{path}.nonResourceRules[{index}]", each)
    return errors


def _subject_errors(path: str, subject: JSONObject) -> list[FieldError]:
    kind = subject.get("kind") or ""
    if kind not in _SUBJECTS:
        return [not_supported(f"{path}.kind", kind, _SUBJECTS)]
    field = _SUBJECTS[kind]
    at, details = f"{path}.{field}", subject.get(field)
    if details is None:
        errors = [required(at, f"{field} is required when subject kind is '{kind}'")]
    elif kind == "ServiceAccount":
        errors = _account_errors(at, details)
    else:
        errors = [] if details.get("name") else [required(f"{at}.name")]
    return errors + [
        forbidden(f"{path}.{other}", f"{other} is forbidden when subject kind is not '{of_kind}'")
        for of_kind, other in _SUBJECTS.items()
        if other != field and subject.get(other) is not None
    ]


def _account_errors(path: str, account: JSONObject) -> list[FieldError]:
    name, namespace = account.get("name") or "", account.get("namespace") or ""
    errors = [] if name == "*" else checks.required_name(f"{path}.name", name, names.dns1123_subdomain)
    if not namespace:
        return [*errors, required(f"{path}.namespace", "must specify namespace for service account")]
    return errors + checks.named(f"{path}.namespace", namespace, names.dns1123_label)


def _verb_errors(path: str, verbs: list[str]) -> list[FieldError]:
    if not verbs:
        return [required(path, "verbs must contain at least one value")]
    if "*" in verbs:
        return _alone(path, verbs, "verbs")
    return [] if set(verbs) <= set(_VERBS) else [not_supported(path, verbs, _VERBS)]


def _alone(path: str, values: list[str], what: str) -> list[FieldError]:
    """Return an error if `*` is not the only value."""
    if len(values) < 2 or "*" not in values:
        return []
    return [invalid(path, values, f"if '*' is present, must not specify other {what}")]


def _resource_rule_errors(path: str, rule: JSONObject) -> list[FieldError]:
    errors = _verb_errors(f"{path}.verbs", rule.get("verbs") or [])
    for field, one, several in (("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")):
        values: list[str] = rule.get(field) or []
        if not values:
            errors.append(required(f"{path}.{field}", f"resource rules must supply at least one {one}"))
        errors += _alone(f"{path}.{field}", values, several)
    at, namespaces = f"{path}.namespaces", list[str](rule.get("namespaces") or ())
    if not namespaces and not rule.get("clusterScope"):
        why = "resource rules that are not cluster scoped must supply at least one namespace"
        errors.append(required(at, why))
    if "*" in namespaces:
        return errors + _alone(at, namespaces, "namespaces")
    return errors + [
        invalid(f"{at}[{index}]", namespace, _NAMESPACE_RULE + why)
        for index, namespace in enumerate(namespaces)
        for why in names.dns1123_label(namespace)
    ]


def _url_rule_errors(path: str, rule: JSONObject) -> list[FieldError]:
    errors = _verb_errors(f"{path}.verbs", rule.get("verbs") or [])
    at, urls = f"{path}.nonResourceURLs", list[str](rule.get("nonResourceURLs") or ())
    if not urls:
        errors.append(required(at, "nonResourceURLs must contain at least one value"))
    if "*" in urls:
        return errors + _alone(at, urls, "non-resource URLs")
    for index, url in enumerate(urls):
        if why := _url_error(url):
            errors.append(invalid(f"{at}[{index}]", url, why))
    return errors


def _url_error(url: str) -> str:
    if not url:
        return "must not be empty"
    if not url.startswith("/"):
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    stars = url.count("*")
    return "wildcard can only do suffix matching" if stars > 1 or (stars and not url.endswith("/*")) else ""


# Priority levels


def _level_errors(spec: JSONObject, name: str) -> list[FieldError]:
    kind, limited, exempt = spec.get("type") or "", spec.get("limited"), spec.get("exempt")
    errors: list[FieldError] = []
    if (name == _EXEMPT) != (kind == "Exempt"):
        errors.append(invalid("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'"))
    if kind == "Exempt":
        if limited is not None:
            errors.append(forbidden("spec.limited", "must be nil if the type is not Limited"))
        return errors + _share_errors("spec.exempt", exempt or {})
    if kind != "Limited":
        return [*errors, not_supported("spec.type", kind, ("Exempt", "Limited"))]
    if exempt is not None:
        errors.append(forbidden("spec.exempt", "must be nil if the type is Limited"))
    if limited is None:
        return [*errors, required("spec.limited", "must not be empty when type is Limited")]
    return errors + _limited_errors("spec.limited", limited)


def _share_errors(path: str, level: JSONObject) -> list[FieldError]:
    shares = level.get("nominalConcurrencyShares")
    errors = [] if (shares or 0) >= 0 else [invalid(f"{path}.nominalConcurrencyShares", shares, _NOT_NEGATIVE)]
    return errors + checks.between(f"{path}.lendablePercent", level.get("lendablePercent"), 0, 100)


def _limited_errors(path: str, level: JSONObject) -> list[FieldError]:
    errors = _share_errors(path, level)
    errors += _response_errors(f"{path}.limitResponse", level.get("limitResponse") or {})
    borrowed = level.get("borrowingLimitPercent")
    if borrowed is not None and borrowed < 0:
        errors.append(invalid(f"{path}.borrowingLimitPercent", borrowed, f"if specified, {_NOT_NEGATIVE}"))
    return errors


def _response_errors(path: str, response: JSONObject) -> list[FieldError]:
    kind, queuing, at = response.get("type") or "", response.get("queuing"), f"{path}.queuing"
    if kind == "Reject":
        why = "must be nil if limited.limitResponse.type is not Limited"
        return [] if queuing is None else [forbidden(at, why)]
    if kind != "Queue":
        return [not_supported(f"{path}.type", kind, ("Queue", "Reject"))]
    if queuing is None:
        return [required(at, "must not be empty if limited.limitResponse.type is Limited")]
    return _queuing_errors(at, queuing)


def _queuing_errors(path: str, queuing: JSONObject) -> list[FieldError]:
    queues, hand = queuing.get("queues") or 0, queuing.get("handSize") or 0
    limit, errors = queuing.get("queueLengthLimit") or 0, list[FieldError]()
    if limit <= 0:
        errors.append(invalid(f"{path}.queueLengthLimit", limit, "must be positive"))
    if queues <= 0:
        errors.append(invalid(f"{path}.queues", queues, "must be positive"))
    elif queues > _MOST_QUEUES:
        errors.append(invalid(f"{path}.queues", queues, f"must not be greater than {_MOST_QUEUES}"))
    if hand <= 0:
        errors.append(invalid(f"{path}.handSize", hand, "must be positive"))
    elif hand > queues:
        errors.append(invalid(f"{path}.handSize", hand, f"should not be greater than queues ({queues})"))
    elif ceil(log2(queues) * hand) > _HASH_BITS:
        why = f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {_HASH_BITS}"
        errors.append(invalid(f"{path}.handSize", hand, why))
    return errors
