"""Optional checks of the texts that people read: names, descriptions and hints of parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from kubewright.packages._files import PARAMS, Package
from kubewright.packages._finding import Finding

_Check: TypeAlias = Callable[[Package], Iterator[Finding]]


def _each(package: Package, field: str, wrong: Callable[[str], str]) -> Iterator[Finding]:
    """Check a text of each parameter."""
    for index, each in enumerate(package.params.parameters):
        value = {"displayName": each.display_name, "description": each.description, "hint": each.hint,
                 "type": each.type, "group": each.group}[field]  # fmt: skip
        if problem := wrong(value):
            message = f'parameter "{each.name}": {field} {problem}'
            yield package.finding("text", message, PARAMS, "parameters", index, field, level="warning")


def _groups(package: Package) -> Iterator[Finding]:
    for index, each in enumerate(package.params.groups):
        texts = (("displayName", _display_name(each.display_name)), ("description", _description(each.description)))
        for field, problem in texts:
            if problem:
                message = f'group "{each.name}": {field} {problem}'
                yield package.finding("text", message, PARAMS, "groups", index, field, level="warning")


def _display_name(text: str) -> str:
    if not text:
        return "is missing"
    if text.endswith(":"):
        return 'must not end with ":"'
    return "" if _is_capital(text[0]) else "must start with a capital letter"


def _description(text: str) -> str:
    if not text:
        return "is missing"
    if text[-1] not in ".!?)":
        return 'must end with one of ".!?)"'
    return "" if _is_capital(text[0]) else "must start with a capital letter"


def _hint(text: str) -> str:
    if not text:
        return "is missing"
    return "" if text.endswith(".") else 'must end with "."'


def _present(text: str) -> str:
    return "" if text else "is missing"


def _is_capital(character: str) -> bool:
    return character.isupper() or not character.isalpha()


_ONE: Final[Mapping[str, _Check]] = {
    "desc": lambda package: _each(package, "description", _description),
    "hint": lambda package: _each(package, "hint", _hint),
    "display": lambda package: _each(package, "displayName", _display_name),
    "hasgroup": lambda package: _each(package, "group", _present),
    "type": lambda package: _each(package, "type", _present),
    "groups": _groups,
}


def _all(package: Package) -> Iterator[Finding]:
    for check in _ONE.values():
        yield from check(package)


CHECKS: Final[Mapping[str, _Check]] = {**_ONE, "all": _all}
"""The optional checks, by their names in KUDO."""
