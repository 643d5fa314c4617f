"""Tokens of ServiceAccounts that are kept in Secrets."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

from conformance.rawapi import API, until

ACCOUNT = "kubernetes.io/service-account.name"
UID = "kubernetes.io/service-account.uid"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


def secret(name: str, account: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "annotations": {ACCOUNT: account}},
        "type": "kubernetes.io/service-account-token",
    }


async def test_a_secret_gets_the_token_of_its_service_account(api: API, ns: str) -> None:
    account = (await api.post(f"{ns}/serviceaccounts", {"metadata": {"name": "robot"}})).expect(201).json
    (await api.post(f"{ns}/secrets", secret("robot-token", "robot"))).expect(201)

    async def completed() -> dict[str, Any] | None:
        found: dict[str, Any] = (await api.get(f"{ns}/secrets/robot-token")).expect(200).json
        return found if found.get("data", {}).get("token") else None

    found = await until(completed)
    namespace, uid = account["metadata"]["namespace"], account["metadata"]["uid"]
    assert found["metadata"]["annotations"] == {ACCOUNT: "robot", UID: uid}
    data = {key: base64.b64decode(value).decode() for key, value in found["data"].items()}
    assert data["namespace"] == namespace
    assert data["ca.crt"].startswith("-----BEGIN CERTIFICATE-----")
    payload = data["token"].split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert claims == {
        "iss": "kubernetes/serviceaccount",
        "kubernetes.io/serviceaccount/namespace": namespace,
        "kubernetes.io/serviceaccount/secret.name": "robot-token",
        "kubernetes.io/serviceaccount/service-account.name": "robot",
        "kubernetes.io/serviceaccount/service-account.uid": uid,
        "sub": f"system:serviceaccount:{namespace}:robot",
    }

    review = {"spec": {"token": data["token"]}}
    status = (await api.post(REVIEWS, review)).expect(201).json["status"]
    assert status["authenticated"]
    assert status["user"] == {
        "username": f"system:serviceaccount:{namespace}:robot",
        "uid": uid,
        "groups": ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"],
    }
    robot = API(replace(api.config, token=data["token"], client_cert=None, client_key=None))
    assert "cannot list" in (await robot.get(f"{ns}/secrets")).expect(403).message

    (await api.delete(f"{ns}/serviceaccounts/robot")).expect(200)

    async def gone() -> bool:
        return (await api.get(f"{ns}/secrets/robot-token")).status == 404

    await until(gone)

    async def refused() -> bool:  # kube-apiserver remembers valid tokens for ten seconds
        return (await robot.get(f"{ns}/secrets")).status == 401

    await until(refused)
    await robot.close()
    status = (await api.post(REVIEWS, review)).expect(201).json["status"]
    assert "Token has been invalidated" in status["error"]


async def test_a_secret_of_a_missing_service_account_is_deleted(api: API, ns: str) -> None:
    (await api.post(f"{ns}/secrets", secret("stray", "nobody"))).expect(201)

    async def gone() -> bool:
        return (await api.get(f"{ns}/secrets/stray")).status == 404

    await until(gone)
