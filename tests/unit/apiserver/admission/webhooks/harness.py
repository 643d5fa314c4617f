"""Webhooks that answer reviews, and their configurations."""

from __future__ import annotations

import base64
import json
from typing import Any

from kubewright.http.message import Handler, Request, Response
from unit.apiserver.harness import API, CONFIG_MAPS

GROUP = "/apis/admissionregistration.k8s.io/v1"
Webhooks = dict[str, Handler]


def answering(response: dict[str, Any]) -> Handler:
    async def handle(request: Request) -> Response:
        return review_answer(request, response)

    return handle


def review_answer(request: Request, response: dict[str, Any]) -> Response:
    review = json.loads(request.body)
    answer = {
        "kind": "AdmissionReview",
        "apiVersion": review["apiVersion"],
        "response": {"uid": review["request"]["uid"], **response},
    }
    return Response(200, {"content-type": "application/json"}, json.dumps(answer).encode())


ALLOW = answering({"allowed": True})


def patch(*operations: dict[str, Any]) -> dict[str, Any]:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


async def configure(api: API, kind: str = "validating", name: str = "c", **webhook: Any) -> None:
    rules = [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]
    entry = {
        "name": "hook.example.com",
        "clientConfig": {"url": "https://hooks.test/x"},
        "rules": rules,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **webhook,
    }
    await api.ok("POST", f"{GROUP}/{kind}webhookconfigurations", {"metadata": {"name": name}, "webhooks": [entry]})


async def failure(api: API, name: str = "a") -> str:
    status = await api.rejected(500, "POST", CONFIG_MAPS, {"metadata": {"name": name}})
    text: str = status["message"]
    return text.removeprefix(
        'Internal error occurred: failed calling webhook "hook.example.com": failed to call webhook: '
    )
