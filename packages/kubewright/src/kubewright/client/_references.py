"""References to objects, as one object names another.

Follows client-go's tools/reference.
"""

from __future__ import annotations

from kubewright.apis.core.v1 import ObjectReference
from kubewright.models import Object


def reference_to(obj: Object) -> ObjectReference:
    """What names `obj` as it was read: this life of it, at this version."""
    meta = obj.metadata
    return ObjectReference(
        api_version=obj.api_version,
        kind=obj.kind,
        namespace=meta.namespace or None,
        name=meta.name,
        uid=meta.uid or None,
        resource_version=meta.resource_version or None,
    )
