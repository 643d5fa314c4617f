"""`x-kubernetes-validations`: the rules of a schema, compiled and evaluated on its documents.

A rule is evaluated on every value of its schema that is not null. A transition rule, which mentions `oldSelf`, is
evaluated only if the value before the update is known: by name in objects, by key in lists of type map, never in
other lists. An error in an unchanged value is not reported, unless the rule is a transition rule.

All rules of a document share one budget. The rule that exceeds it is reported, and later rules are not evaluated.
In a short step, the budget is smaller, and to exceed it makes the step too long.

Follows k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from kubewright.cel.conversion import converter
from kubewright.cel.expression import CheckedExpression
from kubewright.cel.syntax import CompileError
from kubewright.cel.types import BOOL, STRING, Type, optional_of
from kubewright.cel.values import NONE, CostExceeded, EvaluationError, Optional
from kubewright.machinery import json as jsons
from kubewright.machinery.fields import OMITTED, FieldError, invalid
from kubewright.machinery.json import JSONArray, JSONObject, is_array, is_object
from kubewright_controlplane.schema.cel.cost import estimate
from kubewright_controlplane.schema.cel.declare import declared
from kubewright_controlplane.schema.node import Node
from kubewright_controlplane.schema.steps import StepTooLong, is_short, lengthen
from kubewright_controlplane.schema.walk import Path, bracketed

BUDGET: Final = 10_000_000
_CALL_LIMIT: Final = 1_000_000
_SHORT: Final = 100_000
"""The part of the budget that a short step may use."""
_LONGEST_MESSAGE: Final = 5 * 1024
_RAN_OUT: Final = "validation failed due to running out of cost budget, no further validation rules will be run"


class Expression(CheckedExpression):
    """One compiled expression of a rule. Raises CompileError if it is invalid."""

    def __init__(self, source: str, self_type: Type, wanted: Type, *, optional_old: bool = False) -> None:
        old = optional_of(self_type) if optional_old else self_type
        super().__init__(source, {"self": self_type, "oldSelf": old})
        self._self_type = self_type
        if self.type != wanted:
            raise CompileError(_WRONG_RESULT[wanted.name])
        self.check_constants()

    @property
    def worst_case(self) -> int:
        """The estimated maximum cost of one evaluation."""
        return estimate(self.expression, self._self_type)

    @property
    def uses_old_self(self) -> bool:
        return "oldSelf" in self.names


_WRONG_RESULT: Final = {
    "bool": "cel expression must evaluate to a bool",
    "string": "messageExpression must evaluate to a string",
}


class Rule:
    """One entry of `x-kubernetes-validations`, compiled for values of `self_type`."""

    def __init__(self, spec: JSONObject, self_type: Type) -> None:
        self.spec = spec
        self.optional_old_self = bool(spec.get("optionalOldSelf"))
        self.condition = Expression(spec["rule"], self_type, BOOL, optional_old=self.optional_old_self)
        self.uses_old_self = self.condition.uses_old_self
        source = spec.get("messageExpression")
        self.message = Expression(source, self_type, STRING) if source else None
        self.title = (spec.get("message") or spec["rule"]).strip()
        self._convert = converter(self_type)

    def applies(self, old: Any) -> bool:
        return not self.uses_old_self or old is not None or self.optional_old_self

    def values(self, value: Any, old: Any) -> tuple[Any, Any]:
        """Return the values of `self` and `oldSelf`."""
        if self._convert is not None:
            value, old = self._convert(value), self._convert(old)
        if self.optional_old_self:
            return value, NONE if old is None else Optional(old)
        return value, old

    @property
    def default_message(self) -> str:
        message = self.spec.get("message", "").strip()
        return message or f"failed rule: {self.title}"


def normalized_path(path: str) -> str:
    """Return a rule's `fieldPath` as a path below its schema: `.foo['a.b']` is `foo[a.b]` or `foo.a.b`."""
    return re.sub(r"\['((?:[^'\\]|\\.)*)'\]", lambda found: f".{found[1]}", path).removeprefix(".")


@dataclass(slots=True)
class _Evaluation:
    """The checks of one document: the errors found, and the remaining budget."""

    errors: list[FieldError]
    budget: int = BUDGET
    reserve: int = field(default_factory=lambda: BUDGET - _SHORT if is_short() else 0)
    """The part of the budget that this step may not use."""


@dataclass(frozen=True, slots=True)
class _OldValue:
    """What is known of a value's past: the old value, None if unknown; and whether it has changed."""

    value: Any
    unchanged: Callable[[], bool]


