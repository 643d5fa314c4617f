"""An extension server for the cases: an HTTPS server on this machine, behind a Service of type ExternalName."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Final

from conformance.rawapi import API, until
from kubewright.http.message import Request, Response, Tunnel
from kubewright.http.server import Server
from kubewright_controlplane.apiserver.pki import CertificateAuthority, load_pair

API_SERVICES: Final = "/apis/apiregistration.k8s.io/v1/apiservices"
_JSON: Final = {"content-type": "application/json"}


def api_service(group: str, service: dict[str, Any] | None, **spec: Any) -> dict[str, Any]:
    given = {"group": group, "version": "v1", "groupPriorityMinimum": 2000, "versionPriority": 10, **spec}
    if service is not None:
        given["service"] = service
    return {"metadata": {"name": f"v1.{group}"}, "spec": given}


@dataclass
class Extension:
    """A server of the resource `echoes` in a group of its own. `GET` of an echo answers with what has arrived."""

    api: API
    namespace: str
    group: str = field(default_factory=lambda: f"g{secrets.token_hex(4)}.example.com")
    authority: CertificateAuthority = field(default_factory=CertificateAuthority.create)
    status: int = 200
    """The status of the discovery document."""
    stalled: bool = False
    """Whether no request is answered."""
    released: asyncio.Event = field(default_factory=asyncio.Event)
    """Lets streams and stalled requests continue."""

    async def start(self) -> None:
        """Listen. Client certificates are verified as `kube-system/extension-apiserver-authentication` says."""
        path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
        published = (await self.api.get(path)).expect(200).json["data"]
        self._server = Server(self._handle, ssl=self._tls(published["requestheader-client-ca-file"]))
        await self._server.start()

    async def register(self) -> None:
        """Create the Service and the APIService."""
        services = f"/api/v1/namespaces/{self.namespace}/services"
        spec = {"type": "ExternalName", "externalName": "localhost"}
        (await self.api.post(services, {"metadata": {"name": "extension"}, "spec": spec})).expect(201)
        reference = {"namespace": self.namespace, "name": "extension", "port": self._server.port}
        ca = base64.b64encode(self.authority.certificate).decode()
        (await self.api.post(API_SERVICES, api_service(self.group, reference, caBundle=ca))).expect(201)

    @property
    def path(self) -> str:
        return f"/apis/{self.group}/v1"

    async def condition(self, status: str) -> dict[str, Any]:
        """Return the condition Available once it has the status."""

        async def found() -> dict[str, Any] | None:
            obj = (await self.api.get(f"{API_SERVICES}/v1.{self.group}")).json
            conditions = obj["status"].get("conditions", [])
            return next((each for each in conditions if each["status"] == status), None)

        return await until(found)

    async def available(self) -> None:
        """Wait until requests arrive."""
        await self.condition("True")

        async def is_served() -> bool:
            return bool((await self.api.get(f"{self.path}/echoes")).status == 200)

        await until(is_served)

    async def stop(self) -> None:
        """Stop listening."""
        await self._server.close()

    async def close(self) -> None:
        self.released.set()
        await self.api.delete(f"{API_SERVICES}/v1.{self.group}")
        await self._server.close()

    def _tls(self, client_ca: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        load_pair(context, self.authority.issue_server([f"extension.{self.namespace}.svc"]))
        context.load_verify_locations(cadata=client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
        return context

    async def _handle(self, request: Request) -> Response:
        if self.stalled:
            await self.released.wait()
        if request.upgrade:
            return Response(101, {"upgrade": request.upgrade}, tunnel=_echo)
        if request.path == self.path:
            return Response(self.status, dict(_JSON), json.dumps(self._resources()).encode())
        if request.path == "/openapi/v3":
            url = f"/openapi/v3{self.path}?hash=ABC"
            return Response(
                200, dict(_JSON), json.dumps({"paths": {self.path[1:]: {"serverRelativeURL": url}}}).encode()
            )
        if request.path == f"/openapi/v3{self.path}":
            return Response(200, dict(_JSON), b'{"openapi":"3.0.0"}')
        if request.path == "/openapi/v2":
            return Response(200, dict(_JSON), json.dumps(self._swagger()).encode())
        if not request.path.startswith(f"{self.path}/"):
            return Response(404, {"content-type": "text/plain"}, b"404 page not found\n")
        if "watch=" in request.query:
            return Response(200, dict(_JSON), self._events())
        return self._echoed(request)

    def _resources(self) -> dict[str, Any]:
        echoes = {
            "name": "echoes",
            "singularName": "echo",
            "namespaced": True,
            "kind": "Echo",
            "verbs": ["get", "list", "watch"],
            "shortNames": ["ec"],
        }
        below = {"name": "echoes/status", "singularName": "", "namespaced": True, "kind": "Echo", "verbs": ["get"]}
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{self.group}/v1",
            "resources": [echoes, below],
        }

    def _swagger(self) -> dict[str, Any]:
        reference = {"$ref": "#/definitions/com.example.Echo"}
        operation = {"operationId": "listEchoes", "responses": {"200": {"description": "OK", "schema": reference}}}
        return {
            "swagger": "2.0",
            "info": {"title": "Echoes", "version": "v1"},
            "paths": {f"{self.path}/echoes": {"get": operation}, "/version/": {"get": operation}},
            "definitions": {"com.example.Echo": {"type": "object", "description": "An echo."}},
        }

    def _echoed(self, request: Request) -> Response:
        peer = request.peer
        document = {
            "kind": "Echo",
            "apiVersion": f"{self.group}/v1",
            "method": request.method,
            "target": request.target,
            "headers": request.headers,
            "body": request.body.decode(),
            "client": peer.common_name if peer else "",
        }
        status = 418 if request.method == "POST" else 200
        return Response(status, {**_JSON, "x-echo": "yes"}, json.dumps(document).encode())

    async def _events(self) -> AsyncIterator[bytes]:
        yield b'{"type":"ADDED"}\n'
        await self.released.wait()
        yield b'{"type":"MODIFIED"}\n'


async def _echo(tunnel: Tunnel) -> None:
    while True:
        await tunnel.write(b"<" + await tunnel.read() + b">")
