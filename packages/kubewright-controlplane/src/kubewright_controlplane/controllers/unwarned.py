"""A transport without the API server's warnings: that Endpoints are deprecated is no news to what keeps them up."""

from __future__ import annotations

from kubewright.client._transport import Transport
from kubewright.http.message import Request, Response


class Unwarned:
    """Sends by another transport, and drops the `Warning` of each answer."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:
        response = await self._transport.send(request, timeout=timeout, stream=stream)
        response.headers.pop("warning", None)
        return response

    async def close(self) -> None:
        await self._transport.close()
