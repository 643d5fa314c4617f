"""The reference: what users import, and what is said of it.

A package's public names are its `__all__`, or what it imports from its own modules; a module's are what it defines
without a leading underscore. Each needs a docstring, and so does each method and property of a class, unless its base
class has one. A field needs none: its class says what it is for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import griffe
from tools.site import docstrings, signatures

PACKAGES: Final = (
    "kubewright",
    "kubewright.models",
    "kubewright.models.markers",
    "kubewright.models.meta",
    "kubewright.models.codec",
    "kubewright.models.crd",
    "kubewright.models.rbac",
    "kubewright.apis",
    "kubewright.client",
    "kubewright.cache",
    "kubewright.controller",
    "kubewright.controller.predicates",
    "kubewright.manager",
    "kubewright.testing",
    "kubewright.manifests",
    "kubewright.machinery",
    "kubewright.machinery.errors",
    "kubewright.machinery.gvk",
    "kubewright.machinery.names",
    "kubewright.machinery.quantity",
    "kubewright.machinery.selectors",
    "kubewright.machinery.time",
    "kubewright.machinery.clock",
    "kubewright.machinery.json",
    "kubewright.machinery.yaml",
)
"""Those that have a page, in the order of the pages."""

_NAME: Final = re.compile(r"[A-Za-z_][\w.]*")


class Reference:
    """The packages, read and not imported."""

    def __init__(self, package: griffe.Module) -> None:
        self.modules = {each: _module(package, each) for each in PACKAGES}
        self.pages = {name: _public(module) for name, module in self.modules.items()}
        """The public names of each page."""
        self._paths = {
            thing.canonical_path: f"{name}.{exported}"
            for name, things in self.pages.items()
            if name != package.path
            for exported, thing in things.items()
        }
        """Where each public thing is in the reference, by the path of its definition."""
        self.types = {name: self._types(package, name) for name in self.modules}
        """What signatures name beyond these, on the page of the package that defines it."""
        self._paths |= {each.path: each.path for types in self.types.values() for each in types}

    def problems(self) -> list[str]:
        """Public names that nothing is said of, and docstrings that refer to what is not there."""
        found: list[str] = []
        for thing in self.described():
            where = f"{thing.relative_package_filepath}:{thing.lineno or 1}: {thing.path}"
            if not _is_described(thing):
                found.append(f"{where} has no docstring")
            found += [f"{where} refers to `{name}`, which is not there" for name in self._dangling(thing)]
        return list(dict.fromkeys(found))

    def described(self) -> Iterator[griffe.Object]:
        """Everything in the reference: the modules, their public names, and the members of classes."""
        for name, module in self.modules.items():
            yield module
            for thing in [*self.pages[name].values(), *self.types.get(name, ())]:
                yield from (each for each in self.told_with(thing) if each is not thing)
                yield thing
                yield from _members(thing)

    def named(self, text: str) -> str:
        """The path of what a page of the guide calls so: a dotted path, a name that `kubewright` has, `ctx.apply`."""
        text = text.removesuffix("()")
        if text in self.modules or text in self._paths.values():
            return text
        head, _, member = text.partition(".")
        thing = self.pages["kubewright"].get("Context" if head == "ctx" else head)
        if thing is None or (head != "ctx" and not head[0].isupper() and head != "controller"):
            return ""
        found = _member(thing, member) if member else thing if head != "ctx" else None
        return self.path(found) if found is not None else ""

    def told_with(self, thing: griffe.Object) -> list[griffe.Object]:
        """Whose docstrings are shown with `thing`: its own, after its module's where that has no page and it leads."""
        home = thing.parent
        if not isinstance(home, griffe.Module) or home.path in self.modules or thing.path != self._leading(home):
            return [thing]
        return [home, thing]

    def _leading(self, module: griffe.Module) -> str:
        """The first of the public names that a module defines."""
        return next((path for each in module.members if (path := f"{module.path}.{each}") in self._paths), "")

    def link(self, text: str, thing: griffe.Object) -> str:
        """The path in the reference of what a docstring of `thing` has in backticks; "" when it is not in it."""
        found = _resolve(text, thing) if _NAME.fullmatch(text.removesuffix("()")) else None
        return self.path(found) if found is not None else ""

    def path(self, thing: griffe.Object) -> str:
        """The path of `thing` in the reference; "" when it is not in it."""
        if thing.canonical_path in self.modules:
            return thing.canonical_path
        if thing.canonical_path in self._paths:
            return self._paths[thing.canonical_path]
        parent = thing.parent
        if isinstance(parent, griffe.Class) and parent.canonical_path in self._paths and is_shown(thing):
            return f"{self._paths[parent.canonical_path]}.{thing.name}"
        return ""

    def _types(self, package: griffe.Module, page: str) -> list[griffe.Object]:
        """The types that signatures of the public names have, and that are defined in the package of `page`."""
        names = {name for thing in self._exported() for name in signatures.named_types(thing)}
        found: list[griffe.Object] = []
        for name in sorted(names - self._paths.keys() - set(self._paths.values())):
            home = max((each for each in self.modules if name.startswith(f"{each}.")), key=len, default="")
            if home == page not in (package.path, "kubewright.apis") and "._" not in name:
                thing = _resolve(name.removeprefix(f"{package.path}."), package)
                if thing is not None and not _is_type_variable(thing):
                    found.append(thing)
        return found

    def _exported(self) -> Iterator[griffe.Object]:
        for things in self.pages.values():
            for thing in things.values():
                yield thing
                yield from _members(thing)

    def _dangling(self, thing: griffe.Object) -> Iterator[str]:
        """Names that begin with one of ours and go on with what that does not have."""
        for text in docstrings.names(thing.docstring.value if thing.docstring else ""):
            head, dot, _ = text.removesuffix("()").partition(".")
            if not dot or not _NAME.fullmatch(text.removesuffix("()")) or _resolve(text, thing) is not None:
                continue
            known = _resolve(head, thing)
            if isinstance(known, griffe.Class) or (known is not None and known.canonical_path in self.modules):
                yield text


