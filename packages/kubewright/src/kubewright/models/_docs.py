"""What the documentation of a class says: its docstring, and the strings that stand under its attributes.

The strings under attributes are not kept by Python; they are read from the source, once a module, when a CRD is made.
Where there is no source (an interactive session, a frozen program) they are missing: the CRD is the same but for the
descriptions of fields. Generate CRDs where the source is, and ship the files.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache


def class_doc(cls: type) -> str:
    """The docstring of a class itself, not of a parent; "" when it has none."""
    text = vars(cls).get("__doc__")
    return inspect.cleandoc(text) if text else ""


def field_docs(cls: type) -> dict[str, str]:
    """The strings under the attributes of a class and of its parents, by attribute."""
    docs: dict[str, str] = {}
    for each in reversed(cls.__mro__):
        docs |= _documented(each.__module__).get(each.__qualname__, {})
    return docs


@cache
def _documented(module: str) -> dict[str, dict[str, str]]:
    """The documented attributes of each class of a module, by the class's qualified name."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError, KeyError):
        return {}
    found: dict[str, dict[str, str]] = {}
    _collect(tree, "", found)
    return found


def _collect(node: ast.AST, prefix: str, found: dict[str, dict[str, str]]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            found[prefix + child.name] = _attributes(child)
            _collect(child, f"{prefix}{child.name}.", found)
        elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            _collect(child, f"{prefix}{child.name}.<locals>.", found)
        else:
            _collect(child, prefix, found)


def _attributes(node: ast.ClassDef) -> dict[str, str]:
    docs: dict[str, str] = {}
    for statement, following in zip(node.body, node.body[1:], strict=False):
        match statement, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                docs[name] = inspect.cleandoc(text)
            case _:
                pass
    return docs
