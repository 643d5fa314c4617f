"""Expressions of Prometheus: whether they parse, and which metrics they refer to.

Checks syntax, the names of functions and the number of their arguments; not the types of vectors.
Source: https://prometheus.io/docs/prometheus/latest/querying/basics/, operators/ and functions/.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from kubewright.machinery._suggestions import nearest

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)
    |(?P<duration>(?:\d+(?:ms|[smhdwy]))+(?![\w.]))
    |(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)
    |(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
    |(?P<symbol>=~|!~|==|!=|<=|>=|[-+*/%^()\[\]{},:=<>@])""",
    re.VERBOSE,
)
_AGGREGATIONS: Final = {
    "avg": 1, "bottomk": 2, "count": 1, "count_values": 2, "group": 1, "limitk": 2, "limit_ratio": 2, "max": 1,
    "min": 1, "quantile": 2, "stddev": 1, "stdvar": 1, "sum": 1, "topk": 2,
}  # fmt: skip
"""Aggregation operators and how many arguments they take."""
_FUNCTIONS: Final = {
    "abs": (1, 1), "absent": (1, 1), "absent_over_time": (1, 1), "acos": (1, 1), "acosh": (1, 1), "asin": (1, 1),
    "asinh": (1, 1), "atan": (1, 1), "atanh": (1, 1), "avg_over_time": (1, 1), "ceil": (1, 1), "changes": (1, 1),
    "clamp": (3, 3), "clamp_max": (2, 2), "clamp_min": (2, 2), "cos": (1, 1), "cosh": (1, 1),
    "count_over_time": (1, 1), "day_of_month": (0, 1), "day_of_week": (0, 1), "day_of_year": (0, 1),
    "days_in_month": (0, 1), "deg": (1, 1), "delta": (1, 1), "deriv": (1, 1), "double_exponential_smoothing": (3, 3),
    "exp": (1, 1), "floor": (1, 1), "histogram_avg": (1, 1), "histogram_count": (1, 1), "histogram_fraction": (3, 3),
    "histogram_quantile": (2, 2), "histogram_stddev": (1, 1), "histogram_stdvar": (1, 1), "histogram_sum": (1, 1),
    "holt_winters": (3, 3), "hour": (0, 1), "idelta": (1, 1), "increase": (1, 1), "info": (1, 2), "irate": (1, 1),
    "label_join": (3, 99), "label_replace": (5, 5), "last_over_time": (1, 1), "ln": (1, 1), "log10": (1, 1),
    "log2": (1, 1), "mad_over_time": (1, 1), "max_over_time": (1, 1), "min_over_time": (1, 1), "minute": (0, 1),
    "month": (0, 1), "pi": (0, 0), "predict_linear": (2, 2), "present_over_time": (1, 1),
    "quantile_over_time": (2, 2), "rad": (1, 1), "rate": (1, 1), "resets": (1, 1), "round": (1, 2), "scalar": (1, 1),
    "sgn": (1, 1), "sin": (1, 1), "sinh": (1, 1), "sort": (1, 1), "sort_by_label": (1, 99),
    "sort_by_label_desc": (1, 99), "sort_desc": (1, 1), "sqrt": (1, 1), "stddev_over_time": (1, 1),
    "stdvar_over_time": (1, 1), "sum_over_time": (1, 1), "tan": (1, 1), "tanh": (1, 1), "time": (0, 0),
    "timestamp": (1, 1), "vector": (1, 1), "year": (0, 1),
}  # fmt: skip
"""Functions, and the fewest and most arguments they take."""
_RANGES: Final = frozenset(
    name
    for name in _FUNCTIONS
    if name.endswith("_over_time")
    or name in ("changes", "delta", "deriv", "idelta", "increase", "irate", "rate", "resets", "predict_linear")
)
"""Functions whose argument is a range, such as `metric[5m]`."""
_PRECEDENCE: Final = {
    "or": 1, "and": 2, "unless": 2, "==": 3, "!=": 3, "<=": 3, "<": 3, ">=": 3, ">": 3, "+": 4, "-": 4, "*": 5, "/": 5,
    "%": 5, "atan2": 5, "^": 6,
}  # fmt: skip
_RIGHT: Final = "^"
_LONGEST: Final = 100_000
_DEEPEST: Final = 100


