"""A client of an API server in this process that uses only HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from kubewright.http.message import Request, Response
from kubewright.testing import VirtualClock
from kubewright_controlplane.apiserver.server import APIServer
from kubewright_controlplane.apiserver.user import UserInfo

ADMIN = UserInfo("admin", ("system:masters",))
MERGE = "application/merge-patch+json"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class API:
    """Sends requests to a server, by default as the administrator."""

    def __init__(self, server: APIServer, clock: VirtualClock) -> None:
        self.server = server
        self.clock = clock

    async def __call__(
        self,
        method: str,
        target: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        token: str = "admin",
        **headers: str,
    ) -> Response:
        sent = {"user-agent": "test/1.0", "content-type": content_type, "accept": "application/json"}
        sent |= {"authorization": f"Bearer {token}"} if token else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return await self.server.handle(Request(method, target, sent, data))

    async def ok(self, method: str, target: str, body: object = None, **rest: Any) -> dict[str, Any]:
        """Return the document of an answer, which must be a success."""
        response = await self(method, target, body, **rest)
        document: dict[str, Any] = json.loads(await response.read())
        assert response.status < 300, document
        return document

    async def rejected(self, code: int, method: str, target: str, body: object = None, **rest: Any) -> dict[str, Any]:
        """Return the Status of an answer, which must be an error."""
        response = await self(method, target, body, **rest)
        document: dict[str, Any] = json.loads(await response.read())
        assert response.status == code, document
        return document

    async def config_map(self, name: str, **data: str) -> dict[str, Any]:
        return await self.ok("POST", CONFIG_MAPS, {"metadata": {"name": name}, "data": data})

    async def watch(self, target: str, **headers: str) -> Watcher:
        response = await self("GET", target, **headers)
        assert response.status == 200
        assert not isinstance(response.body, bytes)
        return Watcher(response.body)


class Watcher:
    """The events of a watch, one by one."""

    def __init__(self, body: AsyncIterator[bytes]) -> None:
        self.body = body
        self._lines: list[bytes] = []

    async def next(self) -> tuple[str, dict[str, Any]]:
        while not self._lines:
            chunk = await anext(self.body)
            assert chunk.endswith(b"\n"), "a chunk ends within an event"
            self._lines = chunk.splitlines()
        event = json.loads(self._lines.pop(0))
        return event["type"], event["object"]

    async def names(self, count: int) -> list[tuple[str, str]]:
        """Return types and names of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(type, obj["metadata"].get("name", "")) for type, obj in events]

    async def close(self) -> None:
        await self.body.aclose()  # type: ignore[attr-defined]
