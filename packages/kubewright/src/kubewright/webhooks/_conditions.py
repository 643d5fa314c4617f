"""Match conditions are compiled as the API server does, so that a mistake is found where the webhook is declared.

The compiler is in `kubewright_controlplane.schema.cel`, which an operator's image does not contain.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kubewright.machinery.errors import ConfigError
from kubewright_controlplane.schema.cel.checker import Environment, check
from kubewright_controlplane.schema.cel.declare import declared
from kubewright_controlplane.schema.cel.library import functions
from kubewright_controlplane.schema.cel.parser import parse
from kubewright_controlplane.schema.cel.syntax import CompileError, Expr, Ident, parts
from kubewright_controlplane.schema.cel.types import BOOL, DYN

_STRING: Final = {"type": "string"}


def _record(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


_KIND: Final = _record(group=_STRING, version=_STRING, kind=_STRING)
_RESOURCE: Final = _record(group=_STRING, version=_STRING, resource=_STRING)
_USER: Final = _record(
    username=_STRING,
    uid=_STRING,
    groups={"type": "array", "items": _STRING},
    extra={"type": "object", "additionalProperties": {"type": "array", "items": _STRING}},
)
_REQUEST: Final = declared(
    _record(
        kind=_KIND, resource=_RESOURCE, subResource=_STRING,
        requestKind=_KIND, requestResource=_RESOURCE, requestSubResource=_STRING,
        name=_STRING, namespace=_STRING, operation=_STRING, userInfo=_USER, dryRun={"type": "boolean"},
        options={"x-kubernetes-int-or-string": True},
    ),
    name="kubernetes.AdmissionRequest",
)  # fmt: skip
"""The variable `request`. Its `options` have a type that only the request knows.
Source: BuildRequestType in k8s.io/apiserver/pkg/admission/plugin/cel.
"""
assert _REQUEST is not None
_VARIABLES: Final = {"object": DYN, "oldObject": DYN, "request": _REQUEST}


def check_conditions(where: str, conditions: Mapping[str, str]) -> None:
    """Raise ConfigError for an expression that the API server would reject. Expressions with `authorizer` are not
    checked.
    """
    for name, source in conditions.items():
        try:
            fault = _fault(source)
        except CompileError as error:
            fault = str(error)
        if fault:
            raise ConfigError(f"{where}: match_conditions: {name!r}: {source}: {fault}")


def _fault(source: str) -> str:
    known = functions()
    expression = parse(source, known.keys())
    if _uses_authorizer(expression):
        return ""
    try:
        found = check(source, expression, Environment(_VARIABLES, known))
    except RecursionError:
        return "the expression is nested too deeply"
    return "" if found in (BOOL, DYN) else f"must evaluate to bool, but evaluates to {found}"


def _uses_authorizer(expression: Expr) -> bool:
    return (isinstance(expression, Ident) and expression.name == "authorizer") or any(
        _uses_authorizer(part) for part in parts(expression)
    )
