"""What names in a package refer to, and which of them are public."""

from __future__ import annotations

import re
from collections.abc import Iterator

import griffe


def module(distributions: griffe.ModulesCollection, name: str) -> griffe.Module:
    """Return the module of a dotted name."""
    found = distributions[name]
    assert isinstance(found, griffe.Module)
    return found


def defined(distributions: griffe.ModulesCollection, path: str) -> griffe.Object | None:
    """Return the object at a dotted path, including modules that a function of the same name hides."""
    try:
        return _target(distributions[path])
    except KeyError:
        return None


def is_shown(member: griffe.Object) -> bool:
    """Return whether a member of a class is in the reference.

    A field of a dataclass or struct, or an attribute that `__init__` assigns, is shown only if it has a docstring,
    because the signature contains it already.
    """
    init = member.parent.members.get("__init__") if member.parent is not None else None
    if member.name.startswith("_"):
        return False
    if member.has_docstring or not member.is_attribute or not isinstance(init, griffe.Function):
        return True
    if not init.lineno:  # generated from the fields
        return member.name not in init.parameters
    return not init.lineno <= (member.lineno or 0) <= (init.endlineno or 0)


def public(module: griffe.Module) -> dict[str, griffe.Object]:
    """Return what a package or module exports, by name, in the order of its source."""
    imported = {name for name, path in module.imports.items() if path.startswith("kubewright")}
    own = {name for name, each in module.members.items() if not each.is_alias and not each.is_module}
    names = {str(each) for each in module.exports or ()} or (imported if module.is_init_module else own)
    found = {name: _target(module.members[name]) for name in module.members if name in names and name[0] != "_"}
    return {name: each for name, each in found.items() if each is not None and not is_type_variable(each)}


def is_type_variable(each: griffe.Object) -> bool:
    """Return whether an object is a type variable, which users do not need."""
    return isinstance(each, griffe.Attribute) and bool(re.match(r"(TypeVar|ParamSpec)\b", str(each.value or "")))


def members(thing: griffe.Object) -> Iterator[griffe.Object]:
    """Yield the public members of a class, and its `__init__` if that has a docstring.

    They include what private base classes define, and no other inherited members.
    """
    if isinstance(thing, griffe.Class):
        private = [base for base in reversed(thing.mro()) if base.name.startswith("_")]
        found = {name: each for owner in (*private, thing) for name, each in owner.members.items()}
        for each in found.values():
            if isinstance(each, griffe.Object) and (is_shown(each) or (each.name == "__init__" and each.has_docstring)):
                yield each


def is_described(thing: griffe.Object) -> bool:
    """Return whether an object has a docstring or needs none: a field, or a method that a base class documents."""
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
    """Return what a name refers to, or None if another project defines it, such as msgspec's UNSET.

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
    """Return the modules of `package` from which it imports an object of the same name."""
    return {path.rpartition(".")[0] for name, path in package.imports.items() if path.endswith(f".{name}.{name}")}


def resolve(text: str, thing: griffe.Object) -> griffe.Object | None:
    """Return what `text` refers to in a docstring of `thing`: a name of its class, of its module, or of the package."""
    head, *rest = text.removesuffix("()").split(".")
    scope: griffe.Object | None = thing
    while scope is not None:
        found = _target(scope.members.get(head)) if not isinstance(scope, griffe.Function) else None
        for name in rest:
            found = member_of(found, name)
        if found is not None:
            return found
        scope = scope.parent
    return None


def member_of(thing: griffe.Object | None, name: str) -> griffe.Object | None:
    if thing is None:
        return None
    found = _target(thing.members.get(name))
    if found is None and isinstance(thing, griffe.Class):
        found = next((_target(each) for base in thing.mro() if (each := base.members.get(name)) is not None), None)
    return found
