"""The patch types of PATCH requests.

Follows apiserver's pkg/endpoints/handlers/patch.go.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from kubewright.machinery.errors import BadRequest, Invalid, StatusDetails, UnsupportedMediaType
from kubewright.machinery.fields import invalid
from kubewright.machinery.json import JSONObject
from kubewright.machinery.patch import json_patch, merge_patch
from kubewright_controlplane.apiserver.registry.conform import Nonconforming
from kubewright_controlplane.apiserver.registry.model import Resource
from kubewright_controlplane.apiserver.registry.objects import encode_json
from kubewright_controlplane.schema.ownership.strategic import strategic_merge_patch

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


def check_type(resource: Resource, content_type: str) -> None:
    """Raise UnsupportedMediaType for a content type that is not a patch, or not supported by this resource."""
    if content_type in (JSON_PATCH, MERGE_PATCH, APPLY_PATCH) or (
        content_type == STRATEGIC_PATCH and not resource.custom
    ):
        return
    if not resource.custom:
        raise UnsupportedMediaType("415: Unsupported Media Type", details=StatusDetails())
    raise UnsupportedMediaType(
        "the body of the request was in an unknown format - accepted media types include: "
        f"{JSON_PATCH}, {MERGE_PATCH}, {APPLY_PATCH}"
    )


def nonconforming(error: Nonconforming, patched: JSONObject) -> Invalid:
    """Return the error for a patch whose result cannot be read as its kind. For a PUT or POST, it is a BadRequest."""
    return Invalid.of("", "", "", [invalid("patch", encode_json(patched).decode(), error.why)])


def decode(body: bytes, content_type: str) -> Any:
    """Decode a JSON, merge or strategic merge patch. Raises BadRequest if it is malformed."""
    try:
        patch: Any = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise BadRequest(f"error decoding patch: {error}") from error
    if content_type != JSON_PATCH and not isinstance(patch, dict):
        kind = "array" if isinstance(patch, list) else type(cast("object", patch)).__name__
        raise BadRequest(
            f"error decoding patch: json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        )
    return patch


def apply(resource: Resource, content_type: str, obj: JSONObject, patch: Any) -> JSONObject:
    """Return the document that a decoded patch makes of `obj`. It shares unchanged parts with `obj` and the patch."""
    if content_type == JSON_PATCH:
        return json_patch(obj, patch)
    if content_type == MERGE_PATCH:
        return merge_patch(obj, patch)
    return strategic_merge_patch(obj, patch, resource.schema)
