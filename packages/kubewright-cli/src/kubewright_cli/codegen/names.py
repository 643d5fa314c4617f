"""Python names of fields and kinds."""

from __future__ import annotations

import keyword
import re
from collections.abc import Container, Iterable
from typing import Final

_TAKEN: Final = frozenset({"bool", "bytes", "dict", "field", "float", "int", "list", "str"})
_TAKEN_IN_KINDS: Final = _TAKEN | {"api_version", "kind", "metadata", "validate"}


def attribute(wire: str, taken: Container[str], *, of_kind: bool = False) -> str:
    """Return the name of a field in snake_case that is not `taken`. Names that annotations use get a `_`."""
    name = re.sub(r"\W", "_", wire.strip("$"), flags=re.ASCII)
    name = re.sub(r"([A-Z]{2,})s(?=$|[A-Z])", lambda found: found[1].capitalize() + "s", name)
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name).lower().strip("_")
    if not name or name[0].isdigit():
        name = f"field_{name}".rstrip("_")
    if keyword.iskeyword(name) or name in (_TAKEN_IN_KINDS if of_kind else _TAKEN):
        name += "_"
    return unique(name, taken)


def attributes(wires: Iterable[str], *, of_kind: bool = False) -> dict[str, str]:
    """Return the name of each field of a class, by its name on the wire. The order of `wires` does not matter.

    If two fields would have the same name, the field whose name on the wire follows from it gets it.
    """
    found: dict[str, str] = {}
    for wire in sorted(wires, key=lambda wire: (on_the_wire(attribute(wire, (), of_kind=of_kind)) != wire, wire)):
        found[wire] = attribute(wire, frozenset(found.values()), of_kind=of_kind)
    return found


def class_name(owner: str, wire: str) -> str:
    """Return the name of the class for a field of `owner`."""
    parts = re.findall(r"[A-Za-z0-9]+", wire)
    return owner + "".join(part[0].upper() + part[1:] for part in parts)


def unique(name: str, taken: Container[str]) -> str:
    """Return `name`, with a number if it is taken."""
    found, number = name, 2
    while found in taken:
        found, number = f"{name}{number}", number + 1
    return found


def on_the_wire(name: str) -> str:
    """Return the default name of a field on the wire."""
    first, *others = name.rstrip("_").split("_")
    return first + "".join(each.title() for each in others)


def module(group: str, version: str) -> str:
    """`cert-manager.io`, `v1` -> `cert_manager_io_v1`."""
    return re.sub(r"\W", "_", f"{group}_{version}", flags=re.ASCII)
