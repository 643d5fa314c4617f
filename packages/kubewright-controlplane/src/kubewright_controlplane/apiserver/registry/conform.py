"""Making a document fit its kind: what its schema does not know is dropped, and told as the client asked for it.

Follows the field validation of KEP-2885.
"""

from __future__ import annotations

from kubewright.machinery.errors import BadRequest, DecodeError, InternalError
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.registry.options import WriteOptions
from kubewright_controlplane.apiserver.registry.resource import Resource
from kubewright_controlplane.schema.declared import undeclared


class Nonconforming(BadRequest):
    """A document that cannot be read as its kind. `why` is the fault alone, as it is told of a patch."""

    def __init__(self, expected: GroupVersionKind, why: str, *, kind: str = "", version: str = "") -> None:
        """`kind` and `version` are those that the document says it has, where they are not the ones expected."""
        given = f'{kind or expected.kind} in version "{version or expected.version}"'
        super().__init__(f"{given} cannot be handled as a {expected.kind}: {why}")
        self.why = why


def refuse_undeclared(resource: Resource, config: JSONObject) -> None:
    """Raises InternalError, as a real API server does, for what is to be applied and the schema does not declare."""
    faults = undeclared(config, resource.schema.root)
    if faults:
        why = faults[0] if len(faults) == 1 else "\n  ".join(("errors:", *faults))
        raise InternalError(f"failed to create typed patch object ({_named(resource, config)}): {why}", reason="")


def conform_applied(resource: Resource, config: JSONObject) -> None:
    """Bring what is to be applied into canonical form, in place; it gets no defaults: those nobody asked for.

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


def conform(resource: Resource, obj: JSONObject, options: WriteOptions) -> None:
    """Drop unknown fields, bring values into their canonical form, and set defaults, in place.

    Raises Nonconforming for a value that cannot be read as its type, and for unknown or duplicate fields under Strict.
    """
    try:
        unknown = resource.schema.prune(obj)
    except DecodeError as error:
        raise Nonconforming(resource.gvk, str(error)) from error
    if resource.custom:
        unknown.sort()  # Go looks through a built-in kind as it is written, through a custom one in order of keys
    faults = options.faults + [f'unknown field "{path}"' for path in unknown]
    if faults and options.field_validation == "Strict":
        raise Nonconforming(resource.gvk, f"strict decoding error: {', '.join(faults)}")
    if options.field_validation == "Warn":
        options.warnings.extend(faults)
    resource.schema.default(obj)
    resource.strategy.default(obj)
