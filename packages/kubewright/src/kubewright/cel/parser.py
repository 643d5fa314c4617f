"""Parses tokens into an expression and expands macros.

Follows the grammar of https://github.com/google/cel-spec/blob/master/doc/langdef.md, with optional syntax (`a.?b`,
`a[?b]`, `[?a]`, `{?a: b}`) and the macros of Kubernetes' environment.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NoReturn, cast

from kubewright.cel.lexer import Token, tokenize
from kubewright.cel.syntax import (
    Call,
    CompileError,
    Expr,
    Has,
    Ident,
    ListExpr,
    Literal,
    Macro,
    MacroName,
    MapExpr,
    Select,
    StructExpr,
    StructField,
    shown,
)  # fmt: skip
from kubewright.machinery.cel_names import RESERVED
from kubewright.machinery.effort import report

_MAX_DEPTH: Final = 250
_START: Final = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
"""The tokens that an expression can start with, by their names in the grammar that cel-go is generated from."""
_BINARY: Final[dict[str, tuple[int, str]]] = {
    "||": (1, "_||_"),
    "&&": (2, "_&&_"),
    **{each: (3, f"_{each}_") for each in ("<", "<=", ">=", ">", "==", "!=")},
    "in": (3, "@in"),
    **{each: (4, f"_{each}_") for each in "+-"},
    **{each: (5, f"_{each}_") for each in "*/%"},
}
"""The precedence of each operator, and the function that it stands for."""
_LOOPS: Final[dict[str, tuple[int, ...]]] = {
    "all": (2, 3), "exists": (2, 3), "exists_one": (2, 3), "existsOne": (2, 3), "filter": (2,), "map": (2, 3),
    "sortBy": (2,), "optMap": (2,), "optFlatMap": (2,), "transformList": (3, 4), "transformMap": (3, 4),
    "transformMapEntry": (3, 4),
}  # fmt: skip
"""The number of arguments that each macro accepts."""


_TO_COMPILE: Final = 800
"""Units of effort for a character of an expression that is parsed, checked and compiled."""


def parse(source: str, functions: Collection[str]) -> Expr:
    """Parse `source` into an expression. `functions` are the names of all functions (`size`, `optional.of`).

    Raises CompileError with a message in the style of cel-go.
    """
    report(_TO_COMPILE * len(source))
    return _Parser(source, functions).whole()


class _Parser:
    def __init__(self, source: str, functions: Collection[str]) -> None:
        self._source = source
        self._qualified = functions
        self._tokens = tokenize(source)
        self._position = 0
        self._depth = 0

    def whole(self) -> Expr:
        try:
            expression = self._expression()
        except RecursionError:
            self._fail(self._next.at, f"expression recursion limit exceeded: {_MAX_DEPTH}")
        if self._next.kind != "end":
            self._fail(self._next.at, f"Syntax error: extraneous input '{self._next.text}' expecting <EOF>")
        return expression

    @property
    def _next(self) -> Token:
        return self._tokens[self._position]

    def _take(self) -> Token:
        token = self._next
        self._position += 1
        return token

    def _sees(self, *symbols: str) -> bool:
        token = self._next
        return token.text in symbols and token.kind in ("symbol", "ident")

    def _expect(self, symbol: str) -> Token:
        if not (self._next.kind == "symbol" and self._next.text == symbol):
            self._fail(self._next.at, f"Syntax error: missing '{symbol}' at '{self._next.text}'")
        return self._take()

    def _unexpected(self, token: Token, wanted: str = _START) -> NoReturn:
        self._fail(token.at, f"Syntax error: mismatched input '{token.text}' expecting {wanted}")

    def _fail(self, at: int, text: str) -> NoReturn:
        raise CompileError(shown(self._source, [(at, text)]))

    def _expression(self) -> Expr:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self._fail(self._next.at, f"expression recursion limit exceeded: {_MAX_DEPTH}")
        condition = self._operation(1)
        if self._sees("?"):
            at = self._take().at
            chosen = self._operation(1)
            self._expect(":")
            condition = Call(at, "_?_:_", [condition, chosen, self._expression()])
        self._depth -= 1
        return condition

    def _operation(self, tightness: int) -> Expr:
        """Parse operands joined by operators of this precedence or a higher one."""
        left = self._unary()
        while self._sees(*_BINARY):
            binds, function = _BINARY[self._next.text]
            if binds < tightness:
                break
            at = self._take().at
            left = Call(at, function, [left, self._operation(binds + 1)])
        return left

    def _unary(self) -> Expr:
        first = self._next
        count = 0
        while self._sees("!", "-") and self._next.text == first.text and not self._sees_negative_number():
            self._take()
            count += 1
        operand = self._member(self._primary())
        return operand if count % 2 == 0 else Call(first.at, f"{first.text}_", [operand])

    def _sees_negative_number(self) -> bool:
        following = self._tokens[self._position + 1]
        return self._next.text == "-" and type(following.value) in (int, float)

    def _member(self, operand: Expr) -> Expr:
        while True:
            if self._sees(".", ".?"):
                token = self._take()
                if self._next.kind == "escaped":
                    self._fail(self._next.at, "unsupported syntax: '`'")
                if self._next.kind != "ident":
                    text = "" if self._next.kind == "end" else self._next.text
                    self._fail(self._next.at, f"Syntax error: no viable alternative at input '{token.text}{text}'")
                name = self._name()
                if token.text == "." and self._sees("("):
                    operand = self._method(operand, name)
                else:
                    operand = Select(token.at, operand, name, optional=token.text == ".?")
            elif self._sees("[", "[?"):
                token = self._take()
                index = self._expression()
                self._expect("]")
                operand = Call(token.at, "_[_]" if token.text == "[" else "_[?_]", [operand, index])
            elif self._sees("{", "{?") and (name := qualified_name(operand)):
                operand = self._struct(name)
            else:
                return operand

    def _name(self) -> str:
        token = self._take()
        if token.kind != "ident":
            self._unexpected(token, "IDENTIFIER")
        return token.text

    def _primary(self) -> Expr:
        token = self._take()
        if token.text == "-" and token.kind == "symbol" and type(self._next.value) in (int, float):
            return Literal(token.at, -cast("float", self._take().value))
        if token.kind == "literal":
            value = token.value
            if type(value) is int and value == 2**63:
                self._fail(token.at, "Syntax error: invalid int literal")
            return Literal(token.at, value)
        if token.kind == "ident":
            if token.text in RESERVED:  # they may name a field, but not a variable or function
                self._fail(token.at, f"reserved identifier: {token.text}")
            if self._sees("("):
                return self._function(token)
            return Ident(token.at, token.text)
        if token.text == ".":
            return Ident(token.at, self._name())
        if token.text == "(":
            inner = self._expression()
            self._expect(")")
            return inner
        if token.text in ("[", "[?"):
            return self._list(token)
        if token.text not in ("{", "{?"):
            self._unexpected(token)
        return self._map(token)

    def _list(self, opening: Token) -> Expr:
        optional: set[int] = {0} if opening.text == "[?" else set()
        items: list[Expr] = []
        while not self._sees("]"):
            if self._sees("?"):
                self._take()
                optional.add(len(items))
            items.append(self._expression())
            if not self._sees("]"):
                self._expect(",")
        self._take()
        return ListExpr(opening.at, items, frozenset(optional))

    def _map(self, opening: Token) -> Expr:
        optional: set[int] = {0} if opening.text == "{?" else set()
        entries: list[tuple[Expr, Expr]] = []
        while not self._sees("}"):
            if self._sees("?"):
                self._take()
                optional.add(len(entries))
            key = self._expression()
            self._expect(":")
            entries.append((key, self._expression()))
            if not self._sees("}"):
                self._expect(",")
        self._take()
        return MapExpr(opening.at, entries, frozenset(optional))

    def _struct(self, name: str) -> Expr:
        opening = self._take()
        optional = opening.text == "{?"
        fields: list[StructField] = []
        while not self._sees("}"):
            if self._sees("?"):
                self._take()
                optional = True
            if self._next.kind != "ident":
                self._unexpected(self._next, "{'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}")
            field = self._name()
            at = self._expect(":").at
            fields.append(StructField(at, field, self._expression(), optional))
            optional = False
            if not self._sees("}"):
                self._expect(",")
        self._take()
        return StructExpr(opening.at, name, fields)

    def _arguments(self) -> list[Expr]:
        self._expect("(")
        arguments: list[Expr] = []
        while not self._sees(")"):
            arguments.append(self._expression())
            if not self._sees(",", ")"):
                self._expect(")")
            if self._sees(","):
                self._take()
        self._take()
        return arguments

    def _function(self, name: Token) -> Expr:
        at = self._next.at
        arguments = self._arguments()
        if name.text == "has" and len(arguments) == 1:
            (field,) = arguments
            if not isinstance(field, Select) or field.optional:
                self._fail(field.at, "invalid argument to has() macro")
            return Has(at, field.operand, field.field)
        return Call(at, name.text, arguments)

    def _method(self, operand: Expr, name: str) -> Expr:
        at = self._next.at
        arguments = self._arguments()
        if len(arguments) in _LOOPS.get(name, ()):
            return self._loop(at, operand, name, arguments)
        if isinstance(operand, Ident) and f"{operand.name}.{name}" in self._qualified:
            return Call(at, f"{operand.name}.{name}", arguments)
        if name == "format":
            for each in arguments:
                if isinstance(each, ListExpr):
                    each.mixed = True
        return Call(at, name, [operand, *arguments], member=True)

    def _loop(self, at: int, operand: Expr, name: str, arguments: list[Expr]) -> Expr:
        """Expand `range.map(x, body)`, `range.map(x, filter, body)`, `range.all(k, v, body)` and similar macros."""
        two = name.startswith("transform") or (len(arguments) == 3 and name not in ("map",))
        variables = [self._variable(each) for each in arguments[: 2 if two else 1]]
        if len(set(variables)) != len(variables):
            self._fail(arguments[1].at, f"duplicate variable name: {variables[0]}")
        rest = arguments[len(variables) :]
        kind = cast("MacroName", "exists_one" if name == "existsOne" else name)
        if len(rest) == 2:
            return Macro(at, kind, operand, variables, rest[0], rest[1])
        return Macro(at, kind, operand, variables, rest[0])

    def _variable(self, expression: Expr) -> str:
        if not isinstance(expression, Ident):
            self._fail(expression.at, "argument must be a simple name")
        return expression.name


def qualified_name(expression: Expr) -> str:
    """Return the name that an expression may be, such as `google.protobuf.Timestamp`; empty if it cannot be one."""
    names: list[str] = []
    while isinstance(expression, Select) and not expression.optional:
        names.append(expression.field)
        expression = expression.operand
    return ".".join([expression.name, *reversed(names)]) if isinstance(expression, Ident) else ""
