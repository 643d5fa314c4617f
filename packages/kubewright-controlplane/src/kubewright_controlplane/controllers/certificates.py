"""The controllers of CertificateSigningRequests: approval for kubelets, signing by the built-in signers, and cleanup.

A kubelet's request for a client certificate is approved if its user may create `certificatesigningrequests/nodeclient`
or `selfnodeclient`. Approved requests are signed by the cluster's CA.

Follows kubernetes/pkg/controller/certificates.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from cryptography import x509
from cryptography.x509.oid import NameOID

from kubewright._runtime.clock import Clock
from kubewright.apis.authorization.v1 import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from kubewright.apis.certificates.v1 import CertificateSigningRequest, CertificateSigningRequestCondition
from kubewright.controllers import Context, Controller, Result, controller, run_blocking

Sign: TypeAlias = Callable[[bytes, Collection[str], timedelta, datetime], bytes]
"""Signs a request in PEM, for usages and a lifetime from a moment on. Returns the certificate in PEM."""

_KUBELET_CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
_KUBELET_SERVING: Final = "kubernetes.io/kubelet-serving"
_CLIENT: Final = "kubernetes.io/kube-apiserver-client"
_LEGACY: Final = "kubernetes.io/legacy-unknown"
_SIGNERS: Final = frozenset([_KUBELET_CLIENT, _KUBELET_SERVING, _CLIENT, _LEGACY])
_LIFETIME: Final = timedelta(days=365)
_SHORTEST: Final = timedelta(minutes=10)
_DECIDED: Final = timedelta(hours=1)
"""How long requests are kept after they were signed, denied or have failed."""
_OPEN: Final = timedelta(hours=24)
"""How long requests are kept that nobody decides or signs."""
_APPROVALS: Final = (
    ("selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."),
    ("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."),
)
_NODE: Final = "system:node:"


class Rejected(Exception):
    """A request does not meet the rules of its signer."""


class CertificateReconciler:
    """Approves, signs and deletes requests."""

    def __init__(self, clock: Clock, sign: Sign | None) -> None:
        """Without `sign`, requests are not signed."""
        self._clock = clock
        self._sign = sign

    async def reconcile(self, ctx: Context[CertificateSigningRequest]) -> Result | None:
        request, now = ctx.object, self._clock.now()
        deadline = _deadline(request)
        if deadline is not None and deadline <= now:
            await ctx.delete(request)
            return None
        decided = {each.type for each in request.status.conditions if each.status == "True"}
        if not decided & {"Approved", "Denied"} and not request.status.certificate:
            await self._approve(ctx)
        elif "Approved" in decided and "Failed" not in decided and not request.status.certificate:
            await self._issue(ctx, now)
        return Result(requeue_after=deadline - now) if deadline is not None else None

    async def _approve(self, ctx: Context[CertificateSigningRequest]) -> None:
        request = ctx.object
        parsed = x509.load_pem_x509_csr(request.spec.request)
        if request.spec.signer_name != _KUBELET_CLIENT or _problem_of_client(parsed, request.spec.usages):
            return
        for subresource, message in _APPROVALS:
            if subresource == "selfnodeclient" and request.spec.username != _common_name(parsed):
                continue
            if await self._may_create(ctx, subresource):
                approved = CertificateSigningRequestCondition(
                    type="Approved", status="True", reason="AutoApproved", message=message
                )
                request.status.conditions = [*request.status.conditions, approved]
                await ctx.client.update(request, subresource="approval")
                return

    async def _may_create(self, ctx: Context[CertificateSigningRequest], subresource: str) -> bool:
        spec = ctx.object.spec
        attributes = ResourceAttributes(
            group="certificates.k8s.io",
            resource="certificatesigningrequests",
            verb="create",
            subresource=subresource,
            version="*",
        )
        review = SubjectAccessReview(
            spec=SubjectAccessReviewSpec(
                user=spec.username,
                uid=spec.uid,
                groups=spec.groups,
                extra=spec.extra,
                resource_attributes=attributes,
            )
        )
        answer = await ctx.client.create(review)
        return answer.status is not None and answer.status.allowed

    async def _issue(self, ctx: Context[CertificateSigningRequest], now: datetime) -> None:
        request = ctx.object
        if request.spec.signer_name not in _SIGNERS or self._sign is None:
            return
        parsed = x509.load_pem_x509_csr(request.spec.request)
        problem = _problem(parsed, request.spec.signer_name, request.spec.usages)
        if problem:
            failed = CertificateSigningRequestCondition(
                type="Failed",
                status="True",
                reason="SignerValidationFailure",
                message=problem,
                last_update_time=now,
            )
            request.status.conditions = [*request.status.conditions, failed]
        else:
            lifetime = _lifetime(request.spec.expiration_seconds)
            request.status.certificate = await run_blocking(
                self._sign, request.spec.request, request.spec.usages, lifetime, now
            )
        await ctx.client.update_status(request)


def _lifetime(seconds: int | None) -> timedelta:
    return _LIFETIME if seconds is None else min(_LIFETIME, max(_SHORTEST, timedelta(seconds=seconds)))


def _deadline(request: CertificateSigningRequest) -> datetime | None:
    """Return when the request is deleted."""
    ends: list[datetime] = []
    created = request.metadata.creation_timestamp
    issued = request.status.certificate
    if not request.status.conditions and created is not None:
        ends.append(created + _OPEN)
    for each in request.status.conditions:
        if each.last_update_time is None:
            continue
        if each.type == "Approved":
            ends.append(each.last_update_time + (_DECIDED if issued else _OPEN))
        elif each.type in ("Denied", "Failed"):
            ends.append(each.last_update_time + _DECIDED)
    if issued and any(each.type == "Approved" for each in request.status.conditions):
        ends.append(x509.load_pem_x509_certificate(issued).not_valid_after_utc)
    return min(ends, default=None)


def _problem(parsed: x509.CertificateSigningRequest, signer: str, usages: Sequence[str]) -> str:
    """Return why a signer rejects a request; empty if it does not."""
    if signer == _KUBELET_CLIENT:
        return _problem_of_client(parsed, usages)
    if signer == _KUBELET_SERVING:
        return _problem_of_serving(parsed, usages)
    if signer == _CLIENT:
        for usage in usages:
            if usage not in ("digital signature", "key encipherment", "client auth"):
                return f"invalid usage for client certificate: {usage}"
        return "" if "client auth" in usages else "missing required usage for client certificate: client auth"
    return ""


def _problem_of_client(parsed: x509.CertificateSigningRequest, usages: Sequence[str]) -> str:
    if _organizations(parsed) != ["system:nodes"]:
        return "subject organization is not system:nodes"
    for kind, name in ((x509.DNSName, "DNS"), (x509.RFC822Name, "Email"), (x509.IPAddress, "IP"), (_URI, "URI")):
        if _has_name(parsed, kind):
            return f"{name} subjectAltNames are not allowed"
    if not _common_name(parsed).startswith(_NODE):
        return "subject common name does not begin with system:node:"
    return _problem_of_usages(usages, "client auth")


def _problem_of_serving(parsed: x509.CertificateSigningRequest, usages: Sequence[str]) -> str:
    if _organizations(parsed) != ["system:nodes"]:
        return "subject organization is not system:nodes"
    if not _has_name(parsed, x509.DNSName) and not _has_name(parsed, x509.IPAddress):
        return "DNS or IP subjectAltName is required"
    for kind, name in ((x509.RFC822Name, "Email"), (_URI, "URI")):
        if _has_name(parsed, kind):
            return f"{name} subjectAltNames are not allowed"
    problem = _problem_of_usages(usages, "server auth")
    if problem:
        return problem
    return "" if _common_name(parsed).startswith(_NODE) else "subject common name does not begin with system:node:"


_URI: Final = x509.UniformResourceIdentifier


def _problem_of_usages(usages: Sequence[str], purpose: str) -> str:
    required = {"digital signature", purpose}
    if set(usages) in (required, required | {"key encipherment"}):
        return ""
    return f"usages did not match [{' '.join(sorted(required | {'key encipherment'}))}]"


def _organizations(parsed: x509.CertificateSigningRequest) -> list[str]:
    return [str(each.value) for each in parsed.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]


def _common_name(parsed: x509.CertificateSigningRequest) -> str:
    return next((str(each.value) for each in parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)), "")


def _has_name(parsed: x509.CertificateSigningRequest, kind: type[x509.GeneralName]) -> bool:
    try:
        names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    return any(isinstance(each, kind) for each in names)


def certificate_controller(clock: Clock, sign: Sign | None) -> Controller[CertificateSigningRequest]:
    """Return the controller `certificatesigningrequest-controller`: approver, signer and cleaner."""
    declare = controller(CertificateSigningRequest, name="certificatesigningrequest-controller", workers=2)
    return declare(CertificateReconciler(clock, sign))
