"""One compiled expression over named variables: parsed, type-checked, and ready to be evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from kubewright.cel.calls import candidates
from kubewright.cel.checker import Environment, check
from kubewright.cel.compiler import Program
from kubewright.cel.functions import Function
from kubewright.cel.library import functions, patch_functions
from kubewright.cel.parser import parse
from kubewright.cel.syntax import Call, CompileError, Expr, Ident, Literal, parts
from kubewright.cel.types import Type
from kubewright.cel.values import EvaluationError

INSTANTIATION: Final = "program instantiation failed"
"""The beginning of an error in a constant, which is found after the types have been checked."""
_CONVERSIONS: Final = frozenset({"bool", "bytes", "double", "int", "string", "uint"})


class CheckedExpression:
    """An expression whose types are known. Raises CompileError if it is invalid.

    Values for `program` come in the order of `slots`. Values of variables that are not in `names` are not read.
    """

    def __init__(
        self,
        source: str,
        variables: Mapping[str, Type],
        *,
        slots: Sequence[str] | None = None,
        patches: bool = False,
    ) -> None:
        """`slots` are the names of the values, `variables` by default, in which an expression may have fewer.

        `patches`: the expression describes a change of an object, with `Object{}` or `JSONPatch{}`.
        """
        self.source = source
        self._functions = patch_functions() if patches else functions()
        self._slots = tuple(variables if slots is None else slots)
        self.expression = parse(source, self._functions.keys())
        try:
            self.type = check(source, self.expression, Environment(variables, self._functions, patches))
        except RecursionError:
            raise CompileError("expression is nested too deeply") from None

    def check_constants(self) -> None:
        """Raise CompileError if a conversion of a constant fails, or if a constant pattern is invalid."""
        try:
            for part in _every(self.expression):
                if isinstance(part, Call):
                    _check_constant(part, self._functions)
        except EvaluationError as error:
            raise CompileError(f"{INSTANTIATION}: {error}") from None

    @cached_property
    def names(self) -> frozenset[str]:
        """The names that the expression mentions."""
        return frozenset(each.name for each in _every(self.expression) if isinstance(each, Ident))

    @cached_property
    def program(self) -> Program:
        return Program(self.expression, self._slots, self._functions)


def _check_constant(call: Call, functions: Mapping[str, Sequence[Function]]) -> None:
    constants = [each.value for each in call.arguments if isinstance(each, Literal)]
    if call.function in _CONVERSIONS and len(constants) == len(call.arguments):
        candidates(call, functions)[0].call(*constants)
    if call.function in ("find", "findAll") and isinstance(call.arguments[1], Literal):
        candidates(call, functions)[0].call("", call.arguments[1].value)


def _every(expression: Expr) -> Iterator[Expr]:
    yield expression
    for part in parts(expression):
        yield from _every(part)
