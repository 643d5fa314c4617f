"""Making a document fit its kind: what its schema does not know is dropped, and told as the client asked for it.

Follows the field validation of KEP-2885.
"""

from __future__ import annotations

from kubewright.apiserver.registry.options import WriteOptions
from kubewright.apiserver.registry.resource import Resource
from kubewright.machinery.errors import BadRequest, DecodeError, InternalError
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONObject


class Nonconforming(BadRequest):
    """A document that cannot be read as its kind. `why` is the fault alone, as it is told of a patch."""

    def __init__(self, expected: GroupVersionKind, why: str, *, kind: str = "", version: str = "") -> None:
        """`kind` and `version` are those that the document says it has, where they are not the ones expected."""
        given = f'{kind or expected.kind} in version "{version or expected.version}"'
        super().__init__(f"{given} cannot be handled as a {expected.kind}: {why}")
        self.why = why


def conform_applied(resource: Resource, config: JSONObject) -> None:
    """Bring what is to be applied into canonical form, in place; it gets no defaults: those nobody asked for.

    Raises InternalError, as a real API server does, for a field that the schema does not know or cannot read.
    """
    try:
        unknown = resource.schema.prune(config)
    except DecodeError as error:
        raise _not_typed(resource, config, str(error)) from error
    if unknown:
        raise _not_typed(resource, config, f".{unknown[0]}: field not declared in schema")


def _not_typed(resource: Resource, config: JSONObject, why: str) -> InternalError:
    metadata: JSONObject = config.get("metadata") or {}
    whole = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    kind = f"{resource.group}/{resource.version}, Kind={resource.kind}"
    return InternalError(f"failed to create typed patch object ({whole}; {kind}): {why}", reason="")


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
