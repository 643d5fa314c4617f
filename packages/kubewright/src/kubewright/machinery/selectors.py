"""Label and field selectors: parsed from text or an object, and matched against labels or fields.

`str()` of a selector is text that parses to an equal one. Requirements are kept in the order of their keys.

Follows k8s.io/apimachinery/pkg/labels, pkg/fields and metav1.LabelSelectorAsSelector.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from kubewright.machinery import names
from kubewright.machinery.json import JSONObject

Operator: TypeAlias = Literal["=", "==", "!=", "in", "notin", "exists", "!", "gt", "lt"]
"""How a label is compared; `=` and `==` mean the same."""

_TOKEN: Final = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+)")
_OPERATORS: Final[dict[str, Operator]] = {
    "in": "in", "notin": "notin", "=": "=", "==": "==", "!=": "!=", ">": "gt", "<": "lt",
}  # fmt: skip
_EXPRESSION_OPERATORS: Final[dict[str, Operator]] = {
    "In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!",
}  # fmt: skip
_SPECIAL: Final = frozenset("=!(),<>") | {"==", "!="}


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on a label. `values` are distinct and sorted."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether these labels match. A missing label matches `!=`, `notin` and `!`."""
        value = labels.get(self.key)
        match self.operator:
            case "=" | "==" | "in":
                return value in self.values
            case "!=" | "notin":
                return value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "gt" | "lt":
                return value is not None and self._compares(value)

    def _compares(self, value: str) -> bool:
        try:
            left, right = int(value), int(self.values[0])
        except ValueError:
            return False
        return left > right if self.operator == "gt" else left < right

    def __str__(self) -> str:
        values = ",".join(self.values)
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return f"!{self.key}"
            case "in" | "notin":
                return f"{self.key} {self.operator} ({values})"
            case "gt":
                return f"{self.key}>{values}"
            case "lt":
                return f"{self.key}<{values}"
            case _:
                return f"{self.key}{self.operator}{values}"


@dataclass(frozen=True, slots=True)
class Selector:
    """Matches if all requirements do; without requirements it matches everything."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False
    """Matches nothing, like an object without a selector."""

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Read `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`. Raises ValueError with the API server's text."""
        return cls(_in_order(_Parser(text).requirements()))

    @classmethod
    def from_dict(cls, selector: JSONObject | None) -> Selector:
        """Read a metav1.LabelSelector (`matchLabels`, `matchExpressions`). None selects nothing, an empty selector
        selects everything.

        Raises ValueError for an invalid operator, key or value.
        """
        if selector is None:
            return cls(nothing=True)
        labels: JSONObject = selector.get("matchLabels") or {}
        found = [_checked(key, "=", [value]) for key, value in labels.items()]
        for expression in selector.get("matchExpressions") or ():
            operator = _EXPRESSION_OPERATORS.get(expression.get("operator", ""))
            if operator is None:
                raise ValueError(f'"{expression.get("operator", "")}" is not a valid label selector operator')
            found.append(_checked(expression.get("key", ""), operator, expression.get("values") or ()))
        return cls(_in_order(found))

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> Selector:
        """Return a selector that requires each of these labels. Keys and values are not validated."""
        return cls(_in_order(Requirement(key, "=", (value,)) for key, value in labels.items()))

    @property
    def empty(self) -> bool:
        """Whether the selector matches everything."""
        return not self.requirements and not self.nothing

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Return whether these labels match all requirements."""
        if self.nothing:
            return False
        given = labels or {}
        return all(each.matches(given) for each in self.requirements)

    def __str__(self) -> str:
        return ",".join(str(each) for each in self.requirements)


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One condition on a field: it equals this value, or does not."""

    field: str
    operator: Literal["=", "!="]
    value: str

    def __str__(self) -> str:
        escaped = self.value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
        return f"{self.field}{self.operator}{escaped}"


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Matches if all requirements do; without requirements it matches everything."""

    requirements: tuple[FieldRequirement, ...] = ()

    @classmethod
    def parse(cls, text: str) -> FieldSelector:
        """Read `metadata.name=a,status.phase!=Running`; `\\`, `,` and `=` in a value are escaped by `\\`.

        Raises ValueError with the API server's text. Whether the kind supports the fields is not checked here.
        """
        return cls(tuple(_field_requirement(text, term) for term in sorted(_split_terms(text)) if term))

    @property
    def empty(self) -> bool:
        """Whether the selector matches everything."""
        return not self.requirements

    def exact(self, field: str) -> str | None:
        """Return the value that `field` must have; None if the selector does not require one."""
        return next((each.value for each in self.requirements if each.field == field and each.operator == "="), None)

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Return whether `fields` match all requirements; a missing field is the empty string."""
        return all((fields.get(each.field, "") == each.value) == (each.operator == "=") for each in self.requirements)

    def __str__(self) -> str:
        return ",".join(str(each) for each in self.requirements)


