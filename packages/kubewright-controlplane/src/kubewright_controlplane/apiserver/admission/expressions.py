"""Expressions (CEL) about a write: their limits, the value of `authorizer`, and the match conditions of webhooks.

The match conditions of policies, which have more variables, are in `policies.policy`.

Follows k8s.io/apiserver pkg/admission/plugin/cel and pkg/admission/plugin/webhook/matchconditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from kubewright.cel.code import Meter
from kubewright.cel.expression import CheckedExpression
from kubewright.cel.library.authorization import Authorizer, ResourceCheck
from kubewright.cel.syntax import CompileError
from kubewright.cel.types import BOOL
from kubewright.cel.values import CostExceeded
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.admission.versions import VersionedAttributes, namespace_of
from kubewright_controlplane.apiserver.authorization.attributes import Authorizer as RequestAuthorizer
from kubewright_controlplane.apiserver.authorization.attributes import forbidden_object
from kubewright_controlplane.apiserver.authorization.expressions import UserAccess
from kubewright_controlplane.schema.cel.admission import VARIABLES, compile_expression

FailurePolicy: TypeAlias = Literal["Fail", "Ignore"]

EXPRESSION_LIMIT: Final = 1_000_000
"""The cost limit of one evaluation of an expression."""
CONDITIONS_BUDGET: Final = 2_500_000
"""The cost limit of all match conditions of a webhook or policy, for one write."""
TIME_LIMIT: Final = 0.05
"""The seconds of processor time that a webhook or policy may use for one write."""
OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"


def authorizer_value(write: VersionedAttributes, authorizer: RequestAuthorizer) -> Authorizer:
    """Return the value of `authorizer` for a write: what its user may do."""
    attributes = write.attributes
    access = UserAccess(attributes.user, authorizer)
    own = attributes.resource
    check = ResourceCheck(
        access, own.group, own.plural, attributes.subresource, namespace_of(attributes), attributes.name
    )
    return Authorizer(access, check)


def _variable_values(names: frozenset[str], write: VersionedAttributes, authorizer: RequestAuthorizer) -> list[Any]:
    """Return the values of `VARIABLES`, in their order. Those that are not in `names` are None, and cost nothing."""
    return [
        write.object if "object" in names else None,
        write.old_object if "oldObject" in names else None,
        None,  # webhooks have no namespaceObject
        write.request if "request" in names else None,
        authorizer_value(write, authorizer) if "authorizer" in names else None,
    ]


@dataclass(frozen=True, slots=True)
class _Condition:
    source: str
    expression: CheckedExpression | None
    error: str = ""
    """Why the expression is invalid; one that an older server stored may be."""


class MatchConditions:
    """The `matchConditions` of a webhook, compiled once. All must be true for a write to match."""

    def __init__(self, specs: Sequence[JSONObject], failure_policy: FailurePolicy) -> None:
        self._failure_policy = failure_policy
        self._conditions = [_compiled(each.get("expression") or "") for each in specs]
        expressions = [each.expression for each in self._conditions if each.expression is not None]
        self._names = frozenset(name for each in expressions for name in each.names)
        """The names of the variables that the conditions read."""

    def __bool__(self) -> bool:
        return bool(self._conditions)

    def match(self, write: VersionedAttributes, authorizer: RequestAuthorizer) -> bool:
        """Return whether all conditions are true.

        A condition that is false decides. Otherwise, if one has no value, the failure policy does: Ignore is False,
        Fail raises Forbidden.
        """
        values = _variable_values(self._names, write, authorizer)
        try:
            errors = self._evaluate(values)
        except CostExceeded as error:
            errors = [str(error)]
        if errors is None:
            return False
        if not errors:
            return True
        if self._failure_policy == "Ignore":
            return False
        distinct = list(dict.fromkeys(errors))
        why = distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
        own = write.attributes.resource
        raise forbidden_object(own.group, own.plural, write.attributes.name, why)

    def _evaluate(self, values: Sequence[Any]) -> list[str] | None:
        """Return the errors of conditions that have no value; None if one is false. Raises CostExceeded."""
        errors: list[str] = []
        budget, meter = CONDITIONS_BUDGET, Meter(TIME_LIMIT)
        is_false = False
        for condition in self._conditions:
            if condition.expression is None:
                errors.append(f"compilation error: {condition.error}")
                continue
            outcome = condition.expression.program.attempt(values, EXPRESSION_LIMIT, meter)
            budget -= outcome.cost
            is_false = is_false or outcome.value is False
            if outcome.error:
                errors.append(f"expression '{condition.source}' resulted in error: {outcome.error}")
            if budget < 0:
                raise CostExceeded(OUT_OF_BUDGET)
        return None if is_false else errors


def _compiled(source: str) -> _Condition:
    try:
        return _Condition(source, compile_expression(source, VARIABLES, BOOL))
    except CompileError as error:
        return _Condition(source, None, str(error))
