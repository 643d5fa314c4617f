"""Making a document fit its kind: unknown fields are dropped and reported as the client asked.

Follows the field validation of KEP-2885.
"""

from __future__ import annotations

from kubewright.machinery.errors import BadRequest, DecodeError, InternalError
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.registry.model import Resource
from kubewright_controlplane.apiserver.registry.options import WriteCall
from kubewright_controlplane.schema.ownership.declared import undeclared


class Nonconforming(BadRequest):
    """A document that cannot be read as its kind. `why` is the fault alone, as the answer to a patch reports it."""

    def __init__(self, expected: GroupVersionKind, why: str, *, kind: str = "", version: str = "") -> None:
        """`kind` and `version` are those in the document, if they are not the expected ones."""
        given = f'{kind or expected.kind} in version "{version or expected.version}"'
        super().__init__(f"{given} cannot be handled as a {expected.kind}: {why}")
        self.why = why


def reject_undeclared(resource: Resource, config: JSONObject) -> None:
    """Raise InternalError, as a real API server does, for applied fields that the schema does not declare."""
    faults = undeclared(config, resource.schema.root)
    if faults:
        why = faults[0] if len(faults) == 1 else "\n  ".join(("errors:", *faults))
        raise InternalError(f"failed to create typed patch object ({_named(resource, config)}): {why}", reason="")


def conform_applied(resource: Resource, config: JSONObject) -> None:
    """Bring an applied configuration into canonical form, in place. It gets no defaults, or the applier would own them.

    Raises InternalError, as a real API server does, for values that cannot be read as their types.
    """
    try:
        resource.schema.prune(config)
    except DecodeError as error:
        why = f"unable to convert unstructured object to {_kind(resource)}: {error}"
        whole = _named(resource, config)
        raise InternalError(f"failed to convert new object ({whole}) to proper version: {why}", reason="") from error


def _named(resource: Resource, config: JSONObject) -> str:
    metadata: JSONObject = config.get("metadata") or {}
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {_kind(resource)}"


def _kind(resource: Resource) -> str:
    return f"{resource.group}/{resource.version}, Kind={resource.kind}"


def conform(resource: Resource, obj: JSONObject, call: WriteCall) -> None:
    """Drop unknown fields, bring values into their canonical form, and set defaults, in place.

    Adds warnings to `call`. Raises Nonconforming for a value that cannot be read as its type, and, with strict field
    validation, for unknown or duplicate fields.
    """
    try:
        unknown = resource.schema.prune(obj)
    except DecodeError as error:
        raise Nonconforming(resource.gvk, str(error)) from error
    if unknown or call.duplicate_fields:
        _report(resource, unknown, call)
    resource.schema.default(obj)
    resource.strategy.default(obj)


def _report(resource: Resource, unknown: list[str], call: WriteCall) -> None:
    if resource.custom:
        unknown.sort()  # Go visits the fields of a built-in kind in written order, those of a custom kind by name
    faults = [*call.duplicate_fields, *(f'unknown field "{path}"' for path in unknown)]
    if call.options.field_validation == "Strict":
        raise Nonconforming(resource.gvk, f"strict decoding error: {', '.join(faults)}")
    if call.options.field_validation == "Warn":
        call.warnings.extend(faults)
