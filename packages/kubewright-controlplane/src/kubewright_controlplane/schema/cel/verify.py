"""Validation of the rules in the schema of a CustomResourceDefinition: complete, well typed and cheap enough.

Follows k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from kubewright.cel.expression import INSTANTIATION
from kubewright.cel.syntax import CompileError
from kubewright.cel.types import BOOL, STRING, Type
from kubewright.machinery.fields import FieldError, forbidden, invalid, not_supported, required
from kubewright.machinery.json import JSONArray, JSONObject, is_object
from kubewright_controlplane.schema.cel.cost import RULE_LIMIT, SCHEMA_LIMIT, over_limit
from kubewright_controlplane.schema.cel.declare import REQUEST_BYTES, declared
from kubewright_controlplane.schema.cel.rules import Expression, normalized_path
from kubewright_controlplane.schema.cel.sizes import ENDLESS

_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_MOST_EXPENSIVE: Final = 4


def keyword_errors(schema: JSONObject, path: str) -> list[FieldError]:
    """Return the errors in how the rules of one schema are written, apart from their expressions."""
    errors: list[FieldError] = []
    rules: JSONArray = schema.get("x-kubernetes-validations") or []
    for index, rule in enumerate(rules):
        _check_texts(rule, f"{path}.x-kubernetes-validations[{index}]", errors)
        _check_target(rule, schema, f"{path}.x-kubernetes-validations[{index}]", errors)
    return errors


def _check_texts(rule: JSONObject, path: str, errors: list[FieldError]) -> None:
    source, message, expression = rule.get("rule", ""), rule.get("message", ""), rule.get("messageExpression", "")
    if not source.strip():
        errors.append(required(f"{path}.rule", "rule is not specified"))
    elif message and not message.strip():
        errors.append(invalid(f"{path}.message", message, "must be non-empty if specified"))
    elif "\n" in message.strip():
        errors.append(invalid(f"{path}.message", message, "must not contain line breaks"))
    elif "\n" in source.strip() and not message.strip():
        errors.append(required(f"{path}.message", "message must be specified if rule contains line breaks"))
    if expression and not expression.strip():
        text = "messageExpression must be non-empty if specified"
        errors.append(required(f"{path}.messageExpression", text))


def _check_target(rule: JSONObject, schema: JSONObject, path: str, errors: list[FieldError]) -> None:
    reason, target = rule.get("reason"), rule.get("fieldPath", "")
    if reason is not None and reason not in _REASONS:
        errors.append(not_supported(f"{path}.reason", reason, _REASONS))
    if target and not target.strip():
        errors.append(invalid(f"{path}.fieldPath", target, "must be non-empty if specified"))
    if "\n" in target:
        errors.append(invalid(f"{path}.fieldPath", target, "must not contain line breaks"))
    if target and not _path_exists(schema, target):
        errors.append(invalid(f"{path}.fieldPath", target, "must be a valid path"))


def _path_exists(schema: JSONObject, path: str) -> bool:
    if not path.startswith((".", "[")):
        return False
    place: object = schema
    for name in normalized_path(path).split("."):
        if not is_object(place):
            return False
        properties: JSONObject = place.get("properties") or {}
        place = properties.get(name) if properties else place.get("additionalProperties")
    return is_object(place)


@dataclass(frozen=True, slots=True)
class _Position:
    """The position of a schema, as far as it matters to its rules."""

    path: str
    times: int | None = 1
    """The maximum number of its values in a document; None if no list or map around it has a bound."""
    uncorrelated: str = ""
    """The list around it whose old items cannot be identified; empty if there is none."""


@dataclass(slots=True)
class _Total:
    cost: int = 0
    expensive: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    errors: list[FieldError] = field(default_factory=list[FieldError])

    def add(self, cost: int, path: str) -> None:
        self.cost += cost
        if cost >= SCHEMA_LIMIT // 100:
            found = [*self.expensive, (cost, path)]
            self.expensive = sorted(found, key=lambda entry: entry[0], reverse=True)[:_MOST_EXPENSIVE]


def rule_errors(schema: JSONObject, path: str) -> list[FieldError]:
    """Return the errors in the expressions of all rules of a kind's schema, and in their total cost."""
    total = _Total()
    _check_schema(schema, _Position(path), total, root=True)
    if total.cost > SCHEMA_LIMIT:
        text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        total.errors.extend(forbidden(each, text) for _, each in total.expensive)
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        total.errors.append(forbidden(path, over_limit(what, total.cost, SCHEMA_LIMIT)))
    return total.errors


