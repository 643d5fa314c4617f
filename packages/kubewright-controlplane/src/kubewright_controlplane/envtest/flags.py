"""Command lines of kube-apiserver and etcd: the flags that the programs have, their values, and the errors.

The names, kinds and defaults of flags are facts about the real programs, in the files `*.flags`. `tools/extract` reads
them. Follows github.com/spf13/pflag for kube-apiserver, and Go's package flag for etcd, which also accepts one dash.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")
FALSE: Final = ("0", "f", "F", "FALSE", "false", "False")
_LISTS: Final = ("strings", "mapStringString", "colonSeparatedMultimapStringString", "stringToString")


class FlagError(Exception):
    """A command line that the real program rejects, in its words."""


class HelpRequested(Exception):
    """A command line with `--help`."""


class Flags:
    """The flags of a command line."""

    def __init__(self, known: Mapping[str, tuple[str, str]], given: Mapping[str, list[str]]) -> None:
        self._known = known
        self._given = given

    @property
    def given(self) -> Mapping[str, list[str]]:
        """The values of the flags on the command line, in order."""
        return self._given

    def default(self, name: str) -> str:
        return self._known[name][1]

    def text(self, name: str) -> str:
        """Return the last value of a flag, or its default."""
        return self._given[name][-1] if name in self._given else self._known[name][1]

    def texts(self, name: str) -> list[str]:
        """Return all values of a flag that can be repeated. Commas separate values too."""
        values = self._given.get(name, [self._known[name][1]])
        split = self._known[name][0] in _LISTS
        return [part for value in values for part in (value.split(",") if split else [value]) if part]

    def is_true(self, name: str) -> bool:
        return self.text(name) in TRUE


def known_flags(program: str) -> dict[str, tuple[str, str]]:
    """Return kind and default of each flag of `kube-apiserver` or `etcd`."""
    lines = Path(__file__).with_name(f"{program}.flags").read_text().splitlines()
    split = ((*line.split(" ", 2), "") for line in lines)
    return {name: (kind, default) for name, kind, default, *_ in split}


def help_text(program: str, known: Mapping[str, tuple[str, str]]) -> str:
    """Return the list of flags that `--help` prints."""
    lines = [f"      --{name}{'' if kind == 'bool' else f' {kind}'}" for name, (kind, _) in known.items()]
    return "\n".join([f"{program} of kubewright-controlplane accepts these flags:", "", *lines, ""])


def parse_pflags(known: Mapping[str, tuple[str, str]], arguments: Sequence[str]) -> Flags:
    """Read the arguments of kube-apiserver. Raises FlagError and HelpRequested."""
    given: dict[str, list[str]] = {}
    extra: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            extra += rest
            break
        if not argument.startswith("-") or argument == "-":
            extra.append(argument)
            continue
        name, value = _split(argument)
        if name == "help":
            raise HelpRequested
        if name not in known:
            raise FlagError(f"unknown flag: --{name}")
        kind = known[name][0]
        if value is None and kind == "bool":
            value = "true"
        elif value is None and not rest:
            raise FlagError(f"flag needs an argument: {argument}")
        value = rest.pop(0) if value is None else value
        _check(name, kind, value)
        given.setdefault(name, []).append(value)
    if extra:
        raise FlagError(f'"kube-apiserver" does not take any arguments, got [{" ".join(map(_quoted, extra))}]')
    return Flags(known, given)


def _split(argument: str) -> tuple[str, str | None]:
    """Return the name and value of a flag: `--name=value`, `--name`, `-v=2` or `-v2`."""
    if argument.startswith("--"):
        name, equals, value = argument[2:].partition("=")
        return name.replace("_", "-"), value if equals else None
    letter, value = argument[1], argument[2:].removeprefix("=")
    if letter not in "hv":
        raise FlagError(f"unknown shorthand flag: '{letter}' in {argument}")
    return ("help", None) if letter == "h" else ("v", value or None)


def parse_go_flags(known: Mapping[str, tuple[str, str]], arguments: Sequence[str]) -> Flags:
    """Read the arguments of etcd. Raises FlagError and HelpRequested."""
    given: dict[str, list[str]] = {}
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        name, equals, value = argument.removeprefix("-").removeprefix("-").partition("=")
        if not argument.startswith("-") or not name:
            raise FlagError(f"'{argument}' is not a valid flag")
        if name in ("h", "help"):
            raise HelpRequested
        if name not in known:
            raise FlagError(f"flag provided but not defined: -{name}")
        if not equals and known[name][0] == "bool":
            value = "true"
        elif not equals and not rest:
            raise FlagError(f"flag needs an argument: -{name}")
        elif not equals:
            value = rest.pop(0)
        given.setdefault(name, []).append(value)
    return Flags(known, given)


# Values


def _check(name: str, kind: str, value: str) -> None:
    """Raise FlagError unless `value` is one of its kind."""
    check = _CHECKS.get(kind)
    why = check(value) if check else ""
    if why:
        shown = "-v, --v" if name == "v" else f"--{name}"
        raise FlagError(f"invalid argument {_quoted(value)} for {_quoted(shown)} flag: {why}")


def _bool(value: str) -> str:
    known = value in TRUE or value in FALSE
    return "" if known else f"strconv.ParseBool: parsing {_quoted(value)}: invalid syntax"


def _number(function: str, value: str) -> str:
    digits = value.removeprefix("-") if function != "ParseUint" else value
    is_number = digits.isascii() and digits.isdigit()
    return "" if is_number else f"strconv.{function}: parsing {_quoted(value)}: invalid syntax"


def _float(value: str) -> str:
    try:
        float(value)
    except ValueError:
        return f"strconv.ParseFloat: parsing {_quoted(value)}: invalid syntax"
    return ""


def _duration(value: str) -> str:
    # durations are read only if there are any: this import is slow
    from kubewright.machinery.time import parse_duration

    try:
        parse_duration(value)
    except ValueError as error:
        return str(error)
    return ""


def _ip(value: str) -> str:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return f"failed to parse IP: {_quoted(value)}"
    return ""


def _ports(value: str) -> str:
    try:
        ports = port_range(value)
    except ValueError as error:
        return str(error)
    if ports.start < 0 or ports.stop > 65536:
        return f"the port range cannot be greater than 65535: {value}"
    return "" if ports else f"end port cannot be less than start port: {value}"


def port_range(value: str) -> range:
    """Read `30000-32767`, or `30000+2767`, or one port. Raises ValueError in Kubernetes' words."""
    start, dash, end = value.partition("-")
    start, plus, size = start.partition("+") if not dash else (start, "", "")
    for each in (start, *([end] if dash else []), *([size] if plus else [])):
        if why := _number("Atoi", each):
            raise ValueError(why)
    last = int(end) if dash else int(start) + int(size or 0)
    return range(int(start), last + 1)


_CHECKS: Final[Mapping[str, Callable[[str], str]]] = {
    "bool": _bool,
    "int": lambda value: _number("ParseInt", value),
    "Level": lambda value: _number("ParseUint", value),
    "float": _float,
    "float32": _float,
    "duration": _duration,
    "ip": _ip,
    "portRange": _ports,
}


def _quoted(text: str) -> str:
    return f'"{text}"'
