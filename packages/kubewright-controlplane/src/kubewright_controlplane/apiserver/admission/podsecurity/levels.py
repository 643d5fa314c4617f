"""Levels, their versions, and what a namespace enforces, audits and warns of.

Follows k8s.io/pod-security-admission/api.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from kubewright.machinery.fields import FieldError, invalid

PRIVILEGED: Final = "privileged"
BASELINE: Final = "baseline"
RESTRICTED: Final = "restricted"
LATEST: Final = "latest"
PREFIX: Final = "pod-security.kubernetes.io/"

_LEVELS: Final = (PRIVILEGED, BASELINE, RESTRICTED)
_VERSION: Final = re.compile(r"v1\.(0|[1-9][0-9]{0,17})")
_NEWEST: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class LevelVersion:
    """A level as of a version of Kubernetes: `restricted:v1.30`."""

    level: str
    version: str

    @property
    def minor(self) -> int:
        """The minor version; a very large number for the latest."""
        return _NEWEST if self.version == LATEST else int(self.version.removeprefix("v1."))

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"


@dataclass(frozen=True, slots=True)
class Policy:
    """What a namespace enforces, audits and warns of."""

    enforce: LevelVersion
    audit: LevelVersion
    warn: LevelVersion

    @property
    def is_privileged(self) -> bool:
        """Whether every Pod is accepted without a warning or an audit annotation."""
        return self.enforce.level == self.audit.level == self.warn.level == PRIVILEGED

    def is_equivalent(self, other: Policy) -> bool:
        """Return whether both treat every Pod alike."""
        pairs = ((self.enforce, other.enforce), (self.audit, other.audit), (self.warn, other.warn))
        return all(mine == its or mine.level == its.level == PRIVILEGED for mine, its in pairs)


def is_stricter(level: str, other: str) -> bool:
    return _LEVELS.index(level) > _LEVELS.index(other)


def error_of_level(level: str) -> str:
    """Return what is wrong with a level; empty if nothing is."""
    return "" if level in _LEVELS else f"must be one of {', '.join(_LEVELS)}"


def error_of_version(version: str) -> str:
    """Return what is wrong with a version; empty if nothing is."""
    return "" if version == LATEST or _VERSION.fullmatch(version) else 'must be "latest" or "v1.x"'


def policy_of(labels: Mapping[str, str], defaults: Policy) -> tuple[Policy, list[FieldError]]:
    """Return the policy of a namespace with these labels, and the errors in them.

    An invalid level to enforce counts as `restricted`, an invalid level to audit or to warn of as `privileged`, and an
    invalid version as the latest.
    """
    read = _Labels(labels)
    enforce = read.mode("enforce", defaults.enforce, RESTRICTED)
    audit = read.mode("audit", defaults.audit, PRIVILEGED)
    warn = read.mode("warn", defaults.warn, PRIVILEGED)
    enforced = labels.get(f"{PREFIX}enforce")
    is_chosen = f"{PREFIX}warn" in labels or enforced is None or bool(error_of_level(enforced))
    if not is_chosen and is_stricter(enforce.level, warn.level):
        version = warn.version if f"{PREFIX}warn-version" in labels else enforce.version
        warn = LevelVersion(enforce.level, version)
    return Policy(enforce, audit, warn), read.errors


class _Labels:
    """Reads the labels of a namespace, and collects the errors in them."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.errors: list[FieldError] = []
        self._labels = labels

    def mode(self, name: str, default: LevelVersion, invalid_level: str) -> LevelVersion:
        level = self._checked(name, error_of_level, invalid_level)
        version = self._checked(f"{name}-version", error_of_version, LATEST)
        changed: dict[str, Any] = {} if level is None else {"level": level}
        return replace(default, **changed, **({} if version is None else {"version": version}))

    def _checked(self, name: str, error_of: Callable[[str], str], substitute: str) -> str | None:
        value = self._labels.get(f"{PREFIX}{name}")
        if value is None:
            return None
        why = error_of(value)
        if why:
            self.errors.append(invalid(f"metadata.labels[{PREFIX}{name}]", value, why))
        return substitute if why else value
