"""Raw HTTP against an API server, so that the cases use neither the SDK's types nor its client."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from kubewright.client._auth import pair_of
from kubewright.client._config import Config
from kubewright.client._tls import client_context
from kubewright.http.client import HTTPClient
from kubewright.http.message import Request, Response
from kubewright.testing import eventually

T = TypeVar("T")

JSON = "application/json"


async def until(check: Callable[[], Awaitable[T | None]]) -> T:
    """Call `check` until its result is true, and return that."""

    async def holds() -> T:
        found = await check()
        assert found, f"not yet: {found}"
        return found

    return await eventually(holds)


@dataclass
class Answer:
    """A response that was read completely."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        return str(self.json["message"])

    @property
    def reason(self) -> str | None:
        reason: str | None = self.json.get("reason")
        return reason

    @property
    def causes(self) -> list[tuple[str, str, str]]:
        causes = self.json.get("details", {}).get("causes", [])
        return [(each.get("reason", ""), each.get("field", ""), each.get("message", "")) for each in causes]

    def expect(self, status: int) -> Answer:
        assert self.status == status, f"{self.status}, not {status}: {self.body[:2000].decode(errors='replace')}"
        return self


class Stream:
    """A watch, read event by event."""

    def __init__(self, response: Response) -> None:
        assert not isinstance(response.body, bytes)
        self.status = response.status
        self.headers = response.headers
        self._response = response
        self._chunks = response.body
        self._rest = b""

    async def next(self) -> dict[str, Any]:
        """Return the next event."""
        while b"\n" not in self._rest:
            self._rest += await anext(self._chunks)
        line, _, self._rest = self._rest.partition(b"\n")
        event: dict[str, Any] = json.loads(line)
        return event

    async def until(self, kind: str) -> list[dict[str, Any]]:
        """Return all events up to and including the first of type `kind`."""
        events = [await self.next()]
        while events[-1]["type"] != kind:
            events.append(await self.next())
        return events

    async def close(self) -> None:
        await self._response.aclose()


class API:
    """A client of the API server for one user."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._client = HTTPClient(
            config.server,
            ssl=client_context(config, pair_of(config)),
            headers=[("authorization", f"Bearer {config.token}")] if config.token else [],
        )
        self._streams: list[Stream] = []

    async def send(
        self, method: str, target: str, body: Any = None, *, headers: dict[str, str] | None = None
    ) -> Answer:
        """Send a request; a body that is not bytes is sent as JSON."""
        all_headers = {
            "accept": JSON,
            "user-agent": "conformance/1.0",
            **({"content-type": JSON} if body is not None else {}),
            **(headers or {}),
        }
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        response = await self._client.send(Request(method, target, all_headers, data), timeout=30)
        return Answer(response.status, response.headers, await response.read())

    async def get(self, target: str, **headers: str) -> Answer:
        return await self.send("GET", target, headers=_named(headers))

    async def post(self, target: str, body: Any, **headers: str) -> Answer:
        return await self.send("POST", target, body, headers=_named(headers))

    async def put(self, target: str, body: Any, **headers: str) -> Answer:
        return await self.send("PUT", target, body, headers=_named(headers))

    async def delete(self, target: str, body: Any = None, **headers: str) -> Answer:
        return await self.send("DELETE", target, body, headers=_named(headers))

    async def patch(self, target: str, body: Any, kind: str = "merge") -> Answer:
        """Send a patch. `kind` is json, merge, strategic or apply."""
        content_type = {
            "json": "application/json-patch+json",
            "merge": "application/merge-patch+json",
            "strategic": "application/strategic-merge-patch+json",
            "apply": "application/apply-patch+yaml",
        }[kind]
        return await self.send("PATCH", target, body, headers={"content-type": content_type})

    async def watch(self, target: str, **headers: str) -> Stream:
        request = Request("GET", target, {"accept": JSON, "user-agent": "conformance/1.0", **_named(headers)})
        response = await self._client.send(request, timeout=30, stream=True)
        stream = Stream(response)
        self._streams.append(stream)
        return stream

    async def close(self) -> None:
        for stream in self._streams:
            await stream.close()
        await self._client.close()


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
