"""Admission webhooks for the cases: an HTTPS server on this machine, and configurations that call it."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from conformance.rawapi import API, Answer, until
from kubewright.http.message import Request, Response
from kubewright.http.server import Server
from kubewright_controlplane.apiserver.pki import CertificateAuthority

Object: TypeAlias = dict[str, Any]
Reply: TypeAlias = Object | bytes | Response
"""The `response` of an AdmissionReview without its uid, a whole body, or a whole HTTP response."""

GROUP = "/apis/admissionregistration.k8s.io/v1"
ALLOWED: Object = {"allowed": True}


def patched(*operations: Object) -> Object:
    """Return the response of a webhook that changes the object."""
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": patch}


def rule(*resources: str, group: str = "", operations: tuple[str, ...] = ("*",), version: str = "*") -> Object:
    return {
        "operations": list(operations),
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": list(resources),
    }


@dataclass
class Call:
    """One call of a webhook."""

    path: str
    query: str
    review: Object

    @property
    def request(self) -> Object:
        request: Object = self.review["request"]
        return request


class Together:
    """Calls of a webhook that wait for each other."""

    def __init__(self, count: int) -> None:
        self._missing = count
        self._complete = asyncio.Event()

    async def wait(self) -> None:
        """Wait until all calls wait, or a request is answered, because its webhook was not called."""
        self._missing -= 1
        if self._missing <= 0:
            self._complete.set()
        await self._complete.wait()

    async def of(self, request: Awaitable[Answer]) -> Answer:
        """Return the answer to one of the requests."""
        answer = await request
        self._complete.set()
        return answer


@dataclass
class Hooks:
    """A server of webhooks. `on` sets what a path answers; without that, it allows everything."""

    api: API
    namespace: str
    authority: CertificateAuthority = field(default_factory=CertificateAuthority.create)
    calls: list[Call] = field(default_factory=list[Call])

    def __post_init__(self) -> None:
        self._replies: dict[str, Callable[[Object], Reply]] = {}
        self._actions: dict[str, list[Callable[[], Awaitable[None]]]] = {}
        self._configurations: list[str] = []
        self.certificate = self.authority.issue_server(["127.0.0.1", "hooks.example.svc"])
        self._server = Server(self._handle, ssl=self._tls())

    async def start(self) -> None:
        await self._server.start()

    async def close(self) -> None:
        for path in self._configurations:
            await self.api.delete(path)
        await self._server.close()

    def on(self, path: str, reply: Reply | Callable[[Object], Reply]) -> None:
        """Set the answer of a path, or the function from the request of a review to its answer."""
        self._replies[path] = reply if callable(reply) else lambda _: reply

    @asynccontextmanager
    async def before_answer(
        self, path: str, action: Callable[[], Awaitable[None]], *, times: int
    ) -> AsyncIterator[None]:
        """Run `action` before the next answers of a path."""
        self._actions[path] = [action] * times
        yield
        self._actions.pop(path, None)

    @asynccontextmanager
    async def answering_together(self, path: str, count: int) -> AsyncIterator[Together]:
        """Let that many calls of a path wait for each other, or for the answer of one of the requests."""
        together = Together(count)
        async with self.before_answer(path, together.wait, times=count + 1):
            yield together

    def called(self, path: str = "") -> list[Object]:
        """Return the requests that a path, or any path, got."""
        return [each.request for each in self.calls if not path or each.path == path]

    def client(self, path: str) -> Object:
        """Return the clientConfig of a webhook on this server."""
        return {
            "url": f"https://127.0.0.1:{self._server.port}{path}",
            "caBundle": base64.b64encode(self.authority.certificate).decode(),
        }

    def webhook(self, path: str, *rules: Object, **more: Any) -> Object:
        """Return an entry of `webhooks` that is called for writes in this namespace."""
        return {
            "name": f"{path.strip('/')}.hooks.example.com",
            "clientConfig": self.client(path),
            "rules": list(rules),
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 5,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}},
            **more,
        }

    async def validate(self, *webhooks: Object, name: str = "v") -> None:
        await self._configure("Validating", name, webhooks)

    async def mutate(self, *webhooks: Object, name: str = "m") -> None:
        await self._configure("Mutating", name, webhooks)

    async def _configure(self, kind: str, name: str, webhooks: tuple[Object, ...]) -> None:
        """Create a configuration, and wait until the server uses it."""
        probe = secrets.token_hex(4)
        self.on("/probe", {"allowed": False})
        last = self.webhook(
            "/probe",
            rule("configmaps"),
            name=f"probe-{probe}.hooks.example.com",
            objectSelector={"matchLabels": {"probe": probe}},
        )
        configuration = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind}WebhookConfiguration",
            "metadata": {"name": f"{name}-{self.namespace}"},
            "webhooks": [*webhooks, last],
        }
        path = f"{GROUP}/{kind.lower()}webhookconfigurations"
        (await self.api.post(path, configuration)).expect(201)
        self._configurations.append(f"{path}/{name}-{self.namespace}")
        body = {"metadata": {"name": "probe", "labels": {"probe": probe}}}

        async def is_used() -> bool:
            target = f"/api/v1/namespaces/{self.namespace}/configmaps?dryRun=All"
            answer = await self.api.post(target, body)
            return f"probe-{probe}" in answer.message if answer.status >= 400 else False

        await until(is_used)
        self.calls.clear()

    async def _handle(self, request: Request) -> Response:
        review = json.loads(request.body)
        is_probe = "probe" in ((review["request"].get("object") or {}).get("metadata") or {}).get("labels", {})
        if is_probe and request.path != "/probe":
            return self._response(review, ALLOWED)
        if not is_probe:
            self.calls.append(Call(request.path, request.query, review))
        if waiting := self._actions.get(request.path):
            await waiting.pop()()
        reply = self._replies.get(request.path, lambda _: ALLOWED)(review["request"])
        if isinstance(reply, Response):
            return reply
        if isinstance(reply, bytes):
            return Response(200, {"content-type": "application/json"}, reply)
        return self._response(review, reply)

    def _response(self, review: Object, reply: Object) -> Response:
        answer = {**review, "response": {"uid": review["request"]["uid"], **reply}}
        del answer["request"]
        return Response(200, {"content-type": "application/json"}, json.dumps(answer).encode())

    def _tls(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "server.pem")
            file.write_bytes(self.certificate.key + self.certificate.certificate)
            context.load_cert_chain(file)
        return context


def config_map(name: str = "a", labels: dict[str, str] | None = None, **data: str) -> Object:
    metadata: Object = {"name": name}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def cause(answer: Answer) -> str:
    """Return what comes after `failed calling webhook "...":` in an error."""
    return answer.message.partition('": ')[2]


def add(path: str, value: Any) -> Object:
    return {"op": "add", "path": path, "value": value}


def deployment(name: str) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