class Rules:
    """The rules at and below a node of a schema."""

    def __init__(self, node: Node, *, root: bool = False) -> None:
        self._node = node
        self._rules = _compiled(node, root=root)
        self._fields = {key: rules for key, child in node.properties.items() if (rules := compile_rules(child))}
        self._values = compile_rules(node.values) if node.values is not None else None
        self._items = compile_rules(node.items) if node.items is not None else None

    def __bool__(self) -> bool:
        return bool(self._rules or self._fields or self._values or self._items)

    def check(self, obj: JSONObject, old: JSONObject | None) -> list[FieldError]:
        """Return the errors of a whole document."""
        run = _Evaluation([])
        self._check(obj, _OldValue(old, lambda: old is not None and jsons.equal(obj, old)), None, run)
        return run.errors

    def _check(self, value: Any, old: _OldValue, path: Path, run: _Evaluation) -> None:
        if value is None or run.budget < 0:
            return
        for rule in self._rules:
            if rule.applies(old.value):
                self._check_rule(rule, value, old, path, run)
            if run.budget < 0:
                return
        if is_object(value):
            self._check_fields(value, old, path, run)
        elif is_array(value) and self._items is not None:
            self._check_items(self._items, value, old, path, run)

    def _check_fields(self, value: JSONObject, old: _OldValue, path: Path, run: _Evaluation) -> None:
        before: JSONObject = old.value if is_object(old.value) else {}
        for key, item in value.items():
            below = self._fields.get(key)
            link: Any = key
            if below is None:
                below, link = self._values, (key,)
            if below is not None:
                below._check(item, _old_of(item, before.get(key), old), (path, link), run)

    def _check_items(self, items: Rules, value: JSONArray, old: _OldValue, path: Path, run: _Evaluation) -> None:
        before: JSONArray = old.value if is_array(old.value) else []
        keys = self._node.list_keys if self._node.list_type == "map" else ()
        known = {_key(each, keys): each for each in before if is_object(each)} if keys else {}
        for index, item in enumerate(value):
            was = known.get(_key(item, keys)) if keys and is_object(item) else None
            items._check(item, _old_of(item, was, old), (path, index), run)

    def _check_rule(self, rule: Rule, value: Any, old: _OldValue, path: Path, run: _Evaluation) -> None:
        kind = self._node.type
        place = bracketed(path) or "<nil>"
        values = rule.values(value, old.value)
        limit = min(_CALL_LIMIT, run.budget)
        allowed = min(limit, run.budget - run.reserve)
        try:
            good, left = rule.condition.program.evaluate(values, allowed)
        except CostExceeded as error:
            if allowed < limit:
                raise StepTooLong from error
            why = "no further validation rules will be run due to call cost exceeds limit for rule"
            text = f"'{error}': {why}: {rule.title}"
            run.errors.append(invalid(place, kind, text if limit == _CALL_LIMIT else _RAN_OUT))
            run.budget = -1
            return
        except EvaluationError as error:
            run.errors.append(invalid(place, kind, _failure(str(error), rule.title)))
            return
        run.budget -= allowed - left
        if good is True or (not rule.uses_old_self and old.unchanged()):
            return
        inner = normalized_path(rule.spec.get("fieldPath", ""))
        if inner:
            place = f"{place}.{inner}" if path is not None else inner
        shown = OMITTED if kind in ("object", "array") else value
        message = _message(rule, values, run) or rule.default_message
        run.errors.append(_error(place, shown, message, rule.spec.get("reason", "")))


def compile_rules(node: Node, *, root: bool = False) -> Rules | None:
    """Compile the rules at and below `node`; None if there are none. Raises CompileError for an invalid rule."""
    if node.builtin:
        return None
    rules = Rules(node, root=root)
    return rules or None


def _compiled(node: Node, *, root: bool) -> list[Rule]:
    specs: JSONArray = [*(node.spec.get("x-kubernetes-validations") or ())]
    if not specs:
        return []
    self_type = declared(node.spec, root=root or node.embedded)
    if self_type is None:
        raise CompileError("rules need a schema that says what type its values have")
    return [Rule(spec, self_type) for spec in specs]


def _key(item: JSONObject, keys: tuple[str, ...]) -> str:
    return jsons.compact([item.get(key) for key in keys])


def _old_of(value: Any, was: Any, around: _OldValue) -> _OldValue:
    """Return the past of a part. It is unchanged if it equals its old value, or, if that is unknown, if its parent is
    unchanged.
    """
    if was is None:
        return _OldValue(None, around.unchanged)
    return _OldValue(was, lambda: jsons.equal(value, was))


def _failure(error: str, title: str) -> str:
    if error.startswith("no such overload"):
        why = "call arguments did not match a supported operator, function or macro signature"
        return f"'{error}': {why} for rule: {title}"
    return f"{error} evaluating rule: {title}"


def _message(rule: Rule, values: tuple[Any, Any], run: _Evaluation) -> str:
    """Return the value of the rule's message expression; empty if there is none, or if its value cannot be shown."""
    if rule.message is None:
        return ""
    try:
        text, left = rule.message.program.evaluate(values, max(run.budget - run.reserve, 0))
    except EvaluationError:
        return ""
    except CostExceeded:
        lengthen()
        return ""
    run.budget = left + run.reserve
    text = str(text).strip()
    return text if len(text.encode()) <= _LONGEST_MESSAGE and "\n" not in text else ""


def _error(place: str, value: object, message: str, reason: str) -> FieldError:
    if reason in ("FieldValueForbidden", "FieldValueRequired"):
        return FieldError(reason, place, "", message)
    if reason == "FieldValueDuplicate":
        return FieldError(reason, place, value)
    return invalid(place, value, message)
