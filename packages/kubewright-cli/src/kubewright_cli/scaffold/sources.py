"""Edits the text of a module at the places that its syntax tree names. The rest stays the same, also comments."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from kubewright.machinery.json import JSONObject, is_object

LINE_LENGTH: Final = 120
"""The line length of projects that `init` writes."""


Part: TypeAlias = ast.expr | ast.keyword
"""An argument of a call or of a class, or an item of a list."""


class Source:
    """A module and its edits. Positions are those of the syntax tree: line, and byte in the line."""

    def __init__(self, text: str) -> None:
        """Raises SyntaxError if the text is not Python."""
        self.tree = ast.parse(text)
        ended = text if text.endswith("\n") else f"{text}\n"
        self.lines = ended.encode().splitlines(keepends=True)
        self._changes: list[tuple[int, int, bytes]] = []

    def edited(self) -> str:
        """Return the text with all edits."""
        content = b"".join(self.lines)
        for start, end, new in sorted(self._changes, reverse=True):
            content = content[:start] + new + content[end:]
        return content.decode()

    def start(self, node: ast.stmt | Part) -> int:
        return self.offset(node.lineno, node.col_offset)

    def end(self, node: ast.stmt | Part) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.offset(node.end_lineno, node.end_col_offset)

    def offset(self, line: int, column: int) -> int:
        return sum(map(len, self.lines[: line - 1])) + column

    def between(self, start: int, end: int) -> str:
        return b"".join(self.lines)[start:end].decode()

    def indent(self, line: int) -> str:
        text = self.lines[line - 1].decode()
        return text[: len(text) - len(text.lstrip())]

    def begins_its_line(self, node: Part) -> bool:
        return not self.lines[node.lineno - 1][: node.col_offset].strip()

    def insert(self, place: int, new: str) -> None:
        self._replace(place, place, new)

    def replace(self, node: ast.stmt | Part, new: str) -> None:
        self._replace(self.start(node), self.end(node), new)

    def remove(self, start: int, end: int) -> None:
        self._replace(start, end, "")

    def insert_after(self, node: ast.stmt, lines: str) -> None:
        assert node.end_lineno is not None
        self.insert(self.offset(node.end_lineno + 1, 0), lines)

    def append_item(self, items: ast.List, text: str) -> None:
        """Append an item to a list."""
        end = self.end(items) - 1  # of the closing bracket
        if not items.elts:
            indent = self.indent(items.lineno)
            self._replace(self.start(items), end, f"[\n{indent}    {text},\n{indent}" if indent else f"[{text}")
            return
        self._append(items.elts[-1], end, text, several_lines=items.elts[-1].end_lineno != items.end_lineno)

    def append_argument(self, call: ast.Call, text: str) -> None:
        """Append an argument to a call that has arguments."""
        last = max(_arguments(call), key=self.start)
        self._append(last, self.end(call) - 1, text, several_lines=last.end_lineno != call.end_lineno)

    def insert_argument(self, behind: Part, call: ast.Call, text: str) -> None:
        """Insert an argument behind another one, on a line of its own if the next one has its own."""
        later = [each for each in _arguments(call) if self.start(each) > self.start(behind)]
        if not later:
            self.append_argument(call, text)
            return
        following = min(later, key=self.start)
        assert behind.end_lineno is not None
        if following.lineno > behind.end_lineno:
            self.insert(self.offset(behind.end_lineno + 1, 0), f"{self.indent(following.lineno)}{text},\n")
        else:
            self.insert(self.start(following), f"{text}, ")

    def _append(self, last: Part, end: int, text: str, *, several_lines: bool) -> None:
        behind = self.end(last)
        has_comma = any(line.lstrip().startswith(",") for line in self.between(behind, end).splitlines())
        if not several_lines:
            self.insert(behind, f", {text}")
            return
        if not has_comma:
            self.insert(behind, ",")
        assert last.end_lineno is not None
        self.insert(self.offset(last.end_lineno + 1, 0), f"{self.indent(last.lineno)}{text},\n")

    def _replace(self, start: int, end: int, new: str) -> None:
        self._changes.append((start, end, new.encode()))


def _arguments(call: ast.Call) -> list[Part]:
    return [*call.args, *call.keywords]


def with_import(text: str, package: str, name: str, alias: str = "") -> str | None:
    """Return the module with the import, where isort would put it. Returns None if the name means something else."""
    source = Source(text)
    if any(
        (each.name, each.asname or "") == (name, alias)
        for statement in _imports(source.tree)
        if statement.module == package
        for each in statement.names
    ):
        return text
    if (alias or name) in bound_names(source.tree):
        return None
    _import(source, package, name, alias)
    return source.edited()


def from_import(package: str, *names: str) -> str:
    """Return the import statement, formatted as by ruff."""
    line = f"from {package} import {', '.join(names)}"
    if len(line) <= LINE_LENGTH:
        return line
    return f"from {package} import (\n" + "".join(f"    {name},\n" for name in names) + ")"


def import_block(package: str, imports: Mapping[str, Sequence[str]]) -> str:
    """Return imports of names by module, as isort orders them: those of other packages than `package` first."""
    sections: tuple[list[str], list[str]] = ([], [])
    for module in sorted(imports):
        sections[module.partition(".")[0] == package].append(from_import(module, *imports[module]))
    return "\n\n".join("\n".join(each) for each in sections if each)


def literal(value: JSONObject, indent: int) -> str:
    """Return an object as ruff formats it: each field on a line of its own, and the values in one line if they fit."""
    lines = (f"{' ' * indent}    {_item(key, each, indent + 4)},\n" for key, each in value.items())
    return f"{{\n{''.join(lines)}{' ' * indent}}}"


def _item(key: str, value: Any, indent: int) -> str:
    text = f'"{key}": {repr(value).replace(chr(39), chr(34))}'
    fits = indent + len(text) < LINE_LENGTH
    return text if fits or not is_object(value) else f'"{key}": {literal(value, indent)}'


def bound_names(tree: ast.Module) -> set[str]:
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


def in_order(names: set[str]) -> Sequence[str]:
    """Return names as isort orders them: constants, classes, then the rest."""
    return sorted(names, key=lambda name: (not name.isupper(), name[:1].islower(), name))


def assigned_call(tree: ast.Module, name: str) -> ast.Call | None:
    """Return the call in `name = f(...)` at the top of a module."""
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=found)], value=ast.Call() as call) if found == name:
                return call
            case ast.AnnAssign(target=ast.Name(id=found), value=ast.Call() as call) if found == name:
                return call
            case _:
                pass
    return None


def _imports(tree: ast.Module) -> Iterator[ast.ImportFrom]:
    return (each for each in tree.body if isinstance(each, ast.ImportFrom) and each.level == 0)


def _import(source: Source, package: str, name: str, alias: str) -> None:
    imports = list(_imports(source.tree))
    if not alias:
        for each in imports:
            if each.module == package and not any(known.asname for known in each.names):
                names = in_order({*(known.name for known in each.names), name})
                source.replace(each, from_import(package, *names))
                return
    statement = f"from {package} import {f'{name} as {alias}' if alias else name}\n"
    root = package.partition(".")[0]
    own = [each for each in imports if (each.module or "").partition(".")[0] == root]
    before = [each for each in own if (each.module or "", each.names[0].name) < (package, name)]
    if before:
        source.insert_after(before[-1], statement)
    elif own:
        source.insert(source.offset(own[0].lineno, 0), statement)
    else:
        _insert_section(source, statement)


def _insert_section(source: Source, statement: str) -> None:
    """Insert after all imports, or after the docstring."""
    tree = source.tree
    imports = [each for each in tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
    if imports:
        source.insert_after(imports[-1], f"\n{statement}")
    elif ast.get_docstring(tree) is not None:
        source.insert_after(tree.body[0], f"\n{statement}")
    else:
        source.insert(source.offset(tree.body[0].lineno, 0), f"{statement}\n")
