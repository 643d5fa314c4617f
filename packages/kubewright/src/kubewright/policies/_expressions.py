"""The expressions of policies: what must be true, and what is changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from kubewright.machinery.errors import ConfigError
from kubewright.webhooks._checks import check_choice

Reason: TypeAlias = Literal["Invalid", "Forbidden", "RequestEntityTooLarge"]
"""The reason of a denial, which determines the HTTP status: 422, 403 or 413."""


@dataclass(frozen=True, slots=True)
class Validation:
    """An expression that must be true for a request to be allowed.

        Validation("object.spec.replicas <= 5", message="at most 5 replicas")

    Raises ConfigError for values that an API server would reject.
    """

    expression: str
    message: str = ""
    """What users see. Default: the expression."""
    message_expression: str = ""
    """An expression that returns the message. If it fails, or returns several lines, `message` is used."""
    reason: Reason = "Invalid"

    def __post_init__(self) -> None:
        _check_expression("Validation", self.expression)
        where = f"Validation({self.expression!r})"
        if self.message and not self.message.strip():
            raise ConfigError(f"{where}: message is blank; write one, or leave it out")
        if "\n" in self.message.strip() or "\r" in self.message.strip():
            raise ConfigError(f"{where}: message={self.message!r}: write one line")
        if self.message_expression and not self.message_expression.strip():
            raise ConfigError(f"{where}: message_expression is blank; write one, or leave it out")
        check_choice(where, "reason", self.reason, get_args(Reason))


@dataclass(frozen=True, slots=True)
class ApplyConfiguration:
    """A change by an expression that returns the fields to set, which are merged as by server-side apply.

        ApplyConfiguration("Object{spec: Object.spec{replicas: 3}}")

    The type of each part is named after its path. Lists that are atomic cannot be changed; use a `JSONPatch`.
    """

    expression: str

    def __post_init__(self) -> None:
        _check_expression("ApplyConfiguration", self.expression)


@dataclass(frozen=True, slots=True)
class JSONPatch:
    """A change by an expression that returns the operations of a JSON patch (RFC 6902).

        JSONPatch("[JSONPatch{op: 'add', path: '/metadata/labels/team', value: 'web'}]")

    `jsonpatch.escapeKey` escapes a key for a path. If an operation `test` fails, the object stays as it is.
    """

    expression: str

    def __post_init__(self) -> None:
        _check_expression("JSONPatch", self.expression)


Mutation: TypeAlias = ApplyConfiguration | JSONPatch
"""A change of an object."""


def _check_expression(what: str, expression: str) -> None:
    if not expression.strip():
        raise ConfigError(f"{what}: the expression is empty; write one in CEL")
