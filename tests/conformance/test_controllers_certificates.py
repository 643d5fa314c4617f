"""Approval and signing of CertificateSigningRequests."""

from __future__ import annotations

import base64
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from conformance.rawapi import API, until

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING = "kubernetes.io/kubelet-serving"


class Requests:
    """Requests of one test."""

    def __init__(self, api: API) -> None:
        self.api = api
        self.names: list[str] = []

    async def create(self, signer: str, user: str, *usages: str, team: str = "team", dns: str = "", **spec: Any) -> str:
        subject = [(NameOID.ORGANIZATION_NAME, team), (NameOID.COMMON_NAME, user)]
        names = x509.Name([x509.NameAttribute(oid, text) for oid, text in subject])
        builder = x509.CertificateSigningRequestBuilder(subject_name=names)
        if dns:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(dns)]), critical=False)
        signed = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
        encoded = base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()
        name = f"csr-{secrets.token_hex(4)}"
        body = {"signerName": signer, "usages": list(usages), "request": encoded, **spec}
        (await self.api.post(REQUESTS, {"metadata": {"name": name}, "spec": body})).expect(201)
        self.names.append(name)
        return name

    async def approve(self, name: str) -> None:
        approved = {"type": "Approved", "status": "True", "reason": "Test", "message": "fine"}
        status = {"status": {"conditions": [approved]}}
        (await self.api.patch(f"{REQUESTS}/{name}/approval", status)).expect(200)

    async def certificate(self, name: str) -> x509.Certificate:
        async def issued() -> str | None:
            found = (await self.api.get(f"{REQUESTS}/{name}")).expect(200).json
            text: str | None = found["status"].get("certificate")
            return text

        return x509.load_pem_x509_certificate(base64.b64decode(await until(issued)))

    async def condition(self, name: str, kind: str) -> dict[str, Any]:
        async def check() -> dict[str, Any] | None:
            found = (await self.api.get(f"{REQUESTS}/{name}")).expect(200).json["status"].get("conditions", [])
            return next((each for each in found if each["type"] == kind), None)

        condition: dict[str, Any] = await until(check)
        return condition


@pytest_asyncio.fixture
async def requests(api: API) -> AsyncIterator[Requests]:
    requests = Requests(api)
    yield requests
    for name in requests.names:
        await api.delete(f"{REQUESTS}/{name}")


async def test_an_approved_client_certificate_is_signed(requests: Requests) -> None:
    usages = ("digital signature", "key encipherment", "client auth")
    name = await requests.create(CLIENT, "anna", *usages, dns="anna.example.com", expirationSeconds=3600)
    await requests.approve(name)
    certificate = await requests.certificate(name)
    now = datetime.now(UTC)
    assert certificate.subject.rfc4514_string() == "CN=anna,O=team"
    assert timedelta(minutes=50) < certificate.not_valid_after_utc - now <= timedelta(minutes=60)
    assert timedelta(minutes=4) < now - certificate.not_valid_before_utc < timedelta(minutes=10)
    extensions = {each.oid: each for each in certificate.extensions}
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical
    assert (usage.value.digital_signature, usage.value.key_encipherment, usage.value.key_cert_sign) == (
        True,
        True,
        False,
    )
    purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca) == (True, False)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["anna.example.com"]
    assert len(extensions) == 5


async def test_requests_that_break_the_rules_of_their_signer_fail(requests: Requests) -> None:
    wrong = await requests.create(CLIENT, "anna", "server auth")
    nameless = await requests.create(SERVING, "system:node:n", "digital signature", "server auth", team="system:nodes")
    wrong_usages = await requests.create(SERVING, "system:node:n", "server auth", team="system:nodes", dns="n")
    other = await requests.create("example.com/signer", "anna", "client auth")
    for name in (wrong, nameless, wrong_usages, other):
        await requests.approve(name)
    for name, message in (
        (wrong, "invalid usage for client certificate: server auth"),
        (nameless, "DNS or IP subjectAltName is required"),
        (wrong_usages, "usages did not match [digital signature key encipherment server auth]"),
    ):
        failed = await requests.condition(name, "Failed")
        assert (failed["status"], failed["reason"], failed["message"]) == ("True", "SignerValidationFailure", message)
    left = (await requests.api.get(f"{REQUESTS}/{other}")).json["status"]
    assert [each["type"] for each in left["conditions"]] == ["Approved"]


async def test_kubelets_get_client_certificates(requests: Requests) -> None:
    usages = ("digital signature", "client auth")
    name = await requests.create(KUBELET, "system:node:new", *usages, team="system:nodes")
    approved = await requests.condition(name, "Approved")
    message = "Auto approving kubelet client certificate after SubjectAccessReview."
    assert (approved["reason"], approved["message"]) == ("AutoApproved", message)
    certificate = await requests.certificate(name)
    assert certificate.subject.rfc4514_string() == "CN=system:node:new,O=system:nodes"
    lifetime = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert timedelta(days=364) < lifetime <= timedelta(days=365)
