"""AdmissionReviews: the request that a webhook gets, and what its answer means.

Follows k8s.io/apiserver pkg/admission/plugin/webhook/{request,errors}.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kubewright.machinery.errors import APIError, DecodeError, RequestTooLarge, Status, from_status
from kubewright.machinery.json import JSONArray, JSONObject, is_array, is_object
from kubewright_controlplane.apiserver.admission.versions import VersionedAttributes
from kubewright_controlplane.apiserver.admission.webhooks.configurations import Webhook
from kubewright_controlplane.apiserver.endpoints.body import check_nesting
from kubewright_controlplane.apiserver.registry.objects import encode_json
from kubewright_controlplane.apiserver.webhooks.validation import REVIEW_VERSIONS
from kubewright_controlplane.schema import base64

_GROUP: Final = "admission.k8s.io"
_PATCH_TYPE: Final = "JSONPatch"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_MOST_CAUSES: Final = 1000
"""Causes of a denial that the client gets."""
_LOWEST_FAILURE: Final = 400
_HIGHEST_CODE: Final = 999
_PANIC: Final = 500
"""The answer for a code with more than three digits: a real API server panics when it writes one."""
_GO_META: Final = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'


class WebhookFailed(Exception):
    """A webhook could not be called, or its answer is invalid. Its failure policy decides."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The `response` of an AdmissionReview, checked."""

    allowed: bool
    warnings: list[str]
    """For the client, without those that have control characters."""
    audit_annotations: dict[str, str]
    patch: JSONArray
    result: JSONObject | None
    size: int
    """The bytes of the review or of its answer, whichever is larger."""

    def denial(self, webhook: Webhook) -> APIError:
        """Return the error for a write that the webhook denies: its own Status, with a message that names it."""
        result = self.result or {}
        why = result.get("message") or result.get("reason")
        text = f'admission webhook "{webhook.name}" denied the request'
        status = Status.from_dict(result)
        return from_status(
            Status(
                code=max(status.code, _LOWEST_FAILURE) if status.code <= _HIGHEST_CODE else _PANIC,
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


def decode_answer(version: str, uid: str, body: bytes, size: int, *, mutating: bool) -> Answer:
    """Read and check the answer to a review. Raises WebhookFailed with the API server's text.

    `size` is noted in the answer.
    """
    review = _decode(version, body)
    response = _field(review, "", "response", dict, None)
    if response is None:
        raise _invalid("webhook response was absent")
    patch, patch_type = _patch_of(response), _field(response, "response.", "patchType", str, None)
    if version == "v1":
        _check_identity(review, response, uid)
        _check_patch(patch, patch_type, mutating=mutating)
    annotations = _field(response, "response.", "auditAnnotations", dict, {})
    for key in annotations:
        _field(annotations, "response.auditAnnotations.", key, str, None)
    warnings = _field(response, "response.", "warnings", list, [])
    if not all(isinstance(each, str) for each in warnings):
        raise _undecodable("response.warnings", warnings, str)
    return Answer(
        audit_annotations=annotations,
        allowed=_field(response, "response.", "allowed", bool, False),
        warnings=[each for each in warnings if not _CONTROL.search(each)],
        patch=_decode_patch(patch, patch_type or _PATCH_TYPE) if mutating else [],
        result=_checked_result(_field(response, "response.", "status", dict, None)),
        size=size,
    )


def _decode(version: str, body: bytes) -> JSONObject:
    try:
        check_nesting(body)
        review: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, DecodeError, RequestTooLarge) as error:
        if body.lstrip()[:1] in (b"{", b"["):
            raise _unreadable(f"couldn't get version/kind; json parse error: {error}") from None
        review = ""  # a real API server tries YAML, and text without structure is a string there
    if not is_object(review):
        why = f"json: cannot unmarshal {_json_type(review)} into Go value of type {_GO_META}"
        raise _unreadable(f"couldn't get version/kind; json parse error: {why}")
    _check_kind(review, version)
    return review


def _check_kind(review: JSONObject, version: str) -> None:
    """Reject a document of another kind; one without a kind is checked later, with its uid."""
    api_version, kind = _field(review, "", "apiVersion", str, ""), _field(review, "", "kind", str, "")
    group, _, given = api_version.rpartition("/")
    if not api_version or not kind or (group, given, kind) == (_GROUP, version, "AdmissionReview"):
        return
    known = (group == _GROUP and given in REVIEW_VERSIONS and kind == "AdmissionReview") or kind == "Status"
    if known:
        raise _unreadable(f"converting ({given}.{kind}) to ({version}.AdmissionReview): unknown conversion")
    raise _unreadable(
        f'no kind "{kind}" is registered for version "{api_version}" in scheme "pkg/runtime/scheme.go:111"'
    )


def _patch_of(response: JSONObject) -> bytes:
    text = _field(response, "response.", "patch", str, "")
    try:
        return base64.decode(text)
    except ValueError as error:
        raise _unreadable(str(error)) from None


def _malformed(body: bytes, error: Exception) -> str:
    """Return what is wrong with a document that is not JSON, in Go's words for a common one."""
    text = body.decode("utf-8", "replace").lstrip()
    if text and text[0] not in '{["-0123456789tfn':
        return f"invalid character '{text[0]}' looking for beginning of value"
    return str(error)


def _check_identity(review: JSONObject, response: JSONObject, uid: str) -> None:
    """Check that the answer to a v1 review is one, and that it is the answer to this request."""
    given = _field(response, "response.", "uid", str, "")
    if given != uid:
        raise _invalid(f'expected response.uid="{uid}", got "{given}"')
    api_version, kind = review.get("apiVersion") or "/", review.get("kind") or ""
    if (api_version, kind) != (f"{_GROUP}/v1", "AdmissionReview"):
        got = f"{api_version}, Kind={kind}"
        raise _invalid(f"expected webhook response of {_GROUP}/v1, Kind=AdmissionReview, got {got}")


def _check_patch(patch: bytes, patch_type: str | None, *, mutating: bool) -> None:
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


def _decode_patch(patch: bytes, patch_type: str) -> JSONArray:
    if not patch:
        return []
    try:
        check_nesting(patch)
        operations: Any = msgspec.json.decode(patch)
    except (msgspec.DecodeError, DecodeError, RequestTooLarge) as error:
        why = _malformed(patch, error)
        raise WebhookFailed(f"received undecodable patch in webhook response: {why}") from None
    if not is_array(operations) or not all(map(is_object, operations)):
        why = f"json: cannot unmarshal {_json_type(operations)} into Go value of type jsonpatch.Patch"
        raise WebhookFailed(f"received undecodable patch in webhook response: {why}")
    if operations and patch_type != _PATCH_TYPE:
        raise WebhookFailed(f'unsupported patch type "{patch_type}"')
    return operations


def _checked_result(result: JSONObject | None) -> JSONObject | None:
    """Return a Status whose fields have the right types."""
    if result is None:
        return None
    path = "response.status."
    for field, wanted in _STATUS_FIELDS.items():
        _check_range(f"{path}{field}", _field(result, path, field, wanted, None))
    details = _field(result, path, "details", dict, {})
    for field, wanted in _DETAIL_FIELDS.items():
        _check_range(f"{path}details.{field}", _field(details, f"{path}details.", field, wanted, None))
    causes = details.get("causes") or []
    for cause in causes:
        if not is_object(cause):
            raise _undecodable(f"{path}details.causes", cause, dict)
        for field in ("reason", "message", "field"):
            _field(cause, f"{path}details.causes.", field, str, None)
    del causes[_MOST_CAUSES:]
    return result


_STATUS_FIELDS: Final[Mapping[str, type]] = {
    "metadata": dict,
    "code": int,
    "reason": str,
    "message": str,
    "status": str,
}
_DETAIL_FIELDS: Final[Mapping[str, type]] = {
    "name": str, "group": str, "kind": str, "uid": str, "causes": list, "retryAfterSeconds": int,
}  # fmt: skip
_JSON_TYPES: Final[Mapping[type, str]] = {
    bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object",
}  # fmt: skip
_GO_TYPES: Final[Mapping[type, str]] = {
    bool: "bool", int: "int32", str: "string", list: "[]string", dict: "v1.AdmissionResponse",
}  # fmt: skip


def _field(obj: JSONObject, path: str, name: str, wanted: type, default: Any) -> Any:
    """Return the field `name` of the object at `path`. Raises WebhookFailed if it has another type."""
    value = obj.get(name)
    if value is None:
        return default
    if value.__class__ is not wanted:
        raise _undecodable(f"{path}{name}", value, wanted)
    return value


def _check_range(path: str, value: object) -> None:
    if isinstance(value, int) and not -(2**31) <= value < 2**31:
        raise _unreadable(f"json: cannot unmarshal number {value} into Go struct field Status.{path} of type int32")


def _json_type(value: object) -> str:
    return _JSON_TYPES.get(value.__class__, "value")


def _undecodable(path: str, value: object, wanted: type) -> WebhookFailed:
    struct = "AdmissionResponse" if "." in path else "AdmissionReview"
    return _unreadable(
        f"json: cannot unmarshal {_json_type(value)} into Go struct field {struct}.{path} of type {_GO_TYPES[wanted]}"
    )


def _unreadable(why: str) -> WebhookFailed:
    return WebhookFailed(f"failed to call webhook: {why}")


def _invalid(why: str) -> WebhookFailed:
    return WebhookFailed(f"received invalid webhook response: {why}")
