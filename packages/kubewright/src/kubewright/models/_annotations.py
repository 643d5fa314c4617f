"""The annotations of a model, as types.

A model's annotations are evaluated when its class is made, also where they are text (`from __future__ import
annotations`) and the class stands in a function: the names around the class statement are known then, and not later.
"""

from __future__ import annotations

import inspect
import re
import sys
import typing
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from kubewright.machinery.errors import ModelError

_METACLASSES: Final = frozenset({__name__, "kubewright.models._model", "kubewright.models._custom"})


def annotations_of(namespace: Mapping[str, Any]) -> Mapping[str, Any]:
    """The annotations in the namespace of a class that is being made, not evaluated where that can be helped."""
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
    """The types that the annotations of `cls` mean. Raises ModelError for one that names what is not there.

    `cls` is being made: what called this function, but for metaclasses, is where its class statement stands.
    """
    names = _surroundings() | {name: value for name, value in vars(cls).items() if isinstance(value, type)}
    return {field: _evaluated(cls, field, annotation, names) for field, annotation in annotations.items()}


def _surroundings() -> dict[str, Any]:
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals["__name__"] in _METACLASSES:
        frame = frame.f_back
    return dict(frame.f_locals) if frame is not None else {}


def _evaluated(cls: type, field: str, annotation: Any, names: dict[str, Any]) -> Any:
    holder = type(cls.__name__, (), {"__annotations__": {field: annotation}, "__module__": cls.__module__})
    try:
        return typing.get_type_hints(holder, localns=names, include_extras=True)[field]
    except NameError as fault:
        if fault.name == cls.__name__:
            raise ModelError(
                f"{cls.__name__}.{field}: a type that contains itself cannot be in a CRD. Give each level a Model of "
                "its own, or keep the rest as Annotated[dict[str, Any], PreserveUnknownFields()]"
            ) from fault
        raise ModelError(
            f'{cls.__name__}.{field}: "{fault.name}" is not known here. Define it above the class, and import it at '
            "run time (not under TYPE_CHECKING)"
        ) from fault
