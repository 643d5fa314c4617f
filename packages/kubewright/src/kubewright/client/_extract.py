"""Extraction of the fields that one manager has applied to an object.

Extract the fields, change some of them, and apply the result. An apply removes the fields that it omits, so applying a
new object with only the changed fields would lose the others.

    deployment = extract(await client.get(Deployment, "web", namespace="d"), client.field_manager)
    deployment.spec.replicas = 5
    await client.apply(deployment)

Follows the Extract functions of client-go's applyconfigurations.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from kubewright.client._dynamic import decode_object
from kubewright.client._fieldsv1 import entry_of, owned_part
from kubewright.machinery.errors import ConfigError, DecodeError
from kubewright.machinery.json import JSONObject
from kubewright.models import Object, codec

T = TypeVar("T", bound=Object)


def extract(obj: T, field_manager: str, *, subresource: str | None = None) -> T:
    """Return the fields of `obj` that `field_manager` has applied, or applied to `subresource` ("status"); no others.

    If the manager has applied nothing, the result has only the name. `obj` must be read with its managedFields.
    Raises ConfigError without them; by default a cache omits them. Raises DecodeError if the class requires a field
    that the manager does not own. In that case, read the object as an `Unstructured` (`RESTMapper.kind`) and extract
    from it.
    """
    if not obj.metadata.managed_fields:
        raise ConfigError(
            f'{obj.kind} "{obj.metadata.name}" has no metadata.managedFields to extract by: read it with Client.get, '
            "or cache its kind with Scope(keep_managed_fields=True)"
        )
    document = codec.document(obj)
    entry = entry_of(document, field_manager, subresource)
    owned: JSONObject = owned_part(document, entry["fieldsV1"]) if entry is not None and entry.get("fieldsV1") else {}
    meta = obj.metadata
    identity = {"name": meta.name, "namespace": meta.namespace} if meta.namespace else {"name": meta.name}
    head = {"apiVersion": document["apiVersion"], "kind": document["kind"]}
    extracted = {**owned, **head, "metadata": {**owned.get("metadata", {}), **identity}}
    try:
        return decode_object(type(obj), msgspec.json.encode(extracted))
    except DecodeError as error:
        raise DecodeError(
            f"{error}, and {field_manager!r} does not own it: extract from the object read as an Unstructured, by "
            f'RESTMapper.kind("{head["apiVersion"]}", "{head["kind"]}")'
        ) from error
