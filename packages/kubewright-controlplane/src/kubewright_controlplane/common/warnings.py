"""A transport that drops the API server's warnings, for controllers that write deprecated kinds on purpose."""

from __future__ import annotations

from kubewright.client._transport import Transport
from kubewright.http.message import Request, Response


class WithoutWarnings:
    """Sends through another transport and removes the `Warning` header of each response.

    The endpoints controller would log one warning for each write of Endpoints, which are deprecated.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:
        response = await self._transport.send(request, timeout=timeout, stream=stream)
        response.headers.pop("warning", None)
        return response

    async def close(self) -> None:
        await self._transport.close()