@cache
def load(source: Path) -> Reference:
    """The reference of the packages in `source`."""
    package = griffe.load("kubewright", search_paths=[source], submodules=True)
    assert isinstance(package, griffe.Module)
    return Reference(package)


def is_shown(member: griffe.Object) -> bool:
    """Whether a member of a class is in the reference.

    What `__init__` assigns and nobody describes is not: it is a parameter, as a rule, which the signature has already.
    """
    init = member.parent.members.get("__init__") if member.parent is not None else None
    if member.name.startswith("_"):
        return False
    if member.has_docstring or not member.is_attribute or not isinstance(init, griffe.Function):
        return True
    return not (init.lineno or 0) <= (member.lineno or 0) <= (init.endlineno or 0)


def _module(package: griffe.Module, name: str) -> griffe.Module:
    module = package if name == package.path else package[name.removeprefix(f"{package.path}.")]
    assert isinstance(module, griffe.Module)
    return module


def _public(module: griffe.Module) -> dict[str, griffe.Object]:
    imported = {name for name, path in module.imports.items() if path.startswith("kubewright.")}
    own = {name for name, each in module.members.items() if not each.is_alias and not each.is_module}
    names = {str(each) for each in module.exports or ()} or (imported if module.is_init_module else own)
    found = {name: _target(module.members[name]) for name in module.members if name in names and name[0] != "_"}
    return {name: each for name, each in found.items() if each is not None and not _is_type_variable(each)}


def _is_type_variable(each: griffe.Object) -> bool:
    return isinstance(each, griffe.Attribute) and bool(re.match(r"(TypeVar|ParamSpec)\b", str(each.value or "")))


def _members(thing: griffe.Object) -> Iterator[griffe.Object]:
    """The members of a class that are its own and public."""
    if isinstance(thing, griffe.Class):
        for each in thing.members.values():
            if isinstance(each, griffe.Object) and is_shown(each):
                yield each


def _is_described(thing: griffe.Object) -> bool:
    if thing.docstring is not None:
        return True
    parent = thing.parent
    if not isinstance(parent, griffe.Class):
        return False
    if isinstance(thing, griffe.Attribute) and "property" not in thing.labels:
        return True
    bases = (base.members.get(thing.name) for base in parent.mro())
    return any(each is not None and each.docstring is not None for each in bases)


def _target(each: griffe.Object | griffe.Alias | None) -> griffe.Object | None:
    """What a name stands for. None for what another distribution defines, as msgspec does UNSET.

    A function that a package imports from the module of the same name hides that module.
    """
    if isinstance(each, griffe.Alias):
        try:
            each = each.final_target
        except griffe.AliasResolutionError:
            return None
    while isinstance(each, griffe.Module) and each.parent is not None and each.path in _imports(each.parent):
        each = each.members[each.name]
    return each if isinstance(each, griffe.Object) else None


def _imports(package: griffe.Object) -> set[str]:
    """The modules of `package` that it imports something of the same name from."""
    return {path.rpartition(".")[0] for name, path in package.imports.items() if path.endswith(f".{name}.{name}")}


def _resolve(text: str, thing: griffe.Object) -> griffe.Object | None:
    """What `text` means in a docstring of `thing`: a name of its class, of its module, or of the package."""
    head, *rest = text.removesuffix("()").split(".")
    scope: griffe.Object | None = thing
    while scope is not None:
        found = _target(scope.members.get(head)) if not isinstance(scope, griffe.Function) else None
        for name in rest:
            found = _member(found, name)
        if found is not None:
            return found
        scope = scope.parent
    return None


def _member(thing: griffe.Object | None, name: str) -> griffe.Object | None:
    if thing is None:
        return None
    found = _target(thing.members.get(name))
    if found is None and isinstance(thing, griffe.Class):
        found = next((_target(each) for base in thing.mro() if (each := base.members.get(name)) is not None), None)
    return found
