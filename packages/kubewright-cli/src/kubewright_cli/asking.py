"""Values of options: checked, and prompted for if they are missing and there is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., object])
Check = Callable[[str], list[str]]
"""Returns the errors of a value. Messages show them after the value."""


class Name(click.ParamType[str]):
    """A checked name. An error is reported with the option, and the exit status is 2."""

    name = "name"

    def __init__(self, errors: Check) -> None:
        self._errors = errors

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        for error in self._errors(value):
            self.fail(f'"{value}" {error}', param, ctx)
        return str(value)


class _Switch(click.ParamType[bool]):
    name = "switch"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        if str(value).lower() not in ("true", "false"):
            self.fail(f'"{value}" is neither true nor false', param, ctx)
        return str(value).lower() == "true"


def required(option: str, given: str | None, question: str, errors: Check, *, default: str | None = None) -> str:
    """Return `given`, or the answer to a prompt. Raises click.UsageError if there is no terminal."""
    if given is not None:
        return given
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError(f"{option} is missing. {question}?")
    return str(click.prompt(question, type=Name(errors), default=default))


SWITCH: Final[dict[str, Any]] = {"is_flag": False, "flag_value": "true", "type": _Switch(), "metavar": "[true|false]"}
"""A flag that also accepts a value, like flags in Go: `--controller=false`."""


def not_here(option: str, why: str) -> Callable[[F], F]:
    """Return an option of kubebuilder that has no meaning here. Using it is an error: `why`, and what to do."""

    def refuse(context: click.Context, parameter: click.Parameter, value: object) -> None:
        if value is not None:
            raise click.UsageError(f"there is no {option}: {why}", context)

    return click.option(option, hidden=True, is_flag=False, flag_value="", expose_value=False, callback=refuse)
