"""AdmissionReviews: the request that a webhook gets, and what its answer means.

Follows k8s.io/apiserver pkg/admission/plugin/webhook/{request,errors}.
"""

from __future__ import annotations

import binascii
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from kubewright.machinery.errors import APIError, Status, from_status
from kubewright.machinery.json import JSONArray, JSONObject, is_array, is_object
from kubewright_controlplane.apiserver.admission.versions import VersionedAttributes
from kubewright_controlplane.apiserver.admission.webhooks.configurations import Webhook
from kubewright_controlplane.apiserver.registry.objects import encode_json

_GROUP: Final = "admission.k8s.io"
_PATCH_TYPE: Final = "JSONPatch"
_LOWEST_FAILURE: Final = 400
_Types: TypeAlias = type | tuple[type, ...]


class WebhookFailed(Exception):
    """A webhook could not be called, or its answer is invalid. Its failure policy decides."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The `response` of an AdmissionReview, checked."""

    allowed: bool
    warnings: list[str]
    """For the client, without those that have control characters."""
    patch: JSONArray
    result: JSONObject | None

    def denial(self, webhook: Webhook) -> APIError:
        """Return the error for a write that the webhook denies: its own Status, with a message that names it."""
        result = self.result or {}
        why = result.get("message") or result.get("reason")
        text = f'admission webhook "{webhook.name}" denied the request'
        status = Status.from_dict(result)
        return from_status(
            Status(
                code=max(status.code, _LOWEST_FAILURE),
                reason=status.reason,
                message=f"{text}: {why}" if why else f"{text} without explanation",
                details=status.details,
                metadata=status.metadata,
                status="Failure" if status.status in ("", "Success") else status.status,
            )
        )


def encode_review(version: str, uid: str, write: VersionedAttributes) -> bytes:
    """Return the AdmissionReview for a webhook, as JSON."""
    request = write.request
    return encode_json(
        {
            "kind": "AdmissionReview",
            "apiVersion": f"{_GROUP}/{version}",
            "request": {
                "uid": uid,
                **request,
                "object": write.object,
                "oldObject": write.old_object,
                "dryRun": request["dryRun"],
                "options": request["options"],
            },
        }
    )


def decode_answer(version: str, uid: str, body: bytes, *, mutating: bool) -> Answer:
    """Read and check the answer to a review. Raises WebhookFailed with the API server's text."""
    review = _decode(version, body)
    response = _field(review, "response", dict, None)
    if response is None:
        raise _invalid("webhook response was absent")
    patch, patch_type = _field(response, "patch", str, ""), _field(response, "patchType", str, None)
    if version == "v1":
        _check_identity(review, response, uid)
        _check_patch(patch, patch_type, mutating=mutating)
    annotations = _field(response, "auditAnnotations", dict, {})
    if not all(isinstance(each, str) for each in annotations.values()):
        raise _undecodable("response.auditAnnotations")
    warnings = _field(response, "warnings", list, [])
    if not all(isinstance(each, str) for each in warnings):
        raise _undecodable("response.warnings")
    return Answer(
        allowed=_field(response, "allowed", bool, False),
        warnings=[each for each in warnings if not any(unicodedata.category(rune) == "Cc" for rune in each)],
        patch=_decode_patch(patch, patch_type or _PATCH_TYPE) if mutating else [],
        result=_checked_result(_field(response, "status", dict, None)),
    )


def _decode(version: str, body: bytes) -> JSONObject:
    if not body:
        raise WebhookFailed("failed to call webhook: 0-length response with status code: 200 and content type: ")
    try:
        review: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        why = f"couldn't get version/kind; json parse error: {error}"
        raise WebhookFailed(f"failed to call webhook: {why}") from None
    if not is_object(review):
        why = "couldn't get version/kind; json parse error: json: cannot unmarshal value into Go value of type struct"
        raise WebhookFailed(f"failed to call webhook: {why}")
    return review


def _check_identity(review: JSONObject, response: JSONObject, uid: str) -> None:
    """Check that the answer to a v1 review is one, and that it is the answer to this request."""
    given = _field(response, "uid", str, "")
    if given != uid:
        raise _invalid(f'expected response.uid="{uid}", got "{given}"')
    api_version, kind = _field(review, "apiVersion", str, ""), _field(review, "kind", str, "")
    if (api_version, kind) != (f"{_GROUP}/v1", "AdmissionReview"):
        got = f"{api_version if api_version else '/'}, Kind={kind}"
        raise _invalid(f"expected webhook response of {_GROUP}/v1, Kind=AdmissionReview, got {got}")


def _check_patch(patch: str, patch_type: str | None, *, mutating: bool) -> None:
    if not mutating:
        if patch:
            raise _invalid("validating webhook may not return response.patch")
        if patch_type is not None:
            raise _invalid("validating webhook may not return response.patchType")
    elif patch and patch_type is None:
        raise _invalid("webhook returned response.patch but not response.patchType")
    elif not patch and patch_type is not None:
        raise _invalid("webhook returned response.patchType but not response.patch")
    elif patch_type == "":
        raise _invalid('webhook returned invalid response.patchType of ""')


def _decode_patch(patch: str, patch_type: str) -> JSONArray:
    if not patch:
        return []
    try:
        operations: Any = msgspec.json.decode(binascii.a2b_base64(patch))
    except (binascii.Error, ValueError, RecursionError) as error:  # DecodeError is a ValueError
        raise WebhookFailed(f"received undecodable patch in webhook response: {error}") from None
    if not is_array(operations) or not all(map(is_object, operations)):
        why = "json: cannot unmarshal value into Go value of type jsonpatch.Patch"
        raise WebhookFailed(f"received undecodable patch in webhook response: {why}")
    if operations and patch_type != _PATCH_TYPE:
        raise WebhookFailed(f'unsupported patch type "{patch_type}"')
    return operations


def _checked_result(result: JSONObject | None) -> JSONObject | None:
    """Return a Status whose fields have the right types."""
    if result is None:
        return None
    for field, wanted in _STATUS_FIELDS.items():
        _field(result, field, wanted, None)
    details = _field(result, "details", dict, {})
    for field, wanted in _DETAIL_FIELDS.items():
        _field(details, field, wanted, None)
    causes: list[object] = details.get("causes") or []
    for cause in causes:
        if not isinstance(cause, dict) or not all(isinstance(each, str) for each in cause.values()):
            raise _undecodable("status.details.causes")
    return result


_STATUS_FIELDS: Final[Mapping[str, _Types]] = {"code": int, "reason": str, "message": str, "status": str}
_DETAIL_FIELDS: Final[Mapping[str, _Types]] = {
    "name": str, "group": str, "kind": str, "uid": str, "causes": list, "retryAfterSeconds": int,
}  # fmt: skip


def _field(obj: JSONObject, name: str, wanted: _Types, default: Any) -> Any:
    """Return a field. Raises WebhookFailed if it has another type."""
    value = obj.get(name)
    if value is None:
        return default
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is int):
        raise _undecodable(name)
    return value


def _undecodable(name: str) -> WebhookFailed:
    return WebhookFailed(f"failed to call webhook: the answer cannot be read: {name} has the wrong type")


def _invalid(why: str) -> WebhookFailed:
    return WebhookFailed(f"received invalid webhook response: {why}")
