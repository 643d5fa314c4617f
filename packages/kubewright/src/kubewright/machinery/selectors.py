"""Label and field selectors: parsed from text or an object, and matched against labels or fields.

`str()` of a selector is text that parses to an equal one. Requirements are kept in the order of their keys.

Follows k8s.io/apimachinery/pkg/labels, pkg/fields and metav1.LabelSelectorAsSelector.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from kubewright.machinery import names
from kubewright.machinery.json import JSONObject

Operator: TypeAlias = Literal["=", "==", "!=", "in", "notin", "exists", "!", "gt", "lt"]
"""How a label is compared; `=` and `==` mean the same."""

_TOKEN: Final = r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+)"
_OPERATORS: Final[dict[str, Operator]] = {
    "in": "in", "notin": "notin", "=": "=", "==": "==", "!=": "!=", ">": "gt", "<": "lt",
}  # fmt: skip
_EXPRESSION_OPERATORS: Final[dict[str, Operator]] = {
    "In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!",
}  # fmt: skip
_FEW_COMPARISONS: Final = 8
"""Comparisons that cost less than sets of values."""
_SPECIAL: Final = frozenset("=!(),<>") | {"==", "!="}


class Requirement(msgspec.Struct, frozen=True):
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
                return value is not None and self.compares(value)

    def compares(self, value: str) -> bool:
        """Return whether a number is greater or less than that of this requirement. Other texts are neither."""
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


class Selector(msgspec.Struct, frozen=True):
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

    def matcher(self) -> Callable[[Mapping[str, str]], bool]:
        """Return a function like `matches`, whose cost depends on the labels and not on the number of requirements."""
        if self.nothing or sum(1 + len(each.values) for each in self.requirements) <= _FEW_COMPARISONS:
            return self.matches
        grouped: defaultdict[str, list[Requirement]] = defaultdict(list)
        for each in self.requirements:
            grouped[each.key].append(each)
        conditions = {key: _Condition.of(requirements) for key, requirements in grouped.items()}
        required = [key for key, condition in conditions.items() if condition.is_required]

        def matches(labels: Mapping[str, str]) -> bool:
            if len(required) > len(labels) or not all(key in labels for key in required):
                return False
            return all(key not in conditions or conditions[key].matches(value) for key, value in labels.items())

        return matches

    def __str__(self) -> str:
        return ",".join(str(each) for each in self.requirements)


class _Condition(msgspec.Struct, frozen=True):
    """All requirements on one label."""

    is_required: bool
    """Whether the label must exist."""
    is_forbidden: bool
    allowed: frozenset[str] | None
    """The only values that match; None for all."""
    denied: frozenset[str]
    compared: tuple[Requirement, ...]
    """The comparisons of numbers, at most one with each operator."""

    @classmethod
    def of(cls, requirements: Iterable[Requirement]) -> _Condition:
        """Return the condition that is equal to all of these requirements on one label."""
        required, forbidden = False, False
        allowed: frozenset[str] | None = None
        denied: set[str] = set()
        compared: dict[Operator, Requirement] = {}
        for each in requirements:
            required = required or each.operator not in ("!=", "notin", "!")
            match each.operator:
                case "=" | "==" | "in":
                    allowed = frozenset(each.values) if allowed is None else allowed.intersection(each.values)
                case "!=" | "notin":
                    denied.update(each.values)
                case "!":
                    forbidden = True
                case "gt" | "lt":
                    known = compared.get(each.operator)
                    if known is None or known.compares(each.values[0]):
                        compared[each.operator] = each
                case "exists":
                    pass
        return cls(required, forbidden, allowed, frozenset(denied), tuple(compared.values()))

    def matches(self, value: str) -> bool:
        """Return whether a label that exists matches."""
        if self.is_forbidden or value in self.denied or (self.allowed is not None and value not in self.allowed):
            return False
        return all(each.compares(value) for each in self.compared)


class FieldRequirement(msgspec.Struct, frozen=True):
    """One condition on a field: it equals this value, or does not."""

    field: str
    operator: Literal["=", "!="]
    value: str

    def __str__(self) -> str:
        escaped = self.value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
        return f"{self.field}{self.operator}{escaped}"


class FieldSelector(msgspec.Struct, frozen=True):
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

    def matcher(self) -> Callable[[Mapping[str, str]], bool]:
        """Return a function like `matches`, whose cost does not depend on the number of requirements."""
        if len(self.requirements) <= _FEW_COMPARISONS:
            return self.matches
        required: defaultdict[str, set[str]] = defaultdict(set)
        denied: defaultdict[str, set[str]] = defaultdict(set)
        for each in self.requirements:
            (required if each.operator == "=" else denied)[each.field].add(each.value)

        def matches(fields: Mapping[str, str]) -> bool:
            return all(values == {fields.get(field, "")} for field, values in required.items()) and not any(
                fields.get(field, "") in values for field, values in denied.items()
            )

        return matches

    def __str__(self) -> str:
        return ",".join(str(each) for each in self.requirements)


class _Parser:
    """Recursive descent over a label selector's tokens; the end is an empty token."""

    def __init__(self, text: str) -> None:
        self._tokens = [found[1] for found in re.finditer(_TOKEN, text)]
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