class _Parser:
    """Recursive descent over a label selector's tokens; the end is an empty token."""

    def __init__(self, text: str) -> None:
        self._tokens = [found[1] for found in _TOKEN.finditer(text)]
        self._position = 0

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while token := self._peek():
            if token != "!" and token in _SPECIAL:
                raise ValueError(f"found '{token}', expected: !, identifier, or 'end of string'")
            try:
                found.append(self._requirement())
            except ValueError as error:
                raise ValueError(f"unable to parse requirement: {error}") from None
            separator = self._take()
            if separator not in ("", ","):
                raise ValueError(f"found '{separator}', expected: ',' or 'end of string'")
            following = self._peek()
            if separator and (not following or (following != "!" and following in _SPECIAL)):
                raise ValueError(f"found '{following}', expected: identifier after ','")
        return found

    def _requirement(self) -> Requirement:
        absent = self._peek() == "!"
        if absent:
            self._take()
        key = self._take()
        if not key or key in _SPECIAL:
            raise ValueError(f"found '{key}', expected: identifier")
        errors = names.qualified_name(key)
        if errors:
            raise ValueError(f'<nil>: Invalid value: "{key}": {"; ".join(errors)}')
        if absent or self._peek() in ("", ","):
            return Requirement(key, "!" if absent else "exists")
        operator = _OPERATORS.get(token := self._take())
        if operator is None:
            raise ValueError(f"found '{token}', expected: in, notin, =, ==, !=, gt, lt")
        return _checked(key, operator, self._set() if operator in ("in", "notin") else [self._value()])

    def _value(self) -> str:
        if self._peek() in ("", ","):
            return ""
        token = self._take()
        if token in _SPECIAL:
            raise ValueError(f"found '{token}', expected: identifier")
        return token

    def _set(self) -> list[str]:
        token = self._take()
        if token != "(":
            raise ValueError(f"found '{token}' expected: '('")
        values: list[str] = []
        while True:
            token = self._peek()
            values.append("" if token in (",", ")") else self._value())
            token = self._take()
            if token == ")":
                return values
            if token != ",":
                raise ValueError(f"found '{token}', expected: ',' or ')'")

    def _peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._position += 1
        return token


def _checked(key: str, operator: Operator, values: Iterable[str]) -> Requirement:
    """Return a requirement. Raises ValueError with the API server's text if key, operator and values do not fit."""
    distinct = tuple(sorted(set(values)))
    errors = [f'key: Invalid value: "{key}": {"; ".join(found)}'] if (found := names.qualified_name(key)) else []
    if operator in ("in", "notin") and not distinct:
        errors.append("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty")
    if operator in ("exists", "!") and distinct:
        text = "values set must be empty for exists and does not exist"
        errors.append(f"values: Invalid value: {list(distinct)}: {text}")
    for index, value in enumerate(distinct):
        if operator in ("gt", "lt") and not re.fullmatch(r"[+-]?\d+", value):
            text = "for 'Gt', 'Lt' operators, the value must be an integer"
            errors.append(f'values[{index}]: Invalid value: "{value}": {text}')
        if found := names.label_value(value):
            errors.append(f'values[{index}][{key}]: Invalid value: "{value}": {"; ".join(found)}')
    if errors:
        raise ValueError(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
    return Requirement(key, operator, distinct)


def _in_order(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    return tuple(sorted(requirements, key=lambda each: each.key))


def _split_terms(text: str) -> list[str]:
    return re.findall(r"(?:\\.|[^,\\]|\\$)+", text, re.DOTALL)


def _field_requirement(text: str, term: str) -> FieldRequirement:
    found = re.search(r"!=|==|=", term)
    if found is None:
        raise ValueError(f"invalid selector: '{text}'; can't understand '{term}'")
    return FieldRequirement(term[: found.start()], "!=" if found[0] == "!=" else "=", _unescape(term[found.end() :]))


def _unescape(value: str) -> str:
    for part in re.finditer(r"\\(.?)|[,=]", value, re.DOTALL):
        if part[0] in (",", "="):
            raise ValueError(f"invalid field selector: unescaped character in value: {ord(part[0])}")
        if part[1] not in ("\\", ",", "=") or not part[1]:
            raise ValueError(f"invalid field selector: invalid escape sequence: {part[0]}")
    return re.sub(r"\\(.)", r"\1", value)
