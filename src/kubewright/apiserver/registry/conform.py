"""Making a document fit its kind: what its schema does not know is dropped, and told as the client asked for it.

Follows the field validation of KEP-2885.
"""

from __future__ import annotations

from kubewright.apiserver.registry.options import WriteOptions
from kubewright.apiserver.registry.resource import Resource
from kubewright.machinery.errors import BadRequest, DecodeError
from kubewright.machinery.json import JSONObject


def conform(resource: Resource, obj: JSONObject, options: WriteOptions) -> None:
    """Drop unknown fields, bring values into their canonical form, and set defaults, in place.

    Raises BadRequest for a value that cannot be read as its type, and for unknown or duplicate fields under Strict.
    """
    try:
        unknown = resource.schema.prune(obj)
    except DecodeError as error:
        text = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {error}'
        raise BadRequest(text) from error
    faults = options.faults + [f'unknown field "{path}"' for path in unknown]
    if faults and options.field_validation == "Strict":
        raise BadRequest(f"strict decoding error: {', '.join(faults)}")
    if options.field_validation == "Warn":
        options.warnings.extend(faults)
    resource.schema.default(obj)
    resource.strategy.default(obj)
