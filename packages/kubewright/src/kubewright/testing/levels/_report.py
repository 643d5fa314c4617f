"""The result of a measurement: claims with their evidence, and the level that follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject

FORMAT: Final = "kubewright.dev/levels/v1"
"""The format of the JSON report."""

Outcome: TypeAlias = Literal["held", "failed", "missing", "not applicable"]
"""Whether a claim was shown. A claim is `missing` if nothing was declared or could be tried, and `not applicable` if
the operator has nothing that the claim is about, for example no volumes."""


class Level(IntEnum):
    """The capability levels of the Operator Framework."""

    NONE = 0
    BASIC_INSTALL = 1
    SEAMLESS_UPGRADES = 2
    FULL_LIFECYCLE = 3
    DEEP_INSIGHTS = 4
    AUTO_PILOT = 5

    @property
    def capability(self) -> str:
        """The value of a ClusterServiceVersion's annotation `capabilities`; empty for `NONE`."""
        return self.name.replace("_", " ").title() if self else ""

    @property
    def numeral(self) -> str:
        """The Roman numeral; a dash for `NONE`."""
        return ("–", "I", "II", "III", "IV", "V")[self]


class Evidence(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One thing that the experiment of a claim did or observed."""

    at: float
    """Seconds since the start of the measurement."""
    action: Literal["did", "saw"]
    text: str
    object: str = ""
    """The object, as `Deployment/web`; empty if the evidence is about no object."""


class Claim(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One thing that a level asks, and whether the operator does it."""

    id: str
    """The level and a name, as in `I.install`."""
    level: int
    """The lowest level that asks for it."""
    title: str
    outcome: Outcome
    summary: str
    """What was found, in a sentence."""
    remedy: str = ""
    """What to do; empty if the claim is held."""
    seconds: float = 0.0
    """How long the experiment took."""
    evidence: tuple[Evidence, ...] = ()

    @property
    def is_held(self) -> bool:
        """Whether the claim does not stand in the way of its level."""
        return self.outcome in ("held", "not applicable")


class Report(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The capability level of an operator, and why."""

    format: Literal["kubewright.dev/levels/v1"] = FORMAT
    operator: str
    """The name of the operator."""
    version: str = ""
    """The version of the operator."""
    measured_at: str
    """The time of the measurement, in RFC 3339."""
    server: str = ""
    """The version of the API server."""
    program: str = ""
    """A digest of what was measured: the program, its samples and its declaration. Empty if it is not known."""
    partial: bool = False
    """Whether only some claims were measured; the level is then `NONE`."""
    level: int
    """The measured level; 0 if even level I is not reached."""
    capability: str
    """The name of the level, as in `capabilities` of a ClusterServiceVersion; empty for 0."""
    claims: tuple[Claim, ...]

    @property
    def missing(self) -> tuple[Claim, ...]:
        """The claims that stand in the way of the next level."""
        return tuple(each for each in self.claims if each.level == self.level + 1 and not each.is_held)

    def claim(self, name: str) -> Claim:
        """Return the claim with this id. Raises KeyError if it was not measured."""
        for each in self.claims:
            if each.id == name:
                return each
        raise KeyError(name)

    def require(self, level: int | Level) -> None:
        """Raise AssertionError, which says what is missing, unless the operator has this level."""
        if self.level < level:
            broken = [each for each in self.claims if each.level <= level and not each.is_held]
            lines = [f"{each.id}: {each.summary} {each.remedy}".rstrip() for each in broken]
            head = f"{self.operator} has level {Level(self.level).numeral}, not {Level(level).numeral}:"
            raise AssertionError("\n- ".join([head, *lines]))

    def json(self) -> bytes:
        """Return the report as JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"

    def html(self) -> str:
        """Return the report as a page that needs no other files."""
        from kubewright.testing.levels._page import page

        return page(self)

    @classmethod
    def read(cls, path: Path) -> Report:
        """Read a JSON report. Raises ConfigError if the file is not one."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from error
        except msgspec.MsgspecError as error:
            raise ConfigError(f"{path}: not a report of capability levels: {error}; measure again") from error

    @staticmethod
    def schema() -> JSONObject:
        """Return the JSON Schema of reports."""
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(Report)}


def level_of(claims: Sequence[Claim]) -> Level:
    """Return the highest level whose claims, and those of all levels below, are held."""
    reached = Level.NONE
    for level in tuple(Level)[1:]:
        if not all(each.is_held for each in claims if each.level == level):
            break
        reached = level
    return reached
