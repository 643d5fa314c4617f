"""Adds a controller to main.py: reads the syntax tree, and edits the text.

Everything else in the file stays the same, also comments and layout. A program without the list of controllers that
`init` wrote is not changed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

LINE_LENGTH: Final = 120
"""The line length of projects that `init` writes."""


@dataclass(frozen=True, slots=True)
class ControllerImport:
    """The module of a controller, and its name in the program."""

    package: str
    module: str
    alias: str = ""

    @property
    def statement(self) -> str:
        return f"from {self.package} import {self.name}"

    @property
    def name(self) -> str:
        return f"{self.module} as {self.alias}" if self.alias else self.module

    @property
    def reference(self) -> str:
        return f"{self.alias or self.module}.reconcile"


def with_controller(source: str, manager: str, added: ControllerImport) -> str | None:
    """Return `source` with the controller imported, and in the list of the Manager that is assigned to `manager`.

    Returns the same text if the controller is in the list already, and None if there is no such list or the name is
    taken.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    controllers = _controllers(tree, manager)
    if controllers is None:
        return None
    text = _Text(source)
    if not _is_imported(tree, added):
        if (added.alias or added.module) in _bound(tree):
            return None
        _import(text, tree, added)
    if added.reference not in map(ast.unparse, controllers.elts):
        _append(text, controllers, added.reference)
    return text.edited()


class _Text:
    """A source and its edits. Positions are those of the syntax tree: line, and byte in the line."""

    def __init__(self, source: str) -> None:
        self.lines = source.encode().splitlines(keepends=True)
        self._changes: list[tuple[int, int, bytes]] = []

    def offset(self, line: int, column: int) -> int:
        return sum(map(len, self.lines[: line - 1])) + column

    def replace(self, start: int, end: int, new: str) -> None:
        self._changes.append((start, end, new.encode()))

    def insert(self, place: int, new: str) -> None:
        self.replace(place, place, new)

    def edited(self) -> str:
        content = b"".join(self.lines)
        for start, end, new in sorted(self._changes, reverse=True):
            content = content[:start] + new + content[end:]
        return content.decode()

    def indent(self, line: int) -> str:
        text = self.lines[line - 1].decode()
        return text[: len(text) - len(text.lstrip())]


def _controllers(tree: ast.Module, manager: str) -> ast.List | None:
    """Return the list of controllers in `manager = Manager(controllers=[...])`."""
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if name == manager:
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call() as call) if name == manager:
                pass
            case _:
                continue
        given = [each.value for each in call.keywords if each.arg == "controllers"] or call.args[:1]
        return given[0] if given and isinstance(given[0], ast.List) else None
    return None


def _is_imported(tree: ast.Module, added: ControllerImport) -> bool:
    return any(
        (each.name, each.asname or "") == (added.module, added.alias)
        for statement in _imports(tree)
        if statement.module == added.package
        for each in statement.names
    )


def _imports(tree: ast.Module) -> Iterator[ast.ImportFrom]:
    return (each for each in tree.body if isinstance(each, ast.ImportFrom) and each.level == 0)


def _bound(tree: ast.Module) -> set[str]:
    """Return the names that the module's own statements bind."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom():
                names |= {(each.asname or each.name).partition(".")[0] for each in node.names}
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case _:
                pass
    return names


def _import(text: _Text, tree: ast.Module, added: ControllerImport) -> None:
    """Add the import where isort would put it."""
    imports = list(_imports(tree))
    if not added.alias:
        for each in imports:
            if each.module == added.package and not any(name.asname for name in each.names):
                names = sorted({*(name.name for name in each.names), added.name})
                _replace(text, each, from_import(added.package, *names))
                return
    root = added.package.partition(".")[0]
    own = [each for each in imports if (each.module or "").partition(".")[0] == root]
    key = (added.package, added.module)
    before = [each for each in own if (each.module or "", each.names[0].name) < key]
    if before:
        _insert_after(text, before[-1], f"{added.statement}\n")
    elif own:
        text.insert(text.offset(own[0].lineno, 0), f"{added.statement}\n")
    else:
        _insert_section(text, tree, f"{added.statement}\n")


def from_import(package: str, *names: str) -> str:
    """Return the import statement, formatted as by ruff."""
    line = f"from {package} import {', '.join(names)}"
    if len(line) <= LINE_LENGTH:
        return line
    return f"from {package} import (\n" + "".join(f"    {name},\n" for name in names) + ")"


def _insert_section(text: _Text, tree: ast.Module, statement: str) -> None:
    """Insert after all imports, or after the docstring."""
    imports = [each for each in tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
    if imports:
        _insert_after(text, imports[-1], f"\n{statement}")
    elif ast.get_docstring(tree) is not None:
        _insert_after(text, tree.body[0], f"\n{statement}")
    else:
        text.insert(text.offset(tree.body[0].lineno, 0), f"{statement}\n")


def _replace(text: _Text, node: ast.stmt, new: str) -> None:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    text.replace(text.offset(node.lineno, node.col_offset), text.offset(node.end_lineno, node.end_col_offset), new)


def _insert_after(text: _Text, node: ast.stmt, lines: str) -> None:
    assert node.end_lineno is not None
    text.insert(text.offset(node.end_lineno + 1, 0), lines)


def _append(text: _Text, controllers: ast.List, reference: str) -> None:
    assert controllers.end_lineno is not None
    assert controllers.end_col_offset is not None
    end = text.offset(controllers.end_lineno, controllers.end_col_offset) - 1  # of the closing bracket
    if not controllers.elts:
        start = text.offset(controllers.lineno, controllers.col_offset)
        indent = text.indent(controllers.lineno)
        text.replace(start, end, f"[\n{indent}    {reference},\n{indent}" if indent else f"[{reference}")
        return
    last = controllers.elts[-1]
    assert last.end_lineno is not None
    assert last.end_col_offset is not None
    behind = text.offset(last.end_lineno, last.end_col_offset)
    rest = b"".join(text.lines)[behind:end].decode()
    has_comma = any(line.lstrip().startswith(",") for line in rest.splitlines())
    if last.end_lineno == controllers.end_lineno:
        text.insert(behind, f", {reference}")
        return
    if not has_comma:
        text.insert(behind, ",")
    text.insert(text.offset(last.end_lineno + 1, 0), f"{text.indent(last.lineno)}{reference},\n")
