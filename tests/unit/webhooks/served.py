"""Webhooks behind their HTTP handler, and the AdmissionReviews that an API server sends."""

# ruff: noqa: RUF012 - models copy the lists that are their defaults

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from kubewright import CustomResource, Model
from kubewright.http.message import Request, Response
from kubewright.machinery.patch import json_patch
from kubewright.manager._metrics import Metrics
from kubewright.webhooks import Webhook
from kubewright.webhooks._serving import WebhookHandler, WebhookRuntime

GVK = {"group": "my.domain", "version": "v1", "kind": "WebServer"}


class WebServerSpec(Model):
    replicas: int = 1
    image: str | None = None
    ports: list[int] = []
    labels: dict[str, str] = {}


class WebServer(CustomResource, group="my.domain", version="v1"):
    spec: WebServerSpec


def webserver(**spec: object) -> dict[str, Any]:
    """Return a WebServer as a user sends it."""
    return {
        "apiVersion": "my.domain/v1",
        "kind": "WebServer",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": spec,
    }


def asked(obj: object = None, old: object = None, **changes: object) -> dict[str, Any]:
    """Return the request of an AdmissionReview: a create, unless there is an old object, or `changes` say otherwise."""
    return {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": GVK,
        "resource": {"group": "my.domain", "version": "v1", "resource": "webservers"},
        "requestKind": GVK,
        "name": "web",
        "namespace": "shop",
        "operation": "CREATE" if old is None else "UPDATE",
        "userInfo": {"username": "ann", "uid": "7", "groups": ["admins"], "extra": {"scopes": ["all"]}},
        "object": obj,
        "oldObject": old,
        "dryRun": False,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions", "fieldManager": "kubectl"},
        **changes,
    }


class Served:
    """Webhooks behind a handler, ready to review."""

    def __init__(self, *webhooks: Webhook, opened: bool = True) -> None:
        self.runtime = WebhookRuntime()
        if opened:
            self.runtime.open.set()
        self.metrics = Metrics("test")
        self.webhooks = webhooks
        self._handler = WebhookHandler(webhooks, self.runtime, observer=self.metrics.webhook)

    async def post(
        self, body: bytes, path: str = "", *, content_type: str = "application/json", method: str = "POST"
    ) -> Response:
        """Send any body, by default to the first webhook."""
        path = path or getattr(self.webhooks[0], "path", "/convert")
        return await self._handler.handle(Request(method, path, {"content-type": content_type}, body))

    async def review(self, request: dict[str, Any], *, version: str = "v1", query: str = "") -> dict[str, Any]:
        """Send a review, and return the response in the answer."""
        sent = {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}", "request": request}
        path = getattr(self.webhooks[0], "path", "")
        answer = await self.post(json.dumps(sent).encode(), path + query)
        assert answer.status == 200, answer.body
        assert isinstance(answer.body, bytes)
        review = json.loads(answer.body)
        assert review["apiVersion"] == sent["apiVersion"]
        response: dict[str, Any] = review["response"]
        assert response["uid"] == request["uid"]
        return response

    async def patched(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Return an object as the patch of the first webhook makes it."""
        return json_patch(obj, operations(await self.review(asked(obj))))


def operations(response: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the operations of the patch in a response."""
    if "patch" not in response:
        assert "patchType" not in response
        return []
    assert response["patchType"] == "JSONPatch"
    found: list[dict[str, Any]] = json.loads(base64.b64decode(response["patch"]))
    return found


Change = Callable[[Any], object]
