"""The reference: the public names of the packages, and their docstrings.

A package's public names are its `__all__`, or what it imports from its own modules. A module's public names are what it
defines without a leading underscore. Each needs a docstring, and so does each method and property of a class, unless
its base class has one. A field needs none.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

import griffe
from tools.site import docstrings, names, signatures, structs

DISTRIBUTIONS: Final = ("kubewright", "kubewright_controlplane", "kubewright_cli")

PACKAGES: Final = (
    "kubewright",
    "kubewright.models",
    "kubewright.models.codec",
    "kubewright.markers",
    "kubewright.apis",
    "kubewright.apis.meta.v1",
    "kubewright.client",
    "kubewright.cache",
    "kubewright.controllers",
    "kubewright.controllers.predicates",
    "kubewright.controllers.sources",
    "kubewright.packages",
    "kubewright.plans",
    "kubewright.plans.engine",
    "kubewright.health",
    "kubewright.certificates",
    "kubewright.webhooks",
    "kubewright.policies",
    "kubewright.templates",
    "kubewright.manager",
    "kubewright.testing",
    "kubewright.machinery",
    "kubewright.machinery.errors",
    "kubewright.machinery.fields",
    "kubewright.machinery.gvk",
    "kubewright.machinery.names",
    "kubewright.machinery.quantity",
    "kubewright.machinery.selectors",
    "kubewright.machinery.time",
    "kubewright.machinery.json",
    "kubewright.machinery.yaml",
    "kubewright_controlplane",
    "kubewright_controlplane.policies",
    "kubewright_cli.manifests",
)
"""The modules that have a page, in the order of the pages."""

_NAME: Final = re.compile(r"[A-Za-z_][\w.]*")


class Reference:
    """The packages, read without importing them."""

    def __init__(self, distributions: griffe.ModulesCollection) -> None:
        for each in DISTRIBUTIONS:
            structs.add_inits(names.module(distributions, each))
        self.modules = {each: names.module(distributions, each) for each in PACKAGES}
        self.pages = {name: names.public(module) for name, module in self.modules.items()}
        """The public names of each page."""
        self._paths = {
            thing.canonical_path: thing.path if self.modules[name].members[exported].is_module else f"{name}.{exported}"
            for name, things in self.pages.items()
            if name != "kubewright"
            for exported, thing in things.items()
        }
        """The path of each public object in the reference, by the path of its definition.

        It is the path from which users import it. An object that hides a module of the same name has its own path,
        because the other path is the module's.
        """
        self._leading = _leading(self._paths)
        self.types = {name: self._types(distributions, name) for name in self.modules}
        """Further types that signatures name, by the page of the package that defines them."""
        self._paths |= {each.path: each.path for types in self.types.values() for each in types}

    def problems(self) -> list[str]:
        """Return public names without a docstring, and docstrings that refer to missing names."""
        found: list[str] = []
        for thing in self.described():
            where = f"{thing.relative_package_filepath}:{thing.lineno or 1}: {thing.path}"
            if not names.is_described(thing):
                found.append(f"{where} has no docstring")
            found += [f"{where} refers to `{name}`, which does not exist" for name in self._dangling(thing)]
        return list(dict.fromkeys(found))

    def described(self) -> Iterator[griffe.Object]:
        """Yield everything in the reference: the modules, their public names, and the members of classes."""
        for name, module in self.modules.items():
            yield module
            for thing in [*self.pages[name].values(), *self.types.get(name, ())]:
                yield from (each for each in self.documented_with(thing) if each is not thing)
                yield thing
                yield from names.members(thing)

    def named(self, text: str) -> str:
        """Return the path of a name on a page of the guide: a dotted path, a name of `kubewright`, or `ctx.apply`."""
        text = text.removesuffix("()")
        if self._is_path(text):
            return text
        head, _, member = text.partition(".")
        thing = self.pages["kubewright"].get("Context" if head == "ctx" else head)
        if thing is None or (head != "ctx" and not head[0].isupper() and head != "controller"):
            return ""
        found = names.member_of(thing, member) if member else thing if head != "ctx" else None
        return self.path(found) if found is not None else ""

    def _is_path(self, text: str) -> bool:
        return text in self.modules or text in self._paths.values()

    def documented_with(self, thing: griffe.Object) -> list[griffe.Object]:
        """Return the objects whose docstrings are shown with `thing`.

        If a module has no page, its docstring is shown with the first of its public names.
        """
        home = thing.parent
        if not isinstance(home, griffe.Module) or home.path in self.modules or thing.path not in self._leading:
            return [thing]
        return [home, thing]

    def link(self, text: str, thing: griffe.Object) -> str:
        """Return the reference path of text in backticks in a docstring of `thing`, or ""."""
        if self._is_path(text):
            return text
        found = names.resolve(text, thing) if _NAME.fullmatch(text.removesuffix("()")) else None
        return self.path(found) if found is not None else self.raised(text)

    def path(self, thing: griffe.Object) -> str:
        """Return the path of `thing` in the reference, or ""."""
        if thing.canonical_path in self.modules:
            return thing.canonical_path
        if thing.canonical_path in self._paths:
            return self._paths[thing.canonical_path]
        parent = thing.parent
        if isinstance(parent, griffe.Class) and parent.canonical_path in self._paths and names.is_shown(thing):
            return f"{self._paths[parent.canonical_path]}.{thing.name}"
        return ""

    def _types(self, distributions: griffe.ModulesCollection, page: str) -> list[griffe.Object]:
        """Return the types in signatures of public names that the package of `page` defines."""
        named = {name for thing in self._exported() for name in signatures.named_types(thing)}
        found: list[griffe.Object] = []
        for name in sorted(named - self._paths.keys() - set(self._paths.values())):
            home = max((each for each in self.modules if name.startswith(f"{each}.")), key=len, default="")
            if home == page not in ("kubewright", "kubewright.apis") and not name.rpartition(".")[2].startswith("_"):
                thing = names.defined(distributions, name)
                if thing is not None and not names.is_type_variable(thing):
                    found.append(thing)
        return found

    def _exported(self) -> Iterator[griffe.Object]:
        for things in self.pages.values():
            for thing in things.values():
                yield thing
                yield from names.members(thing)

    def raised(self, name: str) -> str:
        """Return the reference path of an error, or "" for an error of Python."""
        error = self.pages["kubewright.machinery.errors"].get(name)
        return self.path(error) if error is not None else ""

    def _dangling(self, thing: griffe.Object) -> Iterator[str]:
        """Yield dotted names whose first part exists but whose rest does not, and errors that do not exist."""
        text = thing.docstring.value if thing.docstring else ""
        for name in docstrings.raised(text):
            if not (self.raised(name) or hasattr(builtins, name) or names.resolve(name, thing)):
                yield name
        for name in docstrings.names(text):
            head, dot, _ = name.removesuffix("()").partition(".")
            if not dot or not _NAME.fullmatch(name.removesuffix("()")) or names.resolve(name, thing) is not None:
                continue
            known = names.resolve(head, thing)
            if isinstance(known, griffe.Class) or (known is not None and known.canonical_path in self.modules):
                yield name


@cache
def load(root: Path) -> Reference:
    """Return the reference of the distributions in `root`."""
    loader = griffe.GriffeLoader(search_paths=sorted(root.glob("packages/*/src")))
    for name in DISTRIBUTIONS:
        loader.load(name, submodules=True)
    loader.resolve_aliases()
    return Reference(loader.modules_collection)


def _leading(paths: Iterable[str]) -> set[str]:
    """Return the first public name that each module defines."""
    first: dict[str, str] = {}
    for path in paths:
        first.setdefault(path.rpartition(".")[0], path)
    return set(first.values())
