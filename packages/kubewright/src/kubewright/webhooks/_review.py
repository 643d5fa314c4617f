"""AdmissionReviews on the wire: what an API server asks a webhook, and what the webhook answers.

An object of a request stays encoded until something reads it. `v1` and `v1beta1` have the same fields.

Source: k8s.io/api/admission/v1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from kubewright.machinery.errors import BadRequest, Status
from kubewright.machinery.gvk import GroupVersionKind, GroupVersionResource
from kubewright.machinery.json import JSONObject

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
"""What a request does to an object. `CONNECT` is for subresources such as `pods/exec`."""

_GROUP: Final = "admission.k8s.io/"
_VERSIONS: Final = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
_ABSENT: Final = (b"", b"null")


class User(msgspec.Struct, frozen=True, gc=False):
    """The user whose request is reviewed, as the API server authenticated them (authentication/v1 UserInfo)."""

    name: str = msgspec.field(default="", name="username")
    """`system:serviceaccount:shop:operator`, or the name in a client certificate."""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}
    """What an authenticator adds."""


class AdmissionRequest(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The request of an AdmissionReview. Its objects are encoded JSON, `null` or empty if there is none."""

    uid: str
    """Of this review, not of the object."""
    kind: GroupVersionKind
    """Of the object, in the version that the webhook is registered for. A subresource may have a kind of its own."""
    resource: GroupVersionResource
    """Where the object is served."""
    sub_resource: str = ""
    request_kind: GroupVersionKind | None = None
    """The kind in the version that the user sent, which differs from `kind` with the match policy Equivalent."""
    request_resource: GroupVersionResource | None = None
    request_sub_resource: str = ""
    name: str = ""
    """Empty on a create with `generateName`."""
    namespace: str = ""
    """Empty for cluster-scoped kinds."""
    operation: Operation
    user_info: User = User()
    object: msgspec.Raw = msgspec.Raw()
    """Absent on a delete."""
    old_object: msgspec.Raw = msgspec.Raw()
    """On an update and a delete."""
    dry_run: bool | None = None
    options: msgspec.Raw = msgspec.Raw()
    """CreateOptions, UpdateOptions, PatchOptions or DeleteOptions."""


class AdmissionResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a raw webhook."""

    allowed: bool = True
    status: Status | None = None
    """Why the request is denied. `APIError.status` is one."""
    patch: Sequence[JSONObject] = ()
    """The operations of a JSON patch of the object (RFC 6902), for a mutating webhook that allows the request."""
    warnings: Sequence[str] = ()
    """Shown to the user; kubectl prints them."""
    audit_annotations: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """Written to the audit log, under the webhook's name."""


class Review(Protocol):
    """A decoded AdmissionReview or ConversionReview."""

    api_version: str
    kind: str


R = TypeVar("R", bound=Review)


class _Review(msgspec.Struct, rename="camel"):
    request: AdmissionRequest
    api_version: str = _VERSIONS[0]
    kind: str = "AdmissionReview"


class _Response(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    uid: str
    allowed: bool
    status: JSONObject | None = None
    patch: bytes | None = None
    patch_type: str | None = None
    warnings: Sequence[str] = ()
    audit_annotations: Mapping[str, str] | None = None


class _Answer(msgspec.Struct, rename="camel", gc=False):
    kind: str
    api_version: str
    response: _Response


_decode: Final = msgspec.json.Decoder(_Review).decode
_encode: Final = msgspec.json.Encoder().encode


def read(body: bytes) -> tuple[str, AdmissionRequest]:
    """Return the apiVersion and the request of a review. Raises BadRequest, which says why it cannot be read."""
    review = read_review(_decode, body, "AdmissionReview", _VERSIONS)
    return review.api_version, review.request


def read_review(decode: Callable[[bytes], R], body: bytes, kind: str, versions: Sequence[str]) -> R:
    """Return a review of that kind in one of the versions. Raises BadRequest, which says why it cannot be read."""
    try:
        review = decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"the body is not an object of kind {kind} of {' or '.join(versions)}: {error}") from error
    except RecursionError:
        raise BadRequest(f"the {kind} is nested too deeply") from None
    if review.kind != kind or review.api_version not in versions:
        expected = f"{kind} of {' or '.join(versions)}"
        raise BadRequest(f"the body is of kind {review.kind!r} of {review.api_version!r}; expected: {expected}")
    return review


def write(version: str, uid: str, answer: AdmissionResponse) -> bytes:
    """Encode the answer to the request `uid` of a review of that apiVersion."""
    response = _Response(uid, answer.allowed)
    if answer.status is not None:
        response.status = _status(answer.status)
    if answer.patch:
        response.patch, response.patch_type = _encode(answer.patch), "JSONPatch"
    if answer.warnings:
        response.warnings = answer.warnings
    if answer.audit_annotations:
        response.audit_annotations = answer.audit_annotations
    return _encode(_Answer("AdmissionReview", version, response))


def denial(status: Status) -> AdmissionResponse:
    """Return the answer that denies a request with `status`."""
    return AdmissionResponse(allowed=False, status=status)


def present(raw: msgspec.Raw) -> bytes | None:
    """Return the bytes of an object of a request; None if there is none."""
    data = bytes(raw)
    return None if data in _ABSENT else data


def _status(status: Status) -> JSONObject:
    document: dict[str, Any] = status.to_dict()
    del document["kind"], document["apiVersion"]
    return document
