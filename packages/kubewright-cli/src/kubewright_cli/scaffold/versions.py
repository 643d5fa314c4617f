"""The module of another version of a kind: a copy of a version that exists, changed in its text.

Fields, markers, columns and short names are copied with their comments and layout. The new class is not the storage
version, it is served, and it is not deprecated.
"""

from __future__ import annotations

import ast
import re
from typing import Final

from kubewright_cli.scaffold.sources import Part, Source

_OF_THE_OLD: Final = ("deprecated", "served")
"""Class arguments that are not copied: they say that users should leave the old version."""


def another_version(text: str, kind: str, module: str, old: str, new: str) -> str | None:
    """Return `text`, the module `module` with version `old` of `kind`, as the module of version `new`.

    Returns None if the module does not declare the kind with `version="..."` in its class arguments.
    """
    source = _parsed(text)
    declared = None if source is None else _class(source.tree, kind)
    version = None if declared is None else _argument(declared, "version")
    if source is None or declared is None or version is None or not isinstance(version.value, ast.Constant):
        return None
    storage = _argument(declared, "storage")
    added = "" if storage is not None else _inserted(source, version)
    source.replace(version, f'version="{new}"{added}')
    if storage is not None:
        source.replace(storage.value, "False")
    for name in _OF_THE_OLD:
        _remove(source, declared, name)
    _make_imports_absolute(source, module)
    if ast.get_docstring(source.tree) is not None:
        docstring = source.tree.body[0]
        written = source.between(source.start(docstring), source.end(docstring))
        source.replace(docstring, re.sub(rf"\b{re.escape(old)}\b", new, written))
    return source.edited()


def is_stored(text: str, kind: str) -> bool:
    """Return whether the module `text` declares the version of `kind` that objects are stored in."""
    source = _parsed(text)
    declared = None if source is None else _class(source.tree, kind)
    storage = None if declared is None else _argument(declared, "storage")
    return declared is not None and (storage is None or ast.unparse(storage.value) != "False")


def _parsed(text: str) -> Source | None:
    try:
        return Source(text)
    except SyntaxError:
        return None


def _class(tree: ast.Module, kind: str) -> ast.ClassDef | None:
    """Return the class of the kind: of that name, or with that name as its argument `kind`."""
    for each in tree.body:
        if isinstance(each, ast.ClassDef) and _argument(each, "group") is not None:
            stated = _argument(each, "kind")
            named = stated.value.value if stated and isinstance(stated.value, ast.Constant) else each.name
            if named == kind:
                return each
    return None


def _argument(declared: ast.ClassDef, name: str) -> ast.keyword | None:
    return next((each for each in declared.keywords if each.arg == name), None)


def _inserted(source: Source, version: ast.keyword) -> str:
    """Return `storage=False` after the argument `version`, on a line of its own if that one has its own."""
    own_line = f",\n{source.indent(version.lineno)}storage=False"
    return own_line if source.begins_its_line(version) else ", storage=False"


def _remove(source: Source, declared: ast.ClassDef, name: str) -> None:
    """Remove an argument of the class; one before it, the group, is always there."""
    removed = _argument(declared, name)
    if removed is not None:
        before: list[Part] = [*declared.bases, *declared.keywords]
        behind = max((each for each in before if source.start(each) < source.start(removed)), key=source.start)
        source.remove(source.end(behind), source.end(removed))


def _make_imports_absolute(source: Source, module: str) -> None:
    """Make relative imports absolute: the copy is in another package."""
    for each in source.tree.body:
        if isinstance(each, ast.ImportFrom) and each.level:
            package = ".".join([*module.split(".")[: -each.level], *([each.module] if each.module else [])])
            names = ", ".join(name.name + (f" as {name.asname}" if name.asname else "") for name in each.names)
            source.replace(each, f"from {package} import {names}")
