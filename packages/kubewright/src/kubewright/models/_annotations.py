"""What a class statement says: the types of its annotations, and the documentation of its fields.

A model's annotations are evaluated when its class is created, also if they are strings (`from __future__ import
annotations`) and if the class is defined inside a function: the names around the class statement are known only then.

Python does not keep the strings below attributes. They are read from the source, once per module, when a CRD is made.
Without source (an interactive session, a frozen program) they are missing, and the CRD has no descriptions of fields.
Generate CRDs where the source is, and ship the files.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Final

from kubewright.machinery.errors import ModelError

_METACLASSES: Final = frozenset({__name__, "kubewright.models._model", "kubewright.models._custom"})


def annotations_of(namespace: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the annotations in the namespace of a class that is being created; unevaluated if possible."""
    if sys.version_info >= (3, 14):
        import annotationlib

        if annotate := annotationlib.get_annotate_from_class_namespace(namespace):
            return annotationlib.call_annotate_function(annotate, annotationlib.Format.FORWARDREF)
    annotations: Mapping[str, Any] = namespace.get("__annotations__", {})
    return annotations


def is_class_variable(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return re.match(r"(\w+\.)?ClassVar\b", annotation) is not None
    return annotation is ClassVar or typing.get_origin(annotation) is ClassVar


def evaluated(cls: type, annotations: Mapping[str, Any]) -> dict[str, Any]:
    """Return the types that the annotations of `cls` mean. Raises ModelError if one names something undefined.

    `cls` is being created: apart from metaclasses, the caller of this function is the code around its class statement.
    """
    names = _enclosing_names() | {name: value for name, value in vars(cls).items() if isinstance(value, type)}
    return {field: _evaluated(cls, field, annotation, names) for field, annotation in annotations.items()}


def _enclosing_names() -> dict[str, Any]:
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals["__name__"] in _METACLASSES:
        frame = frame.f_back
    return dict(frame.f_locals) if frame is not None else {}


def _evaluated(cls: type, field: str, annotation: Any, names: dict[str, Any]) -> Any:
    holder = type(cls.__name__, (), {"__annotations__": {field: annotation}, "__module__": cls.__module__})
    try:
        return typing.get_type_hints(holder, localns=names, include_extras=True)[field]
    except NameError as error:
        if error.name == cls.__name__:
            raise ModelError(
                f"{cls.__name__}.{field}: a CRD cannot express a type that contains itself. Define a Model for each "
                "level, or keep the rest as Annotated[dict[str, Any], m.PreserveUnknownFields()]"
            ) from error
        raise ModelError(
            f'{cls.__name__}.{field}: "{error.name}" is not defined here. Define it above the class, and import it at '
            "run time (not under TYPE_CHECKING)"
        ) from error


def class_doc(cls: type) -> str:
    """Return the docstring of the class itself, not of a base class; "" if there is none."""
    text = vars(cls).get("__doc__")
    return inspect.cleandoc(text) if text else ""


def field_docs(cls: type) -> dict[str, str]:
    """Return the strings below the attributes of a class and of its base classes, by attribute."""
    docs: dict[str, str] = {}
    for each in reversed(cls.__mro__):
        docs |= _documented(each.__module__).get(each.__qualname__, {})
    return docs


@cache
def _documented(module: str) -> dict[str, dict[str, str]]:
    """Return the documented attributes of each class of a module, by the class's qualified name."""
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
