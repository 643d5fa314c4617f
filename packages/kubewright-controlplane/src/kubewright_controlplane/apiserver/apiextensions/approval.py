"""Approval of definitions in the groups of the Kubernetes project: `*.k8s.io` and `*.kubernetes.io`.

Such a definition has an annotation with the URL of its approval, or with a reason why it has none. Follows
k8s.io/apiextensions-apiserver pkg/apihelpers and pkg/controller/apiapproval.
"""

from __future__ import annotations

from enum import Enum
from typing import Final
from urllib.parse import urlsplit

from kubewright.machinery.fields import FieldError, invalid, required
from kubewright.machinery.json import JSONObject

CONDITION: Final = "KubernetesAPIApprovalPolicyConformant"

_ANNOTATION: Final = "api-approved.kubernetes.io"
_MORE: Final = "see https://github.com/kubernetes/enhancements/pull/1111"
_PATH: Final = f"metadata.annotations[{_ANNOTATION}]"


class Approval(Enum):
    """What the annotation of a definition says. The value is the reason of the condition."""

    APPROVED = "ApprovedAnnotation"
    BYPASSED = "UnapprovedAnnotation"
    MISSING = "MissingAnnotation"
    INVALID = "InvalidAnnotation"


def is_protected(group: str) -> bool:
    """Return whether definitions in a group need an approval."""
    return f".{group}".endswith((".k8s.io", ".kubernetes.io"))


def approval_of(crd: JSONObject) -> Approval:
    """Return what the annotation of a definition says."""
    text = _annotation(crd)
    if not text:
        return Approval.MISSING
    if text.startswith("unapproved"):
        return Approval.BYPASSED
    return Approval.APPROVED if _is_url(text) else Approval.INVALID


def approval_errors(crd: JSONObject, old: JSONObject | None) -> list[FieldError]:
    """Return the error of a missing or invalid approval. An update may keep what the old definition has."""
    if not is_protected(crd["spec"].get("group") or ""):
        return []
    approval = approval_of(crd)
    if old is not None and approval_of(old) is approval:
        return []
    if approval is Approval.MISSING:
        return [required(_PATH, _message(crd, approval))]
    if approval is Approval.INVALID:
        return [invalid(_PATH, _annotation(crd), _message(crd, approval))]
    return []


def approval_condition(crd: JSONObject) -> JSONObject | None:
    """Return the condition that reports the approval; None if the group needs none."""
    if not is_protected(crd["spec"]["group"]):
        return None
    approval = approval_of(crd)
    return {
        "type": CONDITION,
        "status": "True" if approval is Approval.APPROVED else "False",
        "reason": approval.value,
        "message": _message(crd, approval),
    }


def _message(crd: JSONObject, approval: Approval) -> str:
    match approval:
        case Approval.APPROVED:
            return f"approved in {_annotation(crd)}"
        case Approval.BYPASSED:
            return f'not approved: "{_annotation(crd)}"'
        case Approval.MISSING:
            return f'protected groups must have approval annotation "{_ANNOTATION}", {_MORE}'
        case Approval.INVALID:
            why = 'with either a URL or a reason starting with "unapproved"'
            return f'protected groups must have approval annotation "{_ANNOTATION}" {why}, {_MORE}'


def _annotation(crd: JSONObject) -> str:
    annotations: dict[str, str] = crd["metadata"].get("annotations") or {}
    return annotations.get(_ANNOTATION, "")


def _is_url(text: str) -> bool:
    try:
        url = urlsplit(text)
    except ValueError:
        return False
    return bool(url.scheme and url.netloc)
