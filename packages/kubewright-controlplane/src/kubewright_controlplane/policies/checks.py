"""What is wrong with a policy: what an API server rejects, and what cannot work with the types of the objects.

An API server compiles expressions without the types of the objects, and warns of some mistakes afterwards, in the
policy's status. Here each expression is also compiled with the types of every kind that the policy matches, and of its
parameters. `dyn(object)` has no type, for a field that the schema lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from kubewright.cel.syntax import CompileError
from kubewright.cel.types import BOOL, JSON_PATCH, NULL, OBJECT, STRING, Type, list_of
from kubewright.machinery.fields import FieldError
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONObject, copied
from kubewright_controlplane.apiserver.kinds.admissionregistration.criteria import default_match
from kubewright_controlplane.apiserver.kinds.admissionregistration.policyerrors import (
    default_policy,
    mutating_binding_errors,
    mutating_policy_errors,
    validating_binding_errors,
    validating_policy_errors,
)
from kubewright_controlplane.policies.changes import unknown_fields
from kubewright_controlplane.policies.explanations import explained
from kubewright_controlplane.policies.kinds import Kinds
from kubewright_controlplane.schema.cel.admission import VARIABLES, compile_expression
from kubewright_controlplane.schema.cel.composition import Composition

_ABSENT: Final[Mapping[str, tuple[frozenset[str], str]]] = {
    "object": (frozenset({"DELETE"}), "oldObject"),
    "oldObject": (frozenset({"CREATE", "CONNECT"}), "object"),
}
"""The operations for which a variable is always null, and the variable to use instead."""


@dataclass(frozen=True, slots=True)
class PolicyError:
    """An error of a policy or binding."""

    field: str
    """Its path in the document: `spec.validations[0].expression`."""
    message: str
    """What is wrong. For an expression, one line for each error, and below it the position."""
    expression: str = ""
    """The source of the expression at error; empty for other fields."""


@dataclass(frozen=True, slots=True)
class _Expression:
    """An expression of a policy, and how it is compiled."""

    field: str
    source: str
    wanted: tuple[Type, ...] = ()
    variable: str = ""
    """The name of the variable that it defines."""
    is_condition: bool = False
    has_authorizer: bool = True
    changes: bool = False


def policy_errors(policy: JSONObject, *, definitions: Iterable[JSONObject] = ()) -> list[PolicyError]:
    """Return the errors of a ValidatingAdmissionPolicy or MutatingAdmissionPolicy.

    `definitions` are the CustomResourceDefinitions of the kinds that the policy matches or takes as parameters.
    Expressions about kinds that are neither built in nor defined are compiled without types.
    """
    policy = copied(policy)
    default_policy(policy)
    expressions = list(_expressions(policy["spec"]))
    mutates = policy["kind"] == "MutatingAdmissionPolicy"
    found = mutating_policy_errors(policy) if mutates else validating_policy_errors(policy)
    if found:
        return [_of_server(each, expressions, policy["spec"]) for each in found]
    return [*_null_errors(policy["spec"], expressions), *_typed_errors(policy["spec"], expressions, Kinds(definitions))]


def binding_errors(binding: JSONObject) -> list[PolicyError]:
    """Return the errors of a ValidatingAdmissionPolicyBinding or MutatingAdmissionPolicyBinding."""
    binding = copied(binding)
    spec: JSONObject = binding.get("spec") or {}
    if match := spec.get("matchResources"):
        default_match(match)
    mutates = binding["kind"] == "MutatingAdmissionPolicyBinding"
    found = mutating_binding_errors(binding) if mutates else validating_binding_errors(binding)
    return [PolicyError(each.field, each.body) for each in found]


def condition_errors(conditions: Mapping[str, str]) -> list[PolicyError]:
    """Return the errors of the match conditions of a webhook. The field of an error is the condition's name."""
    errors: list[PolicyError] = []
    for name, source in conditions.items():
        try:
            compile_expression(source, VARIABLES, BOOL)
        except CompileError as error:
            errors.append(PolicyError(name, explained(error, source, VARIABLES), source))
    return errors


