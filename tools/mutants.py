"""Changes the code at random places, one at a time, and shows which changes the unit tests do not notice.

mutants.py [--count 24] [--seed 0] [--area cache ...] [--timeout 120] [--list]

Each change (mutant) is made in a copy of the repository, in which the unit tests of the changed package run until one
fails. A mutant is *killed* when a test fails or hangs. A mutant that *survives* shows behavior without a unit test, or
is a change without an effect. The sample is the same for the same seed and the same code.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Area:
    """Code that is changed, and the tests that should notice."""

    sources: str
    """The folder whose modules are changed."""
    tests: str
    """What pytest runs."""


AREAS: Final = {
    "cache": Area("packages/kubewright/src/kubewright/cache", "tests/unit/cache"),
    "controllers": Area("packages/kubewright/src/kubewright/controllers", "tests/unit/controller"),
    "client": Area("packages/kubewright/src/kubewright/client", "tests/unit/client"),
    "schema": Area("packages/kubewright-controlplane/src/kubewright_controlplane/schema", "tests/unit/schema"),
    "registry": Area(
        "packages/kubewright-controlplane/src/kubewright_controlplane/apiserver/registry",
        "tests/unit/apiserver",
    ),
}
"""Where mutants are made. The paths are those of this repository, relative to its root."""

IMPORT_ROOTS: Final = ("packages/*/src", "src")
"""Folders from which the packages of a copy are imported, as patterns."""

_IGNORED: Final = shutil.ignore_patterns(".git", ".venv", ".*_cache", ".hypothesis", "__pycache__", "*.egg-info")
_COMPARISONS: Final[Mapping[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: Final[Mapping[type[ast.operator], type[ast.operator]]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}
_SWAPPED: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
_LOGGERS: Final = ("log", "logger", "_log", "_logger")


@dataclass(frozen=True)
class Mutant:
    """One change of one module."""

    path: Path
    """The module, relative to the root."""
    line: int
    change: str
    """The change in words."""
    start: int
    """The first byte that is replaced."""
    end: int
    replacement: str
    """The new text."""
    code: str
    """The line of the module, for readers."""

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.replacement.encode() + source[self.end :]


# ---- changes -------------------------------------------------------------------------------------


def mutants_of(source: bytes, path: Path) -> list[Mutant]:
    """Return every mutant of a module, in the order of its lines."""
    finder = _Finder(source, path)
    finder.visit(ast.parse(source))
    return sorted(finder.found, key=lambda each: (each.start, each.end, each.change))


class _Finder(ast.NodeVisitor):
    """Finds mutants in functions; leaves annotations, decorators, docstrings and log calls alone."""

    def __init__(self, source: bytes, path: Path) -> None:
        self.found: list[Mutant] = []
        self._path = path
        self._in_function = False
        self._lines = [0]
        self._code = source.decode().splitlines()
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def _add(self, node: ast.expr | ast.stmt, change: str, new: ast.AST | str) -> None:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        text = new if isinstance(new, str) else _in_parentheses(new)
        start = self._lines[node.lineno - 1] + node.col_offset
        end = self._lines[node.end_lineno - 1] + node.end_col_offset
        code = self._code[node.lineno - 1].strip()
        self.found.append(Mutant(self._path, node.lineno, change, start, end, text, code))

    # Statements

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if any(ast.unparse(each).endswith("overload") for each in node.decorator_list):
            return
        outer, self._in_function = self._in_function, True
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        for statement in node.body:
            self.visit(statement)
        self._in_function = outer

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" not in ast.unparse(node.test):
            self._condition(node.test)
            self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        if not isinstance(node.test, ast.Constant):
            self._condition(node.test)
        self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        """Leave assertions alone: they inform type checkers."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if self._in_function and all(isinstance(each, ast.Attribute | ast.Subscript) for each in node.targets):
            self._dropped(node)
        self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._dropped(node)
        if type(node.op) in _ARITHMETIC:
            other = ast.AugAssign(node.target, _ARITHMETIC[type(node.op)](), node.value)
            self._add(node, f"`{_short(node)}` became `{_short(other)}`", ast.unparse(other))
        self.visit(node.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        value = node.value
        if not self._in_function or isinstance(value, ast.Constant) or _is_logged(value):
            return
        if isinstance(value, ast.Await | ast.Call):
            self._dropped(node)
        if isinstance(value, ast.Await):
            self._add(value, f"`await` removed from `{_short(value)}`", value.value)
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._dropped(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._dropped(node)

    def visit_Break(self, node: ast.Break) -> None:
        self._dropped(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._dropped(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            self._dropped(node)
        elif not isinstance(node.value, ast.Constant):
            self._add(node, f"`{_short(node)}` became `return None`", "return None")
            self.generic_visit(node)
        else:
            self.generic_visit(node)

    def _dropped(self, node: ast.stmt) -> None:
        self._add(node, f"`{_short(node)}` dropped", "pass")

    # Expressions

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._condition(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for condition in node.ifs:
            self._condition(condition)
        self.generic_visit(node)

    def _condition(self, test: ast.expr) -> None:
        """Negate a condition, unless the flip of a comparison is the same."""
        if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and _is_negation(test.ops[0])):
            self._add(test, f"condition `{_short(test)}` negated", _negated(test))

    def visit_Compare(self, node: ast.Compare) -> None:
        for index, operator in enumerate(node.ops):
            if type(operator) in _COMPARISONS:
                operators = [*node.ops[:index], _COMPARISONS[type(operator)](), *node.ops[index + 1 :]]
                other = ast.Compare(node.left, operators, node.comparators)
                self._add(node, f"`{_short(node)}` became `{_short(other)}`", other)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        other = ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        self._add(node, f"`{_short(node)}` became `{_short(other)}`", other)
        for index in range(len(node.values)):
            rest = [*node.values[:index], *node.values[index + 1 :]]
            kept = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
            self._add(node, f"`{_short(node.values[index])}` dropped from `{_short(node)}`", kept)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in _ARITHMETIC and not _is_text(node.left) and not _is_text(node.right):
            other = ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)
            self._add(node, f"`{_short(node)}` became `{_short(other)}`", other)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in _SWAPPED:
            name = _SWAPPED[node.func.id]
            self._add(node.func, f"`{node.func.id}` became `{name}` in `{_short(node)}`", name)
        for keyword in node.keywords:
            if keyword.arg and self._in_function:
                rest = [each for each in node.keywords if each is not keyword]
                other = ast.Call(node.func, node.args, rest)
                self._add(node, f"`{keyword.arg}=` dropped from `{_short(node)}`", other)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if not self._in_function:
            return
        if isinstance(node.value, bool):
            self._add(node, f"`{node.value}` became `{not node.value}`", str(not node.value))
        elif isinstance(node.value, int):
            self._add(node, f"`{node.value}` became `{node.value + 1}`", str(node.value + 1))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave the text of messages alone."""


def _in_parentheses(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Constant) else f"({text})"


def _is_negation(operator: ast.cmpop) -> bool:
    return isinstance(operator, ast.Eq | ast.NotEq | ast.Is | ast.IsNot | ast.In | ast.NotIn)


def _negated(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    return ast.UnaryOp(ast.Not(), node)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _is_logged(node: ast.expr) -> bool:
    """Return whether a statement only logs."""
    call = node.value if isinstance(node, ast.Await) else node
    names = ast.unparse(call.func).split(".") if isinstance(call, ast.Call) else []
    return any(name in _LOGGERS for name in names)


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 72 else f"{text[:69]}..."


def sample(root: Path, areas: Mapping[str, Area], count: int, seed: int) -> list[tuple[str, Mutant]]:
    """Return a random sample: the areas take turns. The same seed and code return the same sample."""
    chosen: list[tuple[str, Mutant]] = []
    shuffled = {name: _shuffled(root, area, f"{seed} {name}") for name, area in areas.items()}
    while len(chosen) < count and any(shuffled.values()):
        chosen += [(name, mutants.pop()) for name, mutants in shuffled.items() if mutants]
    return chosen[:count]


def _shuffled(root: Path, area: Area, seed: str) -> list[Mutant]:
    files = sorted((root / area.sources).rglob("*.py"))
    found = [each for file in files for each in mutants_of(file.read_bytes(), file.relative_to(root))]
    random.Random(seed).shuffle(found)
    return found


# ---- tests ------------------------------------------------------------------------------------


class Outcome(Enum):
    KILLED = "killed"
    HUNG = "killed (timeout)"
    SURVIVED = "SURVIVED"


class MutantsError(Exception):
    """Mutants cannot be tested. The message says what to do."""


class Copy:
    """A copy of the repository, in which one mutant at a time is tested."""

    def __init__(self, root: Path, copy: Path) -> None:
        shutil.copytree(root, copy, ignore=_IGNORED, dirs_exist_ok=True, symlinks=True)
        self._root = copy
        imports = [str(folder) for pattern in IMPORT_ROOTS for folder in sorted(copy.glob(pattern))]
        imports += [str(copy), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, imports))}
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def check(self, area: Area, timeout: float) -> float:
        """Run an area's tests without a change; returns the seconds that they took. Raises MutantsError."""
        started = time.monotonic()
        outcome, output = self._tests(area, timeout)
        if outcome is not Outcome.SURVIVED:
            raise MutantsError(f"{area.tests}: the tests fail without a change; fix them first\n{output[-2000:]}")
        return time.monotonic() - started

    def try_out(self, mutant: Mutant, area: Area, timeout: float) -> Outcome:
        """Make a change, run the tests of its area, and undo it."""
        file = self._root / mutant.path
        source = file.read_bytes()
        changed = mutant.applied(source)
        compile(changed, str(file), "exec")
        try:
            self._write(file, changed)
            return self._tests(area, timeout)[0]
        finally:
            self._write(file, source)

    @staticmethod
    def _write(file: Path, source: bytes) -> None:
        """Write a module and remove its bytecode, which Python would accept as current within the same second."""
        file.write_bytes(source)
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            compiled.unlink()

    def _tests(self, area: Area, timeout: float) -> tuple[Outcome, str]:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", area.tests]
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                command, cwd=self._root, env=self._environment, stdout=output, stderr=output, start_new_session=True
            )
            try:
                status = process.wait(timeout)
            except subprocess.TimeoutExpired:
                return Outcome.HUNG, f"the tests took longer than {timeout:.0f} s"
            finally:
                _kill(process)
            output.seek(0)
            return Outcome.KILLED if status else Outcome.SURVIVED, output.read()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the tests and every process that they started and that is in their group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run(
    root: Path,
    areas: Mapping[str, Area],
    chosen: Sequence[tuple[str, Mutant]],
    timeout: float,
    *,
    slack: float = 20,
    say: Callable[[str], None] = print,
) -> list[Mutant]:
    """Try the mutants and print the outcome of each; return those that survived.

    Tests hang when they take longer than `timeout` seconds, or than `slack` and five times what they take unchanged.
    """
    survived: list[Mutant] = []
    hung = 0
    limits: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Copy(root, Path(folder))
        for name, mutant in chosen:
            if name not in limits:
                limits[name] = min(timeout, slack + 5 * copy.check(areas[name], timeout))
            outcome = copy.try_out(mutant, areas[name], limits[name])
            say(f"{outcome.value:16}  {mutant.path}:{mutant.line}  {mutant.change}")
            hung += outcome is Outcome.HUNG
            if outcome is Outcome.SURVIVED:
                survived.append(mutant)
    say("\n".join(summary(len(chosen), hung, survived)))
    return survived


def summary(count: int, hung: int, survived: Sequence[Mutant]) -> Iterator[str]:
    yield f"\n{count} mutants: {count - len(survived)} killed ({hung} by a timeout), {len(survived)} survived"
    if survived:
        yield "Each survivor shows behavior without a unit test, or is a change without an effect:"
        yield from (f"  {each.path}:{each.line}  {each.change}\n      {each.code}" for each in survived)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="mutants.py", description="Change the code, and see whether the tests notice."
    )
    parser.add_argument("--count", type=int, default=24, help="the number of mutants (24)")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the random sample (0)")
    parser.add_argument("--area", action="append", choices=list(AREAS), help="change only this part (repeatable)")
    parser.add_argument("--timeout", type=float, default=120, help="seconds after which tests count as hanging (120)")
    parser.add_argument("--list", action="store_true", help="print the sample and run no test")
    options = parser.parse_args(arguments)
    areas = {name: AREAS[name] for name in options.area or AREAS}
    chosen = sample(ROOT, areas, options.count, options.seed)
    if options.list:
        print("\n".join(f"{each.path}:{each.line}  {each.change}" for _, each in chosen))
        return 0
    try:
        run(ROOT, areas, chosen, options.timeout, say=partial(print, flush=True))
    except MutantsError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
