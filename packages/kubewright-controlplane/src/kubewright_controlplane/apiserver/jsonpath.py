"""kubectl's JSONPath: for printer columns, selectable fields, `kubectl wait --for=jsonpath` and sorting.

    .spec.replicas   .status.conditions[?(@.type=="Ready")].status   .items[*].name   .spec.ports[0:2]   ..image
    {.metadata.name}   .data['tls\\.crt']   .spec['replicas','paused']

A path is compiled once. It finds values in the order of the document; missing values are skipped without an error.
Text outside of braces, `range` and functions are not supported and are rejected at compile time.

Follows k8s.io/client-go/util/jsonpath and https://kubernetes.io/docs/reference/kubectl/jsonpath/.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

from kubewright.machinery.json import is_array, is_object

_Step: TypeAlias = Callable[[Any], Iterable[Any]]

_NAME: Final = re.compile(r"(?:\\.|[^.\[\]{}\\\s,'\"()?@=!<>|])+")
_SLICE: Final = re.compile(r"(-?\d*)(?::(-?\d*))?(?::(-?\d*))?")
_FILTER: Final = re.compile(r"\?\(\s*(.*?)\s*\)$", re.DOTALL)
_COMPARISON: Final = re.compile(r"(==|!=|<=|>=|<|>)")
_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class JSONPath:
    """A compiled path."""

    __slots__ = ("_steps", "_text")

    def __init__(self, text: str) -> None:
        """Compile `text`, with or without braces. Raises ValueError with the path if it is invalid or unsupported."""
        self._text = text
        body = text.strip()
        if body.startswith("{") and body.endswith("}"):
            body = body[1:-1].strip()
        try:
            self._steps = _Parser(body).steps()
        except ValueError as error:
            raise ValueError(f'JSONPath "{text}": {error}') from None

    def find(self, value: Any) -> list[Any]:
        """Return all values at the path, starting at `value`."""
        found: Iterable[Any] = (value,)
        for step in self._steps:
            found = [each for one in found for each in step(one)]
        return list(found)

    def first(self, value: Any) -> Any:
        """Return the first value at the path; None if there is none."""
        found = self.find(value)
        return found[0] if found else None

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"JSONPath({self._text!r})"


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def steps(self) -> tuple[_Step, ...]:
        steps: list[_Step] = []
        if self._text[:1] in ("$", "@"):
            self._at = 1
        while self._at < len(self._text):
            steps.append(self._step())
        return tuple(steps)

    def _step(self) -> _Step:
        rest = self._text[self._at :]
        if rest.startswith(".."):
            self._at += 2
            return self._descent()
        if rest.startswith("["):
            return self._bracket()
        if rest.startswith("."):
            self._at += 1
            if self._at == len(self._text):
                return _itself
            if self._text.startswith("[", self._at):
                return self._bracket()
        return self._name()

    def _descent(self) -> _Step:
        inner = self._bracket() if self._text.startswith("[", self._at) else self._name()
        return lambda value: (found for below in _descend(value) for found in inner(below))

    def _name(self) -> _Step:
        if self._text.startswith("*", self._at):
            self._at += 1
            return _children
        found = _NAME.match(self._text, self._at)
        if found is None:
            raise ValueError(f"unexpected {self._text[self._at :]!r}")
        self._at = found.end()
        return _field(re.sub(r"\\(.)", r"\1", found[0]))

    def _bracket(self) -> _Step:
        end = _closing(self._text, self._at)
        body = self._text[self._at + 1 : end].strip()
        self._at = end + 1
        filtered = _FILTER.fullmatch(body)
        if filtered is not None:
            return _filter(filtered[1])
        parts = [_subscript(part.strip()) for part in _split(body) or [""]]
        if len(parts) == 1:
            return parts[0]
        return lambda value: (found for part in parts for found in part(value))


def _closing(text: str, start: int) -> int:
    """Return the position of the bracket that closes the one at `start`. Brackets in quotes do not count."""
    depth = 0
    quote = ""
    position = start
    while position < len(text):
        each = text[position]
        if quote:
            position += each == "\\"
            quote = "" if each == quote else quote
        elif each in "'\"":
            quote = each
        elif each in "[]":
            depth += 1 if each == "[" else -1
            if depth == 0:
                return position
        position += 1
    raise ValueError("unterminated array" if not quote else "unterminated string")


def _split(body: str) -> list[str]:
    """Split a union at the commas outside of quotes."""
    return re.findall(r"(?:'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|[^,])+", body)


def _subscript(body: str) -> _Step:
    if body == "*":
        return _children
    if body[:1] in ("'", '"') and len(body) > 1 and body.endswith(body[0]):
        return _field(re.sub(r"\\(.)", r"\1", body[1:-1]))
    found = _SLICE.fullmatch(body)
    if found is None or not body:
        raise ValueError(f"invalid array index {body}")
    numbers = [int(each) if each and each != "-" else None for each in found.groups()]
    if ":" not in body:
        return _index(numbers[0])
    if numbers[2] is not None and numbers[2] <= 0:
        raise ValueError("step must be > 0")
    return _slice(slice(*numbers))


def _itself(value: Any) -> Iterable[Any]:
    return (value,)


def _children(value: Any) -> Iterable[Any]:
    if is_object(value):
        return value.values()
    return value if is_array(value) else ()


def _descend(value: Any) -> Iterator[Any]:
    """Yield `value` and everything below it."""
    yield value
    for child in _children(value):
        yield from _descend(child)


def _field(name: str) -> _Step:
    def step(value: Any) -> Iterable[Any]:
        return (value[name],) if is_object(value) and name in value else ()

    return step


def _index(number: int | None) -> _Step:
    if number is None:
        raise ValueError("invalid array index")

    def step(value: Any) -> Iterable[Any]:
        if is_array(value) and -len(value) <= number < len(value):
            return (value[number],)
        return ()

    return step


def _slice(chosen: slice) -> _Step:
    return lambda value: value[chosen] if is_array(value) else ()


def _filter(condition: str) -> _Step:
    """Keeps the items for which `@.path` exists, or for which a comparison of paths and literals is true."""
    left, *compared = _COMPARISON.split(condition, maxsplit=1)
    value_of = _operand(left.strip())
    if not compared:
        return lambda value: (each for each in _children(value) if value_of(each))
    compare = _OPERATORS[compared[0]]
    other_of = _operand(compared[1].strip())

    def step(value: Any) -> Iterable[Any]:
        for each in _children(value):
            left_found, right_found = value_of(each), other_of(each)
            if left_found and right_found and _holds(compare, left_found[0], right_found[0]):
                yield each

    return step


def _holds(compare: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    if isinstance(left, bool) != isinstance(right, bool):
        return compare is operator.ne
    try:
        return compare(left, right)
    except TypeError:
        return False


def _operand(text: str) -> Callable[[Any], list[Any]]:
    """Return the values of one side of a comparison; the list may be empty."""
    if text.startswith("@"):
        return JSONPath(text).find
    literal = _literal(text)
    return lambda value: [literal]


def _literal(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    if text[:1] in ("'", '"') and len(text) > 1 and text.endswith(text[0]):
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise ValueError(f"unrecognized value {text!r} in filter") from None
