"""CertificateApproval, CertificateSigning and CertificateSubjectRestriction: permissions for signers.

Follows k8s.io/kubernetes plugin/pkg/admission/certificates and pkg/certauthorization.
"""

from __future__ import annotations

import base64
from typing import Final

from cryptography.x509 import load_pem_x509_csr
from cryptography.x509.oid import NameOID

from kubewright.machinery.json import JSONObject, quoted
from kubewright_controlplane.apiserver.admission.plugin import Plugin, concerns, rejection
from kubewright_controlplane.apiserver.authorization.attributes import AccessAttributes, Authorizer
from kubewright_controlplane.apiserver.registry.model import Attributes

_REQUESTS: Final = "certificatesigningrequests.certificates.k8s.io"
_CLIENT_SIGNER: Final = "kubernetes.io/kube-apiserver-client"
_ADMINISTRATORS: Final = "system:masters"


class CertificateApproval(Plugin):
    """A user who approves a request must have the verb `approve` for its signer."""

    name = "CertificateApproval"
    only_for = (_REQUESTS,)

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def validate(self, attributes: Attributes) -> None:
        if attributes.subresource == "approval" and attributes.old_object is not None:
            _check(self._authorizer, attributes, "approve", attributes.old_object)


class CertificateSigning(Plugin):
    """A user who sets a certificate or a condition must have the verb `sign` for the signer."""

    name = "CertificateSigning"
    only_for = (_REQUESTS,)

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def validate(self, attributes: Attributes) -> None:
        old, new = attributes.old_object, attributes.object
        if attributes.subresource != "status" or old is None or new is None:
            return
        before, after = old.get("status") or {}, new.get("status") or {}
        if any((before.get(field) or None) != (after.get(field) or None) for field in ("certificate", "conditions")):
            _check(self._authorizer, attributes, "sign", old)


class CertificateSubjectRestriction(Plugin):
    """No certificate of a client makes its owner an administrator by its group."""

    name = "CertificateSubjectRestriction"
    only_for = (_REQUESTS,)

    def validate(self, attributes: Attributes) -> None:
        if not concerns(attributes, _REQUESTS, "CREATE") or attributes.object is None:
            return
        spec = attributes.object["spec"]
        if spec.get("signerName") == _CLIENT_SIGNER and _ADMINISTRATORS in _organizations(attributes, spec):
            why = f"use of {_CLIENT_SIGNER} signer with {_ADMINISTRATORS} group is not allowed"
            raise rejection(attributes, why)


def _check(authorizer: Authorizer, attributes: Attributes, verb: str, request: JSONObject) -> None:
    """Raise Forbidden if the user does not have a verb for the signer of a request, or for all of its domain."""
    signer = request["spec"].get("signerName") or ""
    for name in (signer, f"{signer.partition('/')[0]}/*"):
        access = AccessAttributes(attributes.user, verb, "certificates.k8s.io", "*", "signers", name=name)
        if authorizer.authorize(access).allowed:
            return
    raise rejection(attributes, f"user not permitted to {verb} requests with signerName {quoted(signer)}")


def _organizations(attributes: Attributes, spec: JSONObject) -> list[str]:
    try:
        request = load_pem_x509_csr(base64.b64decode(spec.get("request") or ""))
    except ValueError as error:
        raise rejection(attributes, f"failed to parse CSR: {error}") from error
    return [str(each.value) for each in request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
