"""The programs on the pages.

The Python blocks of a page in `docs` are one module: later blocks use the names of earlier ones. On other pages, such
as the README, each block is a separate program.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "designs/*.md", "examples/*/*.md")
    for page in ROOT.glob(pattern)
    if ".venv" not in page.parts
)


def by_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


class Program(NamedTuple):
    """A module on a page."""

    name: str
    page: Path
    source: str

    @property
    def tests(self) -> list[str]:
        """The names of its tests."""
        body = ast.parse(self.source).body
        return [each.name for each in body if isinstance(each, ast.AsyncFunctionDef) and each.name.startswith("test_")]


def loaded(program: Program, folder: Path) -> ModuleType:
    """Import the module of a program from its file in `folder`."""
    spec = importlib.util.spec_from_file_location(program.name, folder / f"{program.name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[program.name] = module  # annotations of its models are looked up here
    spec.loader.exec_module(module)
    return module


def programs() -> list[Program]:
    """Return the programs of all pages."""
    return [each for page in PAGES for each in _programs(page)]


def _programs(page: Path) -> list[Program]:
    text = page.read_text()
    found = list(re.finditer(r"^```python\n(.*?)^```", text, flags=re.S | re.M))
    name = re.sub(r"\W+", "_", str(page.relative_to(ROOT).with_suffix(""))).lower()
    if page.is_relative_to(ROOT / "docs"):
        # Line numbers of the module are those of the page, so messages of checkers point to the page.
        lines = [""] * (text.count("\n") + 1)
        for block in found:
            start = text.count("\n", 0, block.start(1))
            code = block[1].splitlines()
            lines[start : start + len(code)] = code
        return [Program(name, page, "\n".join(lines))] if found else []
    return [Program(f"{name}_{number}", page, block[1]) for number, block in enumerate(found, 1)]
