"""The patch types: what a PATCH body makes of a document.

Follows apiserver's pkg/endpoints/handlers/patch.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

from kubewright.machinery.errors import BadRequest, Invalid, StatusDetails, UnsupportedMediaType
from kubewright.machinery.fields import invalid
from kubewright.machinery.json import JSONObject
from kubewright.machinery.patch import json_patch, merge_patch
from kubewright_controlplane.apiserver.registry.conform import Nonconforming
from kubewright_controlplane.apiserver.registry.objects import encode_json
from kubewright_controlplane.apiserver.registry.resource import Resource
from kubewright_controlplane.schema.strategic import strategic_merge_patch

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

Patch = Callable[[JSONObject], JSONObject]


def check_type(resource: Resource, content_type: str) -> None:
    """Raises UnsupportedMediaType for what is no patch, or none for this resource."""
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
    """A patch whose result cannot be read as its kind is invalid, where a whole document would be a bad request."""
    return Invalid.of("", "", "", [invalid("patch", encode_json(patched).decode(), error.why)])


def decode(body: bytes) -> Any:
    """The document in a JSON, merge or strategic merge patch. Raises BadRequest."""
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise BadRequest(f"error decoding patch: {error}") from error


def change(resource: Resource, content_type: str, patch: Any) -> Patch:
    """The change that a decoded patch asks for. Raises BadRequest for one that is not of its type."""
    if content_type == JSON_PATCH:
        return lambda obj: json_patch(obj, patch)
    document = _object(patch)
    if content_type == MERGE_PATCH:
        return lambda obj: merge_patch(obj, document)
    return lambda obj: strategic_merge_patch(obj, document, resource.schema)


def _object(patch: Any) -> JSONObject:
    if not isinstance(patch, dict):
        kind = "array" if isinstance(patch, list) else type(cast("object", patch)).__name__
        raise BadRequest(
            f"error decoding patch: json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        )
    return cast("JSONObject", patch)
