"""Sprig's functions of semantic versions. Follows github.com/Masterminds/semver v3.3."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Final

from kubewright.templates._functions import Function, f
from kubewright.templates._strconv import MAX_UINT
from kubewright.templates._values import FunctionError, Object, Uint64, spend

_TAIL: Final = (
    r"(-([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?"
    r"(\+([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?"
)
_VERSION: Final = re.compile(rf"v?([0-9]+)(\.[0-9]+)?(\.[0-9]+)?{_TAIL}")
_PART: Final = r"[0-9|x|X|\*]+"
_CONSTRAINT_VERSION: Final = rf"v?({_PART})(\.{_PART})?(\.{_PART})?{_TAIL}"
_OPERATORS: Final = r"(?:=|!=|>=|=>|<=|=<|>|<|~>|~|\^)"
_S: Final = r"[\t\n\f\r ]"
_CONSTRAINT: Final = re.compile(rf"{_S}*({_OPERATORS}?){_S}*({_CONSTRAINT_VERSION}){_S}*")
_FIND: Final = re.compile(rf"(?:{_OPERATORS}{_S}*)?{_CONSTRAINT_VERSION}")
_RANGE: Final = re.compile(rf"{_S}*({_CONSTRAINT_VERSION}){_S}+-{_S}+({_CONSTRAINT_VERSION}){_S}*")
_LONGEST: Final = 1000


@dataclass(frozen=True, slots=True)
class _Numbers:
    major: int
    minor: int
    patch: int
    prerelease: str = ""


class Version(Object):
    """A semantic version."""

    type_name = "*semver.Version"
    kind = "ptr"
    methods: ClassVar[Mapping[str, Any]]

    def __init__(self, numbers: _Numbers, metadata: str, original: str) -> None:
        self.numbers = numbers
        self.metadata = metadata
        self.original = original

    def text(self) -> str:
        """Return the version with three numbers."""
        numbers = self.numbers
        tail = f"-{numbers.prerelease}" if numbers.prerelease else ""
        tail += f"+{self.metadata}" if self.metadata else ""
        return f"{numbers.major}.{numbers.minor}.{numbers.patch}{tail}"

    def json(self) -> str:
        """Return the value for JSON."""
        return self.text()

    def compared(self, other: Version) -> int:
        """Return -1, 0 or 1: whether this version is less than, equal to or greater than another."""
        left, right = self.numbers, other.numbers
        first, second = (left.major, left.minor, left.patch), (right.major, right.minor, right.patch)
        if first != second:
            return 1 if first > second else -1
        return _compared_prereleases(left.prerelease, right.prerelease)


class VersionValue(Version):
    """A version that is not a pointer, as IncMajor returns it."""

    type_name = "semver.Version"
    kind = "struct"

    def key(self) -> object:
        """Return what equality compares."""
        return self.numbers, self.metadata, self.original


def _compared_prereleases(left: str, right: str) -> int:
    if left == right:
        return 0
    if not left or not right:
        return -1 if left else 1
    lefts, rights = left.split("."), right.split(".")
    for index in range(max(len(lefts), len(rights))):
        first = lefts[index] if index < len(lefts) else ""
        second = rights[index] if index < len(rights) else ""
        if first != second:
            return _compared_parts(first, second)
    return 0


def _compared_parts(left: str, right: str) -> int:
    if not left or not right:
        return 1 if left else -1
    left_number = int(left) if left.isdigit() and int(left) <= MAX_UINT else None
    right_number = int(right) if right.isdigit() and int(right) <= MAX_UINT else None
    if left_number is None and right_number is None:
        return 1 if left > right else -1
    if left_number is None or right_number is None:
        return 1 if left_number is None else -1
    return 1 if left_number > right_number else -1


def _number(text: str | None) -> int:
    value = int((text or "0").lstrip("."))
    if value > MAX_UINT:
        raise FunctionError(f"the number {value} of the version is too large")
    return value


def parsed(text: str) -> Version:
    """Read a version. Raises FunctionError."""
    if len(text) > _LONGEST:
        raise FunctionError("the version is too long")
    match = _VERSION.fullmatch(text)
    if match is None:
        raise FunctionError(f"{text!r} is not a semantic version, such as 1.2.3")
    prerelease = match[5] or ""
    for part in prerelease.split("."):
        if part.isdigit() and len(part) > 1 and part.startswith("0"):
            raise FunctionError(f"part {part!r} of version {text!r} must not start with 0")
    return Version(_Numbers(_number(match[1]), _number(match[2]), _number(match[3]), prerelease), match[8] or "", text)


@dataclass(frozen=True, slots=True)
class _Constraint:
    operator: str
    version: Version
    minor_open: bool = False
    patch_open: bool = False
    is_open: bool = False

    def accepts(self, version: Version) -> bool:
        if self.operator == "!=":
            return self._differs(version)
        if version.numbers.prerelease and not self.version.numbers.prerelease:
            return False
        return _CHECKS[self.operator](self, version)

    def _differs(self, version: Version) -> bool:
        mine, other = self.version.numbers, version.numbers
        if self.is_open:
            if other.prerelease and not mine.prerelease:
                return False
            if mine.major != other.major:
                return True
            if self.minor_open:
                return False
            if mine.minor != other.minor:
                return True
            if self.patch_open:
                return bool(other.prerelease or mine.prerelease) and bool(
                    _compared_prereleases(other.prerelease, mine.prerelease)
                )
            if mine.patch != other.patch:
                return True
        return version.compared(self.version) != 0


def _greater(constraint: _Constraint, version: Version) -> bool:
    mine, other = constraint.version.numbers, version.numbers
    if constraint.is_open:
        if other.major != mine.major:
            return other.major > mine.major
        if constraint.minor_open:
            return False
        if constraint.patch_open:
            return other.minor > mine.minor
    return version.compared(constraint.version) > 0


def _at_most(constraint: _Constraint, version: Version) -> bool:
    if not constraint.is_open:
        return version.compared(constraint.version) <= 0
    mine, other = constraint.version.numbers, version.numbers
    if other.major > mine.major:
        return False
    return not (other.major == mine.major and other.minor > mine.minor and not constraint.minor_open)


def _tilde(constraint: _Constraint, version: Version) -> bool:
    mine, other = constraint.version.numbers, version.numbers
    if version.compared(constraint.version) < 0:
        return False
    if (mine.major, mine.minor, mine.patch) == (0, 0, 0) and not constraint.minor_open and not constraint.patch_open:
        return True
    return mine.major == other.major and (mine.minor == other.minor or constraint.minor_open)


def _equal(constraint: _Constraint, version: Version) -> bool:
    if constraint.is_open:
        return _tilde(constraint, version)
    return version.compared(constraint.version) == 0


def _caret(constraint: _Constraint, version: Version) -> bool:
    mine, other = constraint.version.numbers, version.numbers
    if version.compared(constraint.version) < 0:
        return False
    if mine.major > 0 or constraint.minor_open:
        return mine.major == other.major
    if other.major > 0:
        return False
    if mine.minor > 0 or constraint.patch_open:
        return mine.minor == other.minor
    return other.minor == 0 and mine.patch == other.patch


def _less(constraint: _Constraint, version: Version) -> bool:
    return version.compared(constraint.version) < 0


def _at_least(constraint: _Constraint, version: Version) -> bool:
    return version.compared(constraint.version) >= 0


_CHECKS: Final[Mapping[str, Callable[[_Constraint, Version], bool]]] = {
    "": _equal,
    "=": _equal,
    ">": _greater,
    "<": _less,
    ">=": _at_least,
    "=>": _at_least,
    "<=": _at_most,
    "=<": _at_most,
    "~": _tilde,
    "~>": _tilde,
    "^": _caret,
}


def _constraint(text: str) -> _Constraint:
    match = _CONSTRAINT.fullmatch(text)
    if match is None:
        raise FunctionError(f"{text!r} is not a constraint on versions, such as >= 1.2, < 2")
    major, minor, patch, tail = match[3], (match[4] or "")[1:], (match[5] or "")[1:], match[6] or ""
    opened = ("x", "X", "*", "")
    if major in opened:
        return _Constraint(match[1], parsed(f"0.0.0{tail}"), is_open=True)
    if minor in opened:
        return _Constraint(match[1], parsed(f"{major}.0.0{tail}"), minor_open=True, is_open=True)
    if patch in opened:
        return _Constraint(match[1], parsed(f"{major}.{minor}.0{tail}"), patch_open=True, is_open=True)
    return _Constraint(match[1], parsed(match[2]))


@cache
def _valid_alternative() -> re.Pattern[str]:
    # Each run of spaces can be read in one way only, so that matching does not take exponential time.
    one = rf"(?:{_OPERATORS}{_S}*)?{_CONSTRAINT_VERSION}"
    return re.compile(rf"{_S}*{one}(?:(?:{_S}*,{_S}*|{_S}+){one})*{_S}*")


def _alternative(text: str) -> list[_Constraint]:
    if not _valid_alternative().fullmatch(text):
        raise FunctionError(f"{text!r} is not a constraint on versions, such as >= 1.2, < 2")
    return [_constraint(match.group()) for match in _FIND.finditer(text)]


def _compare(constraint: str, version: str) -> bool:
    if len(constraint) > _LONGEST:
        raise FunctionError("the constraint is too long")
    spend(len(constraint))
    text = constraint
    for match in _RANGE.finditer(constraint):
        text = text.replace(match[0], f">= {match[1]}, <= {match[11]} ", 1)
    alternatives = [_alternative(each) for each in text.split("||")]
    found = parsed(version)
    return any(all(each.accepts(found) for each in alternative) for alternative in alternatives)


def _increased(version: Version, part: str) -> VersionValue:
    numbers = version.numbers
    if part == "major":
        after = _Numbers(numbers.major + 1, 0, 0)
    elif part == "minor":
        after = _Numbers(numbers.major, numbers.minor + 1, 0)
    else:
        after = _Numbers(numbers.major, numbers.minor, numbers.patch + (not numbers.prerelease))
    prefix = "v" if version.original.startswith("v") else ""
    text = prefix + VersionValue(after, "", "").text()
    return VersionValue(after, "", text)


def _method(call: Callable[..., Any], *parameters: str) -> Function:
    return f(call, *parameters)


Version.methods = {
    "Major": _method(lambda version: Uint64(version.numbers.major)),
    "Minor": _method(lambda version: Uint64(version.numbers.minor)),
    "Patch": _method(lambda version: Uint64(version.numbers.patch)),
    "Prerelease": _method(lambda version: version.numbers.prerelease),
    "Metadata": _method(lambda version: version.metadata),
    "Original": _method(lambda version: version.original),
    "String": _method(lambda version: version.text()),
    "IncMajor": _method(lambda version: _increased(version, "major")),
    "IncMinor": _method(lambda version: _increased(version, "minor")),
    "IncPatch": _method(lambda version: _increased(version, "patch")),
    "Compare": _method(lambda version, other: version.compared(other), "version"),
    "Equal": _method(lambda version, other: version.compared(other) == 0, "version"),
    "LessThan": _method(lambda version, other: version.compared(other) < 0, "version"),
    "LessThanEqual": _method(lambda version, other: version.compared(other) <= 0, "version"),
    "GreaterThan": _method(lambda version, other: version.compared(other) > 0, "version"),
    "GreaterThanEqual": _method(lambda version, other: version.compared(other) >= 0, "version"),
}
FUNCTIONS: Final[Mapping[str, Function]] = {
    "semver": f(parsed, "string"),
    "semverCompare": f(_compare, "string", "string"),
}
