"""A separate typed package for the users of some kinds, made from CRDs: clientset, informers and listers.

The package needs `kubewright`, but not the operator of the kinds. `templates` has its files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import jinja2

from kubewright.machinery.json import JSONObject
from kubewright_cli.codegen import names
from kubewright_cli.codegen.module import Kind, Module, modules_of

_OUTSIDE: Final = ("pyproject.toml", "README.md")
_INSIDE: Final = ("__init__.py", "clientset.py", "informers.py", "py.typed", "resource.py")


@dataclass(frozen=True, slots=True)
class Package:
    """The name and the requirement of the package."""

    project: str
    """The name on an index: `fleet-client`."""
    version: str
    requires: str
    """The requirement: `kubewright>=1.0`."""

    @property
    def name(self) -> str:
        """The name for `import`."""
        return self.project.replace("-", "_")


@dataclass(frozen=True, slots=True)
class Group:
    """The kinds of a group and version in the package."""

    name: str
    """The name of their module: `fleet_v1`."""
    served: str
    """`fleet.example.com/v1`"""
    kinds: tuple[Kind, ...]

    @property
    def class_name(self) -> str:
        return "".join(part.capitalize() for part in self.name.split("_"))


def package(crds: Iterable[JSONObject], about: Package) -> dict[str, str]:
    """Return the files of the package: text by path. Raises ModelError for a document that is not a valid CRD."""
    modules = _named(modules_of(crds))
    groups = [Group(name, f"{each.group}/{each.version}", tuple(each.kinds)) for name, each in modules.items()]
    values = {"about": about, "groups": groups, "exported": sorted(["Clientset", "Informers", *modules])}
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader(__name__),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made = {name: templates.get_template(f"{name}.j2").render(values) for name in (*_OUTSIDE, *_INSIDE)}
    source = {name: made[name] for name in _INSIDE} | {f"{name}.py": each.source() for name, each in modules.items()}
    return {
        **{name: made[name] for name in _OUTSIDE},
        **{f"src/{about.name}/{path}": text for path, text in sorted(source.items())},
    }


def _named(modules: Mapping[str, Module]) -> dict[str, Module]:
    """Return the modules by their names in the package: `fleet_v1`, or with the whole group if two begin alike."""
    short = {name: names.module(module.group.partition(".")[0], module.version) for name, module in modules.items()}
    taken = list(short.values())
    return {each if taken.count(each) == 1 else name: modules[name] for name, each in short.items()}