def _check_schema(schema: JSONObject, place: _Position, total: _Total, *, root: bool = False) -> None:
    for below, at in _below(schema, place):
        _check_schema(below, at, total)
    rules: JSONArray = schema.get("x-kubernetes-validations") or []
    if not rules:
        return
    self_type = declared(schema, root=root or bool(schema.get("x-kubernetes-embedded-resource")))
    if self_type is None:
        text = "rules need a schema that says what type its values have"
        total.errors.append(forbidden(f"{place.path}.x-kubernetes-validations", text))
        return
    times = REQUEST_BYTES // (self_type.min_serialized + 1) if place.times is None else place.times
    for index, rule in enumerate(rules):
        at = replace(place, path=f"{place.path}.x-kubernetes-validations[{index}]", times=times)
        _check_rule(rule, self_type, at, total)


def _below(schema: JSONObject, place: _Position) -> list[tuple[JSONObject, _Position]]:
    found: list[tuple[JSONObject, _Position]] = []
    if is_object(values := schema.get("additionalProperties")):
        times = _multiplied(place.times, schema.get("maxProperties"))
        found.append((values, replace(place, path=f"{place.path}.additionalProperties", times=times)))
    properties: JSONObject = schema.get("properties") or {}
    found += [(child, replace(place, path=f"{place.path}.properties[{key}]")) for key, child in properties.items()]
    if is_object(items := schema.get("items")):
        correlated = schema.get("x-kubernetes-list-type") == "map"
        uncorrelated = place.uncorrelated or ("" if correlated else place.path)
        times = _multiplied(place.times, schema.get("maxItems"))
        found.append((items, _Position(f"{place.path}.items", times, uncorrelated)))
    return found


def _multiplied(times: int | None, most: int | None) -> int | None:
    return None if times is None or most is None else times * most


def _check_rule(rule: JSONObject, self_type: Type, place: _Position, total: _Total) -> None:
    path, shown = place.path, _as_go_struct(rule)
    optional = bool(rule.get("optionalOldSelf"))
    try:
        condition = Expression(rule["rule"], self_type, BOOL, optional_old=optional)
    except CompileError as error:
        text = str(error)
        complaint = text if text.startswith(("cel expression", INSTANTIATION)) else f"compilation failed: {text}"
        total.errors.append(invalid(f"{path}.rule", shown, complaint))
        return
    times = 1 if place.times is None else place.times
    _check_cost(min(condition.worst_case * times, ENDLESS), "estimated rule cost", f"{path}.rule", total)
    if condition.uses_old_self and place.uncorrelated:
        text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.uncorrelated}"
        total.errors.append(invalid(f"{path}.rule", rule["rule"], text))
    elif not condition.uses_old_self and rule.get("optionalOldSelf") is not None:
        text = "may not be set if oldSelf is not used in rule"
        total.errors.append(invalid(f"{path}.optionalOldSelf", rule["optionalOldSelf"], text))
    if source := rule.get("messageExpression"):
        _check_message(source, self_type, shown, place, total)


def _check_message(source: str, self_type: Type, shown: JSONObject, place: _Position, total: _Total) -> None:
    path = f"{place.path}.messageExpression"
    try:
        message = Expression(source, self_type, STRING)
    except CompileError as error:
        text = str(error)
        if text.startswith(INSTANTIATION):
            complaint = f"messageExpression {text.removeprefix('program ')}"
        else:
            known = text.startswith("messageExpression")
            complaint = text if known else f"messageExpression compilation failed: {text}"
        total.errors.append(invalid(path, shown, complaint))
        return
    _check_cost(message.worst_case, "estimated messageExpression cost", path, total)


def _check_cost(cost: int, what: str, path: str, total: _Total) -> None:
    total.add(cost, path)
    if cost > RULE_LIMIT:
        total.errors.append(forbidden(path, over_limit(what, cost, RULE_LIMIT)))


def _as_go_struct(rule: JSONObject) -> JSONObject:
    """Return a rule as the API server shows it in an error: with the field names of the Go struct."""
    return {
        "Rule": rule.get("rule", ""),
        "Message": rule.get("message", ""),
        "MessageExpression": rule.get("messageExpression", ""),
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath", ""),
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