def _expressions(spec: JSONObject) -> Iterator[_Expression]:
    """Yield the expressions of a policy in the order in which they are declared."""
    for index, each in enumerate(spec.get("matchConditions") or ()):
        yield _Expression(f"spec.matchConditions[{index}].expression", each["expression"], (BOOL,), is_condition=True)
    for index, each in enumerate(spec.get("variables") or ()):
        yield _Expression(f"spec.variables[{index}].expression", each["expression"], variable=each["name"])
    for index, each in enumerate(spec.get("validations") or ()):
        yield _Expression(f"spec.validations[{index}].expression", each["expression"], (BOOL,))
        if source := each.get("messageExpression"):
            at = f"spec.validations[{index}].messageExpression"
            yield _Expression(at, source, (STRING,), has_authorizer=False)
    for index, each in enumerate(spec.get("auditAnnotations") or ()):
        at = f"spec.auditAnnotations[{index}].valueExpression"
        yield _Expression(at, each["valueExpression"], (STRING, NULL), has_authorizer=False)
    for index, each in enumerate(spec.get("mutations") or ()):
        for field, wanted in (("applyConfiguration", OBJECT), ("jsonPatch", list_of(JSON_PATCH))):
            if patch := each.get(field):
                at = f"spec.mutations[{index}].{field}.expression"
                yield _Expression(at, patch["expression"], (wanted,), changes=True)


def _of_server(error: FieldError, expressions: Sequence[_Expression], spec: JSONObject) -> PolicyError:
    """Return an error that the API server finds; that of an expression with a suggestion."""
    expression = next((each for each in expressions if each.field == error.field and each.source.strip()), None)
    if expression is None:
        return PolicyError(error.field, error.body)
    composition = Composition(has_parameters=spec.get("paramKind") is not None)
    for each in expressions:
        if each.variable:
            with suppress(CompileError):
                composition.declare(each.variable, each.source)
    compile_error = CompileError(error.detail or error.body)
    text = explained(compile_error, expression.source, composition.types, patches=expression.changes)
    return PolicyError(error.field, text, expression.source)


def _null_errors(spec: JSONObject, expressions: Sequence[_Expression]) -> Iterator[PolicyError]:
    """Yield an error for each expression with a variable that is null in every request that the policy matches."""
    rules: list[JSONObject] = spec["matchConstraints"]["resourceRules"]
    operations = {operation for rule in rules for operation in rule["operations"]}
    composition = Composition(has_parameters=spec.get("paramKind") is not None)
    for each in expressions:
        if each.variable:
            composition.declare(each.variable, each.source)
        names = composition.compile(each.source, patches=each.changes).names
        for name, (absent, instead) in _ABSENT.items():
            if name in names and operations <= absent:
                shown = " and ".join(sorted(operations))
                yield PolicyError(each.field, f"{name} is null for {shown}; use {instead}", each.source)


def _typed_errors(spec: JSONObject, expressions: Sequence[_Expression], kinds: Kinds) -> list[PolicyError]:
    """Return the errors that the types of the objects show. Several kinds with the same error are one."""
    found: dict[tuple[str, str], tuple[_Expression, list[GroupVersionKind]]] = {}
    matched = kinds.matched(spec)
    for kind in matched:
        environment = _Environment(spec, kinds, kinds.type_of(kind))
        for each in expressions:
            if error := environment.error(each):
                found.setdefault((each.field, error), (each, []))[1].append(kind)
    errors: list[PolicyError] = []
    for (field, error), (expression, of) in found.items():
        where = "" if len(of) == len(matched) else f"for {', '.join(each.kind for each in of)}: "
        errors.append(PolicyError(field, where + error, expression.source))
    return errors


class _Environment:
    """The types of the variables of a policy, for objects of one type."""

    def __init__(self, spec: JSONObject, kinds: Kinds, own: Type) -> None:
        self._own = own
        parameters = spec.get("paramKind")
        known: dict[str, Any] = {"object": own, "oldObject": own}
        if parameters is not None:
            known["params"] = kinds.type_of(GroupVersionKind.parse(parameters["apiVersion"], parameters["kind"]))
        self._conditions = Composition(has_parameters=parameters is not None, has_variables=False)
        self._others = Composition(has_parameters=parameters is not None)
        self._conditions.types |= known
        self._others.types |= known

    def error(self, expression: _Expression) -> str:
        """Return what is wrong with an expression; "" if nothing. A variable can be used from then on."""
        composition = self._conditions if expression.is_condition else self._others
        source, patches = expression.source.strip(), expression.changes
        try:
            if expression.variable:
                composition.declare(expression.variable, source)
            else:
                composition.compile(source, has_authorizer=expression.has_authorizer, patches=patches)
        except CompileError as error:
            return explained(error, source, composition.types, patches=patches)
        if not expression.changes:
            return ""
        errors = unknown_fields(source, self._own)
        return explained(CompileError(errors), source, composition.types, patches=True) if errors else ""
