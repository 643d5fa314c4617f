"""The environment of expressions about a write: their variables and types.

Follows k8s.io/apiserver pkg/admission/plugin/cel/compile.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kubewright.cel.expression import CheckedExpression
from kubewright.cel.library.authorization import AUTHORIZER
from kubewright.cel.syntax import CompileError
from kubewright.cel.types import BOOL, DYN, INT, STRING, TIMESTAMP, Type, list_of, map_of


def _object_type(name: str, /, **fields: Type) -> Type:
    return Type(f"kubernetes.{name}", fields=fields)


_TEXTS: Final = list_of(STRING)
_KIND: Final = _object_type("GroupVersionKind", group=STRING, version=STRING, kind=STRING)
_RESOURCE: Final = _object_type("GroupVersionResource", group=STRING, version=STRING, resource=STRING)
_USER: Final = _object_type("UserInfo", username=STRING, uid=STRING, groups=_TEXTS, extra=map_of(STRING, _TEXTS))
REQUEST: Final = _object_type(
    "AdmissionRequest",
    kind=_KIND,
    resource=_RESOURCE,
    subResource=STRING,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource=STRING,
    name=STRING,
    namespace=STRING,
    operation=STRING,
    userInfo=_USER,
    dryRun=BOOL,
    options=DYN,
)
"""The type of `request`."""
_CONDITION: Final = _object_type(
    "NamespaceCondition",
    status=STRING,
    type=STRING,
    lastTransitionTime=TIMESTAMP,
    message=STRING,
    reason=STRING,
)
NAMESPACE: Final = _object_type(
    "Namespace",
    metadata=_object_type(
        "NamespaceMetadata",
        name=STRING,
        generateName=STRING,
        namespace=STRING,
        labels=map_of(STRING, STRING),
        annotations=map_of(STRING, STRING),
        UID=STRING,
        creationTimestamp=TIMESTAMP,
        deletionGracePeriodSeconds=INT,
        deletionTimestamp=TIMESTAMP,
        generation=INT,
        resourceVersion=STRING,
        finalizers=_TEXTS,
    ),
    spec=_object_type("NamespaceSpec", finalizers=_TEXTS),
    status=_object_type("NamespaceStatus", conditions=list_of(_CONDITION), phase=STRING),
)
"""The type of `namespaceObject`. A real API server declares it for match conditions too, where it is always null."""

VARIABLES: Final[Mapping[str, Type]] = {
    "object": DYN,
    "oldObject": DYN,
    "namespaceObject": NAMESPACE,
    "request": REQUEST,
    "authorizer": AUTHORIZER,
}
"""The variables of every expression about a write, with their types."""


def compile_expression(
    source: str,
    variables: Mapping[str, Type],
    *wanted: Type,
    slots: Sequence[str] | None = None,
    patches: bool = False,
) -> CheckedExpression:
    """Compile an expression whose value has one of the `wanted` types, by default any.

    `slots` and `patches` are those of `CheckedExpression`. Raises CompileError with the API server's text:
    `compilation failed: ...`, `must evaluate to bool but got int`.
    """
    try:
        expression = CheckedExpression(source, variables, slots=slots, patches=patches)
    except CompileError as error:
        raise CompileError(f"compilation failed: {error}") from None
    if wanted and expression.type not in wanted:
        names = [each.declared_name for each in wanted]
        allowed = names[0] if len(names) == 1 else f"one of [{' '.join(names)}]"
        raise CompileError(f"must evaluate to {allowed} but got {expression.type.declared_name}")
    return expression
