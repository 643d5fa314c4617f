"""Semantic versions. Follows k8s.io/apiserver/pkg/cel/library/semverlib.go and https://semver.org."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering
from typing import ClassVar, Final

from kubewright.cel.functions import Function, library
from kubewright.cel.values import EvaluationError

_NUMBER: Final = r"0|[1-9]\d*"
_VERSION: Final = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?", re.ASCII
)
_LOOSE: Final = re.compile(r"[vV]?(\d+)(?:\.(\d+))?(?:\.(\d+))?((?:[-+].*)?)", re.ASCII)


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    CEL_TYPE: ClassVar[str] = "kubernetes.Semver"
    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...]

    def _key(self) -> tuple[int, int, int, bool, list[tuple[int, int, str]]]:
        parts = [(0, int(each), "") if each.isdecimal() else (1, 0, each) for each in self.prerelease]
        return (self.major, self.minor, self.patch, not self.prerelease, parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self._key() == other._key()

    def __lt__(self, other: Semver) -> bool:
        return self._key() < other._key()

    def __hash__(self) -> int:
        return hash((self.major, self.minor, self.patch, self.prerelease))


def _parse(text: str, normalize: bool = False) -> Semver:
    if normalize and (loose := _LOOSE.fullmatch(text)):
        text = ".".join(str(int(each or "0")) for each in loose.groups()[:3]) + loose[4]
    found = _VERSION.fullmatch(text)
    parts = tuple(found[4].split(".")) if found is not None and found[4] else ()
    if found is None or any(not each or (each.isdecimal() and each != "0" and each[0] == "0") for each in parts):
        raise EvaluationError(f"semver parse error during conversion from string: {text}")
    return Semver(int(found[1]), int(found[2]), int(found[3]), parts)


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        _parse(text, normalize)
    except EvaluationError:
        return False
    return True


FUNCTIONS: Final[tuple[Function, ...]] = library(
    ("semver(string) -> kubernetes.Semver", _parse),
    ("semver(string, bool) -> kubernetes.Semver", _parse),
    ("isSemver(string) -> bool", _is_semver),
    ("isSemver(string, bool) -> bool", _is_semver),
    ("kubernetes.Semver.major() -> int", lambda it: it.major),
    ("kubernetes.Semver.minor() -> int", lambda it: it.minor),
    ("kubernetes.Semver.patch() -> int", lambda it: it.patch),
    ("kubernetes.Semver.isGreaterThan(kubernetes.Semver) -> bool", lambda it, other: it > other),
    ("kubernetes.Semver.isLessThan(kubernetes.Semver) -> bool", lambda it, other: it < other),
    ("kubernetes.Semver.compareTo(kubernetes.Semver) -> int", lambda it, other: (it > other) - (it < other)),
)
