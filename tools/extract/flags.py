"""The flags of kube-apiserver and etcd, and the feature gates and admission plugins of kube-apiserver, for the
programs that envtest starts.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

_PFLAG: Final = re.compile(r"^ +(?:-\w, )?--(?P<name>[\w-]+)(?: (?P<kind>\S+))?   ", re.MULTILINE)
_ETCD: Final = re.compile(r"^ +--(?P<name>[\w-]+)(?: (?P<value>.+))?$", re.MULTILINE)
_DEFAULT: Final = re.compile(r"\(default (?P<value>\"[^\"]*\"|\[[^\]]*\]|[^)]*)\)")
_PLUGINS: Final = re.compile(
    r"default enabled plugins list \((?P<on>[\w, ]+)\)\. Comma-delimited list of admission plugins: (?P<all>[\w, ]+)\."
)
_GATE: Final = re.compile(r'^kubernetes_feature_enabled\{name="(\w+)",stage="(\w*)"\} (\d)$', re.MULTILINE)


def of_api_server(binaries: Path) -> str:
    """Return a line for each flag: its name, its kind of value, and its default."""
    text = _help(binaries / "kube-apiserver")
    found = list(_PFLAG.finditer(text))
    lines: list[str] = []
    for flag, following in zip(found, [*found[1:], None], strict=True):
        default = _DEFAULT.search(text, flag.end(), following.start() if following else len(text))
        value = default["value"].strip('"').removeprefix("[").removesuffix("]") if default else ""
        lines.append(f"{flag['name']} {flag['kind'] or 'bool'} {value}".rstrip())
    return _file(lines)


def of_etcd(binaries: Path) -> str:
    """Return a line for each flag: its name, and `bool` if it needs no value."""
    found = {flag["name"]: flag["value"] or "" for flag in _ETCD.finditer(_help(binaries / "etcd"))}
    bools = ("", "'true'", "'false'", "true", "false")
    return _file([f"{name} {'bool' if value in bools else 'string'}" for name, value in found.items()])


def of_admission_plugins(binaries: Path) -> str:
    """Return a line for each admission plugin: its name, and whether it is on by default."""
    found = _PLUGINS.search(_help(binaries / "kube-apiserver"))
    if found is None:
        raise RuntimeError("kube-apiserver --help does not list the admission plugins")
    on = found["on"].split(", ")
    return _file([f"{name} {int(name in on)}" for name in found["all"].split(", ")])


def of_feature_gates(metrics: str) -> str:
    """Return a line for each feature gate: its name, its stage, and whether it is on by default."""
    return _file([f"{name} {stage or 'GA'} {value}" for name, stage, value in _GATE.findall(metrics)])


def _help(program: Path) -> str:
    return subprocess.run((program, "--help"), capture_output=True, text=True, check=True).stdout


def _file(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in sorted(set(lines)))