class PromQLError(ValueError):
    """An expression that Prometheus would reject."""


class _Token(NamedTuple):
    kind: str
    text: str
    place: int


def metrics_in(expression: str) -> frozenset[str]:
    """Return the names of the metrics in an expression. Raises PromQLError if it does not parse."""
    parser = _Parser(_tokens(expression))
    parser.parse()
    return frozenset(parser.metrics)


def _tokens(text: str) -> list[_Token]:
    if len(text) > _LONGEST:
        raise PromQLError(f"the expression has {len(text)} characters, more than {_LONGEST}")
    found: list[_Token] = []
    place = brackets = 0
    while place < len(text):
        if brackets and text[place] == ":":  # between two durations; elsewhere a name may begin with it
            found.append(_Token("symbol", ":", place + 1))
            place += 1
            continue
        matched = _TOKEN.match(text, place)
        if matched is None:
            raise PromQLError(f"unexpected {text[place]!r} at character {place + 1}")
        if matched.lastgroup != "space":
            found.append(_Token(matched.lastgroup or "", matched[0], place + 1))
            brackets += (matched[0] == "[") - (matched[0] == "]")
        place = matched.end()
    return [*found, _Token("end", "", len(text) + 1)]


class _Parser:
    """Parses an expression. Each method returns whether its value is a range vector."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self.metrics: set[str] = set()

    def parse(self) -> None:
        if self._expression(0):
            raise PromQLError("a range such as metric[5m] is not a result; use a function such as rate()")
        if self._next.kind != "end":
            raise self._unexpected()

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._next
        self._at += 1
        return token

    def _is(self, *texts: str) -> bool:
        return self._next.kind in ("symbol", "name") and self._next.text.lower() in texts

    def _accept(self, *texts: str) -> bool:
        if self._is(*texts):
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._unexpected(f'"{text}"')

    def _unexpected(self, wanted: str = "") -> PromQLError:
        found = f'"{self._next.text}" at character {self._next.place}' if self._next.text else "end of the expression"
        return PromQLError(f"unexpected {found}{wanted and f'; expected {wanted}'}")

    def _expression(self, least: int) -> bool:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise PromQLError(f"the expression is nested more than {_DEEPEST} levels deep")
        is_range = self._unary()
        while (strength := _PRECEDENCE.get(self._operator(), 0)) and strength >= least:
            operator = self._take().text.lower()
            self._modifiers()
            right = self._expression(strength if operator == _RIGHT else strength + 1)
            if is_range or right:
                raise PromQLError(f'the operator "{operator}" cannot take a range such as metric[5m]')
        self._depth -= 1
        return is_range

    def _operator(self) -> str:
        return self._next.text.lower() if self._next.kind in ("symbol", "name") else ""

    def _modifiers(self) -> None:
        self._accept("bool")
        if self._accept("on", "ignoring"):
            self._labels()
            if self._accept("group_left", "group_right") and self._is("("):
                self._labels()

    def _labels(self) -> None:
        self._expect("(")
        while not self._accept(")"):
            if self._next.kind not in ("name", "string"):
                raise self._unexpected("the name of a label")
            self._take()
            if not self._is(")"):
                self._expect(",")

    def _unary(self) -> bool:
        if self._accept("-", "+"):
            return self._expression(_PRECEDENCE["*"])
        is_range = self._primary()
        while self._is("[", "offset", "@"):
            is_range = self._suffix(is_range)
        return is_range

    def _suffix(self, is_range: bool) -> bool:
        if self._accept("["):
            if is_range:
                raise PromQLError("a range of a range; write one duration only")
            self._duration()
            if self._accept(":") and not self._is("]"):
                self._duration()
            self._expect("]")
            return True
        if self._accept("offset"):
            self._accept("-", "+")
            self._duration()
            return is_range
        self._expect("@")
        if self._accept("start", "end"):
            self._expect("(")
            self._expect(")")
        else:
            self._accept("-", "+")
            if self._take().kind != "number":
                self._at -= 1
                raise self._unexpected("a time")
        return is_range

    def _duration(self) -> None:
        if self._next.kind not in ("duration", "number"):
            raise self._unexpected("a duration such as 5m")
        self._take()

    def _primary(self) -> bool:
        token = self._next
        if token.kind in ("number", "string"):
            self._take()
        elif token.text == "(":
            self._take()
            is_range = self._expression(0)
            self._expect(")")
            return is_range
        elif token.text == "{":
            self._matchers("")
        elif token.kind == "name":
            self._named(self._take().text)
        else:
            raise self._unexpected("a metric, a number or a function")
        return False

    def _named(self, name: str) -> None:
        lower = name.lower()
        if lower in _AGGREGATIONS and self._is("(", "by", "without"):
            self._aggregation(lower)
        elif self._is("("):
            self._call(name)
        elif lower in ("inf", "nan"):
            return
        else:
            self.metrics.add(name)
            if self._is("{"):
                self._matchers(name)

    def _aggregation(self, name: str) -> None:
        grouped = self._accept("by", "without")
        if grouped:
            self._labels()
        ranges = self._arguments()
        if len(ranges) != _AGGREGATIONS[name]:
            raise PromQLError(f"{name} takes {_AGGREGATIONS[name]} arguments, not {len(ranges)}")
        if any(ranges):
            raise PromQLError(f"{name} cannot take a range such as metric[5m]")
        if not grouped and self._accept("by", "without"):
            self._labels()

    def _call(self, name: str) -> None:
        if name not in _FUNCTIONS:
            similar = nearest(name, [*_FUNCTIONS, *_AGGREGATIONS])
            raise PromQLError(f"unknown function {name}{f'; did you mean {similar}?' if similar else ''}")
        ranges = self._arguments()
        fewest, most = _FUNCTIONS[name]
        if not fewest <= len(ranges) <= most:
            wanted = str(fewest) if fewest == most else f"{fewest} to {most}"
            raise PromQLError(f"{name} takes {wanted} arguments, not {len(ranges)}")
        if name in _RANGES and not any(ranges):
            raise PromQLError(f"{name} needs a range: {name}(metric[5m])")
        if name not in _RANGES and any(ranges) and name not in ("double_exponential_smoothing", "holt_winters"):
            raise PromQLError(f"{name} cannot take a range such as metric[5m]")

    def _arguments(self) -> list[bool]:
        """Parse arguments, and return for each whether it is a range."""
        self._expect("(")
        found: list[bool] = []
        while not self._accept(")"):
            found.append(self._expression(0))
            if not self._is(")"):
                self._expect(",")
        return found

    def _matchers(self, metric: str) -> None:
        self._expect("{")
        some = bool(metric)
        while not self._accept("}"):
            label = self._take()
            if label.kind == "string" and not self._is("=", "!=", "=~", "!~"):
                self.metrics.add(label.text[1:-1])
                some = True
            else:
                some |= self._matcher(label)
            if not self._is("}"):
                self._expect(",")
        if not some:
            raise PromQLError("a selector without a metric needs a matcher that does not match the empty text")

    def _matcher(self, label: _Token) -> bool:
        """Parse the rest of a matcher, and return whether it excludes the empty text."""
        if label.kind not in ("name", "string"):
            self._at -= 1
            raise self._unexpected("the name of a label")
        operator = self._next.text
        if not self._accept("=", "!=", "=~", "!~"):
            raise self._unexpected("=, !=, =~ or !~")
        if self._next.kind != "string":
            raise self._unexpected("a text in quotes")
        value = self._take().text[1:-1]
        if operator in ("=~", "!~"):
            self._check_pattern(value)
        if label.text == "__name__" and operator == "=":
            self.metrics.add(value)
        return operator in ("=", "=~") and value not in ("", ".*")

    def _check_pattern(self, value: str) -> None:
        try:
            re.compile(value.replace("\\\\", "\\"))
        except re.error as error:
            raise PromQLError(f'"{value}" is not a regular expression: {error}') from error
