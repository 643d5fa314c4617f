"""CertificateSigningRequests: approving and signing need permission for the signer."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from conformance.rawapi import API, until

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def request(name: str, signer: str, organization: str = "team") -> dict[str, Any]:
    names = [x509.NameAttribute(NameOID.COMMON_NAME, name), x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)]
    builder = x509.CertificateSigningRequestBuilder(subject_name=x509.Name(names))
    signed = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    encoded = base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()
    return {"metadata": {"name": name}, "spec": {"signerName": signer, "usages": ["client auth"], "request": encoded}}


async def allow(api: API, user: str, *rules: dict[str, Any]) -> None:
    """Give a user cluster-wide permissions, and wait until they are in effect."""
    (await api.post(f"{RBAC}/clusterroles", {"metadata": {"name": user}, "rules": list(rules)})).expect(201)
    subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    ref = {"kind": "ClusterRole", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": user}, "subjects": [subject], "roleRef": ref}
    (await api.post(f"{RBAC}/clusterrolebindings", binding)).expect(201)

    async def is_allowed() -> bool:
        return (await api.get(REQUESTS, impersonate_user=user)).status == 200

    await until(is_allowed)


async def cleaned(api: API, *names: str) -> None:
    for name in names:
        for path in (REQUESTS, f"{RBAC}/clusterroles", f"{RBAC}/clusterrolebindings"):
            await api.delete(f"{path}/{name}")


@pytest.mark.parametrize(
    ("verb", "subresource", "status"),
    [
        (
            "approve",
            "approval",
            {"conditions": [{"type": "Approved", "status": "True", "reason": "Fine", "message": "fine"}]},
        ),
        (
            "sign",
            "status",
            {"conditions": [{"type": "Failed", "status": "True", "reason": "No", "message": "no"}]},
        ),
    ],
)
async def test_a_decision_needs_permission_for_the_signer(
    api: API, ns: str, verb: str, subresource: str, status: dict[str, Any]
) -> None:
    name = ns.rpartition("/")[2]
    strangers, owners, domains = f"{name}-stranger", f"{name}-owner", f"{name}-domain"
    group = {"apiGroups": ["certificates.k8s.io"]}
    decide = group | {
        "resources": ["certificatesigningrequests", f"certificatesigningrequests/{subresource}"],
        "verbs": ["get", "list", "update"],
    }
    signer = group | {"resources": ["signers"], "verbs": [verb]}
    try:
        await allow(api, strangers, decide, signer | {"resourceNames": ["example.com/other"]})
        await allow(api, owners, decide, signer | {"resourceNames": [f"example.com/{name}"]})
        await allow(api, domains, decide, signer | {"resourceNames": ["example.com/*"]})
        made = (await api.post(REQUESTS, request(name, f"example.com/{name}"))).expect(201).json
        path = f"{REQUESTS}/{name}/{subresource}"
        answer = (await api.put(path, made | {"status": status}, impersonate_user=strangers)).expect(403)
        assert answer.message == (
            f'certificatesigningrequests.certificates.k8s.io "{name}" is forbidden: '
            f'user not permitted to {verb} requests with signerName "example.com/{name}"'
        )
        made = (await api.put(path, made | {"status": status}, impersonate_user=owners)).expect(200).json
        assert [each["status"] for each in made["status"]["conditions"]] == ["True"]
        again = {**made, "status": {"conditions": [{**made["status"]["conditions"][0], "message": "again"}]}}
        (await api.put(path, again, impersonate_user=domains)).expect(200)
    finally:
        await cleaned(api, name, strangers, owners, domains)


async def test_a_client_certificate_cannot_make_an_administrator(api: API, ns: str) -> None:
    name = ns.rpartition("/")[2]
    try:
        wanted = request(name, "kubernetes.io/kube-apiserver-client", "system:masters")
        answer = (await api.post(REQUESTS, wanted)).expect(403)
        assert answer.message == (
            f'certificatesigningrequests.certificates.k8s.io "{name}" is forbidden: use of '
            "kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
        )
        (await api.post(REQUESTS, request(name, "kubernetes.io/kube-apiserver-client"))).expect(201)
    finally:
        await cleaned(api, name)


async def test_patches_of_approval_and_status_change_the_metadata(api: API) -> None:
    name = "patched-request"
    (await api.post(REQUESTS, request(name, "example.com/other"))).expect(201)
    try:
        for subresource in ("approval", "status"):
            body = {"metadata": {"annotations": {subresource: "true"}, "labels": {subresource: "yes"}}}
            found = (await api.patch(f"{REQUESTS}/{name}/{subresource}", body)).expect(200).json
            assert found["metadata"]["annotations"][subresource] == "true"
            assert found["metadata"]["labels"][subresource] == "yes"
    finally:
        await cleaned(api, name)


async def test_signers_and_usages_are_validated(api: API) -> None:
    async def faults(signer: str = "example.com/signer", usages: tuple[str, ...] = ("client auth",)) -> list[str]:
        body = request("faults", signer)
        body["spec"]["usages"] = list(usages)
        answer = await api.post(f"{REQUESTS}?dryRun=All", body)
        return [f"{field}: {message}" for _, field, message in answer.causes] if answer.status == 422 else []

    assert await faults() == []
    legacy = "kubernetes.io/legacy-unknown"
    assert await faults(legacy) == [
        f'spec.signerName: Invalid value: "{legacy}": the legacy signerName is not allowed via this API version'
    ]
    why = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
    assert await faults("example.com/a/b") == [f'spec.signerName: Invalid value: "example.com/a/b": {why}']
    assert await faults("example/a") == [
        'spec.signerName: Invalid value: "example": should be a domain with at least two segments separated by dots'
    ]
    (label,) = await faults("Example.com/a")
    assert label.startswith('spec.signerName: Invalid value: "Example.com": validating label "Example": a lowercase')
    assert await faults(usages=("any", "any")) == ['spec.usages[1]: Duplicate value: "any"']
    (usage,) = await faults(usages=("anything",))
    assert usage.startswith('spec.usages[0]: Unsupported value: "anything": supported values: "any", "cert sign", ')
