"""The evaluation of a policy's expressions for one write, within their budgets.

A binding and parameter have a budget for all expressions, and each expression and variable has a limit of its own.
Costs are those of `schema.cel.compiler`. A real API server would evaluate for up to a second; here other requests wait
meanwhile, so a policy also has a limit of time.

Follows k8s.io/apiserver pkg/admission/plugin/cel/{activation,condition,composition}.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from kubewright.cel.code import Meter
from kubewright.cel.expression import CheckedExpression
from kubewright.cel.library.authorization import Access, Authorizer, Decision, ResourceCheck
from kubewright.cel.syntax import CompileError
from kubewright.cel.values import EvaluationError
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.admission.expressions import (
    EXPRESSION_LIMIT,
    OUT_OF_BUDGET,
    authorizer_value,
)
from kubewright_controlplane.apiserver.admission.versions import VersionedAttributes
from kubewright_controlplane.apiserver.authorization.attributes import Authorizer as RequestAuthorizer

BUDGET: Final = 10_000_000
"""The cost limit of all expressions of a policy, for one write, binding and parameter."""

Compiled: TypeAlias = CheckedExpression | CompileError
"""An expression, or what is wrong with it. Validation rejects invalid ones; another server may have stored one."""


class OutOfBudget(Exception):
    """The expressions of a policy cost more than their budget."""


@dataclass(frozen=True, slots=True)
class Result:
    """The value of an expression, or the error that it resulted in."""

    value: Any = None
    error: str = ""


class Variables(dict[str, Any]):
    """The variables of a policy for one write. Each is evaluated on first use, and its cost is recorded."""

    def __init__(self, expressions: Mapping[str, Compiled], meter: Meter) -> None:
        super().__init__()
        self._meter = meter
        self.values_of_slots: Sequence[Any] = ()
        """The values of all variables that an expression may use, these variables included."""
        self._expressions = expressions
        self._errors: dict[str, str] = {}
        self._cost = 0

    def __contains__(self, name: object) -> bool:
        return name in self._expressions

    def __missing__(self, name: str) -> Any:
        expression = self._expressions[name]
        if name not in self._errors:
            if isinstance(expression, CompileError):
                self._errors[name] = f'composited variable "{name}" fails to compile: {expression}'
            else:
                outcome = expression.program.attempt(self.values_of_slots, EXPRESSION_LIMIT, self._meter)
                self._cost += outcome.cost
                if not outcome.error:
                    self[name] = outcome.value
                    return outcome.value
                self._errors[name] = f'composited variable "{name}" fails to evaluate: {outcome.error}'
        raise EvaluationError(self._errors[name])

    def take_cost(self) -> int:
        """Return the cost since the last call."""
        cost, self._cost = self._cost, 0
        return cost


class _Unresolved(Access):
    """Stands for the authorizer where expressions have none."""

    def decide_path(self, verb: str, path: str) -> Decision:
        raise EvaluationError("no such attribute(s): authorizer")

    def decide_resource(self, verb: str, check: ResourceCheck) -> Decision:
        raise EvaluationError("no such attribute(s): authorizer")

    def of_service_account(self, namespace: str, name: str) -> Access:
        return self


_NO_AUTHORIZER: Final = Authorizer(_Unresolved(), ResourceCheck(_Unresolved(), "", ""))


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the expressions of a policy see of one write."""

    write: VersionedAttributes
    authorizer: RequestAuthorizer
    namespace: JSONObject | None
    """The Namespace of the write; None for objects of the cluster."""
    param: JSONObject | None
    variables: Mapping[str, Compiled]
    meter: Meter

    def evaluate(
        self, expressions: Sequence[Compiled | None], budget: int, *, has_authorizer: bool = True
    ) -> tuple[list[Result], int]:
        """Evaluate expressions that share their variables. Returns the results, and the remaining budget.

        None is an expression that is not specified. Raises OutOfBudget.
        """
        write, variables = self.write, Variables(self.variables, self.meter)
        authorizer = authorizer_value(write, self.authorizer) if has_authorizer else _NO_AUTHORIZER
        values = (
            write.object, write.old_object, self.namespace, write.request, authorizer, self.param, variables,
        )  # fmt: skip
        variables.values_of_slots = values
        results: list[Result] = []
        for expression in expressions:
            if expression is None:
                results.append(Result())
            elif isinstance(expression, CompileError):
                results.append(Result(error=f"compilation error: {expression}"))
            else:
                outcome = expression.program.attempt(values, EXPRESSION_LIMIT, self.meter)
                budget -= outcome.cost + variables.take_cost()
                if budget < 0:
                    raise OutOfBudget(OUT_OF_BUDGET)
                error = f"expression '{expression.source}' resulted in error: {outcome.error}"
                results.append(Result(outcome.value) if not outcome.error else Result(error=error))
        return results, budget
