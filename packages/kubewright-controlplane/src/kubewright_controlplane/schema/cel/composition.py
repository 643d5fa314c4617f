"""The variables of a policy's expressions, and the compiled expressions.

A policy names expressions in `variables`. Later expressions use their values as `variables.<name>`. Such an expression
is evaluated on first use, and at most once for an object.

Follows k8s.io/apiserver pkg/admission/plugin/cel/composition.go.
"""

from __future__ import annotations

from typing import Final

from kubewright.cel import types
from kubewright.cel.expression import CheckedExpression
from kubewright.cel.syntax import CompileError
from kubewright.cel.types import DYN, Type
from kubewright_controlplane.schema.cel.admission import VARIABLES, compile_expression

SLOTS: Final = (*VARIABLES, "params", "variables")
"""The variables of all expressions, in the order of their values."""

_SIMPLE: Final = frozenset(
    {
        types.BOOL, types.BYTES, types.DOUBLE, types.DURATION, types.INT, types.NULL, types.STRING, types.TIMESTAMP,
        types.UINT,
    }
)  # fmt: skip


class Composition:
    """The variables of one policy. Each expression may use those that were declared before it."""

    def __init__(self, *, has_parameters: bool, has_variables: bool = True) -> None:
        self.types: dict[str, Type] = dict(VARIABLES)
        """The variables that are declared, with their types."""
        self.variables: dict[str, CheckedExpression | CompileError] = {}
        """The policy's own variables, by name. Errors are reported when the variable is used."""
        self._fields: dict[str, Type] = {}
        if has_parameters:
            self.types["params"] = DYN
        if has_variables:
            self.types["variables"] = Type(types.VARIABLES.name, fields=self._fields)

    def declare(self, name: str, source: str) -> None:
        """Declare a variable. Raises CompileError if its expression is invalid; it is declared nevertheless."""
        try:
            expression = self.variables[name] = self.compile(source)
        except CompileError as error:
            self.variables[name] = error
            self._fields[name] = DYN
            raise
        self._fields[name] = _declared(expression.type)

    def compile(
        self, source: str, *wanted: Type, has_authorizer: bool = True, patches: bool = False
    ) -> CheckedExpression:
        """Compile an expression whose value has one of the `wanted` types, by default any. Raises CompileError."""
        declared = self.types
        if not has_authorizer:
            declared = {name: type for name, type in declared.items() if name != "authorizer"}
        return compile_expression(source, declared, *wanted, slots=SLOTS, patches=patches)


def _declared(type: Type) -> Type:
    """Return the type of a variable: that of its expression, as far as other expressions know it."""
    if type in _SIMPLE:
        return type
    if type.name in ("list", "map"):
        return Type(type.name, tuple(map(_declared, type.parameters)))
    return DYN
