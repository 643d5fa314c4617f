"""The module of another version of a kind: a copy of a version that exists, changed in its text.

Fields, markers, columns and short names are copied with their comments and layout. The new class is not the storage
version. Versions are not converted, so they should start with the same shape.
"""

from __future__ import annotations

import ast
import re


def another_version(source: str, kind: str, module: str, old: str, new: str) -> str | None:
    """Return `source`, the module `module` with version `old` of `kind`, as the module of version `new`.

    Returns None if the module does not declare the kind with `version="..."` in its class arguments.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    declared = _class(tree, kind)
    version = None if declared is None else _argument(declared, "version")
    if declared is None or version is None or not isinstance(version.value, ast.Constant):
        return None
    lines = source.encode().splitlines(keepends=True)
    edits = [(_start(lines, version.value), _end(lines, version.value), f'"{new}"')]
    storage = _argument(declared, "storage")
    if storage is None:
        end = _end(lines, version.value)
        edits[0] = (edits[0][0], end, edits[0][2] + _inserted(lines, version))
    else:
        edits.append((_start(lines, storage.value), _end(lines, storage.value), "False"))
    edits += _absolute_imports(lines, tree, module)
    docstring = tree.body[0] if ast.get_docstring(tree) is not None else None
    if docstring is not None:
        start, end = _start(lines, docstring), _end(lines, docstring)
        text = b"".join(lines)[start:end].decode()
        edits.append((start, end, re.sub(rf"\b{re.escape(old)}\b", new, text)))
    content = b"".join(lines)
    for start, end, text in sorted(edits, reverse=True):
        content = content[:start] + text.encode() + content[end:]
    return content.decode()


def is_stored(source: str, kind: str) -> bool:
    """Return whether the module `source` declares the version of `kind` that objects are stored in."""
    try:
        declared = _class(ast.parse(source), kind)
    except SyntaxError:
        return False
    storage = None if declared is None else _argument(declared, "storage")
    return declared is not None and (storage is None or ast.unparse(storage.value) != "False")


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


def _inserted(lines: list[bytes], version: ast.keyword) -> str:
    """Return `storage=False` after the argument `version`, on a line of its own if that one has its own."""
    before = lines[version.lineno - 1][: version.col_offset]
    return ", storage=False" if before.strip() else f",\n{before.decode()}storage=False"


def _absolute_imports(lines: list[bytes], tree: ast.Module, module: str) -> list[tuple[int, int, str]]:
    """Edits that make relative imports absolute: the copy is in another package."""
    edits: list[tuple[int, int, str]] = []
    for each in tree.body:
        if isinstance(each, ast.ImportFrom) and each.level:
            package = ".".join([*module.split(".")[: -each.level], *([each.module] if each.module else [])])
            names = ", ".join(name.name + (f" as {name.asname}" if name.asname else "") for name in each.names)
            edits.append((_start(lines, each), _end(lines, each), f"from {package} import {names}"))
    return edits


def _start(lines: list[bytes], node: ast.stmt | ast.expr | ast.keyword) -> int:
    return sum(map(len, lines[: node.lineno - 1])) + node.col_offset


def _end(lines: list[bytes], node: ast.stmt | ast.expr | ast.keyword) -> int:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
