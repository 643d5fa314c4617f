"""Gates: what a step waits for, in addition to its tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from kubewright.client import document_of
from kubewright.machinery.errors import ConfigError, TerminalError
from kubewright.machinery.time import Seconds
from kubewright.models import Object

_COST_LIMIT: Final = 10_000_000
"""What one evaluation may cost, in the units of Kubernetes, which allows as much for all rules of an object."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The answer of a task or of a gate that is not complete yet."""

    message: str
    """What it waits for, as a phrase: `1 of 3 replicas are ready`."""
    requeue_after: Seconds | None = None
    """When to look again at the latest. By default after 1 second, and less often after some minutes."""


class CEL:
    """A gate as an expression in CEL. It is open while the expression is true.

        CEL("object.status.phase == 'Bound'", message="the volume is not bound")

    The variable `object` is the object that the plan is for, or the child if it is `Apply(ready=...)`. It may have any
    fields. While the expression has no value, because a field does not exist yet, the gate is closed.
    """

    def __init__(self, expression: str, *, message: str = "") -> None:
        """`message` is what users see while the gate is closed; by default the expression. Raises ConfigError."""
        from kubewright.cel.expression import CheckedExpression  # loaded only by programs that use it
        from kubewright.cel.syntax import CompileError
        from kubewright.cel.types import BOOL, DYN

        self.expression = expression
        self._message = message or f"{expression} is not true"
        try:
            checked = CheckedExpression(expression, {"object": DYN})
        except CompileError as error:
            raise ConfigError(f"CEL({expression!r}): {error}") from None
        if checked.type not in (BOOL, DYN):
            raise ConfigError(
                f"CEL({expression!r}): a gate is true or false, but this expression is of type {checked.type.name}"
            )
        self._program = checked.program

    def check(self, obj: Object) -> Waiting | None:
        """Return what is missing for an object; None if the expression is true."""
        from kubewright.cel.values import CostExceeded, EvaluationError

        try:
            value: Any = self._program.evaluate([document_of(obj)], _COST_LIMIT)[0]
        except EvaluationError as error:
            return Waiting(f"{self._message} ({error})")
        except CostExceeded:
            raise TerminalError(f"CEL({self.expression!r}): the expression costs too much for this object") from None
        return None if value is True else Waiting(self._message)


ReadyCheck: TypeAlias = CEL | Callable[[Object], Waiting | None]
"""Decides whether an object in the cluster is ready: an expression, or a function that returns what is missing."""
