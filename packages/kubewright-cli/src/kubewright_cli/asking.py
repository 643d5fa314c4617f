"""Values of options: checked by name, and asked for when they are missing and somebody is there to answer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., object])
Check = Callable[[str], list[str]]
"""The faults of a value, to be read after it."""


class Name(click.ParamType[str]):
    """A name that is checked: what is wrong with it is told with the option, and the status is 2."""

    name = "name"

    def __init__(self, faults: Check) -> None:
        self._faults = faults

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        for fault in self._faults(value):
            self.fail(f'"{value}" {fault}', param, ctx)
        return str(value)


class _Switch(click.ParamType[bool]):
    name = "switch"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        if str(value).lower() not in ("true", "false"):
            self.fail(f'"{value}" is neither true nor false', param, ctx)
        return str(value).lower() == "true"


def required(option: str, given: str | None, question: str, faults: Check, *, default: str | None = None) -> str:
    """`given`, or the answer of who is at the terminal. Raises click.UsageError when nobody is."""
    if given is not None:
        return given
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError(f"{option} is missing. {question}?")
    return str(click.prompt(question, type=Name(faults), default=default))


SWITCH: Final[dict[str, Any]] = {"is_flag": False, "flag_value": "true", "type": _Switch(), "metavar": "[true|false]"}
"""Of an option that is on when it is named, and can be given a value as Go's flags are: `--controller=false`."""


def not_here(option: str, why: str) -> Callable[[F], F]:
    """An option of kubebuilder's command that says nothing of a project in Python: `why`, and what to do."""

    def refuse(context: click.Context, parameter: click.Parameter, value: object) -> None:
        if value is not None:
            raise click.UsageError(f"there is no {option}: {why}", context)

    return click.option(option, hidden=True, is_flag=False, flag_value="", expose_value=False, callback=refuse)
