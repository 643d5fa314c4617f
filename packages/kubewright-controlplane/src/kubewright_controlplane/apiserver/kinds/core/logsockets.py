"""Logs over a WebSocket: each message is a part of the log, after a first message that is empty.

Follows k8s.io/apimachinery pkg/util/httpstream/wsstream.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

from kubewright.http.message import Request, Response

if TYPE_CHECKING:
    from kubewright.http.websocket import WebSocket

_BASE64: Final = "base64.binary.k8s.io"
_PROTOCOLS: Final = ("", "binary.k8s.io", _BASE64)


async def log_over_websocket(request: Request, log: Response) -> Response:
    """Return the response that changes to a WebSocket and sends `log`. Closes the log if it refuses."""
    from kubewright.http.websocket import accept, send_while_open  # imported lazily: its library is slow to load

    async def serve(socket: WebSocket) -> None:
        try:
            await send_while_open(socket, _send(socket, log))
        finally:
            await log.aclose()

    response = accept(request, _PROTOCOLS, serve)
    if response.tunnel is None:
        await log.aclose()
    return response


async def _send(socket: WebSocket, log: Response) -> None:
    await _send_part(socket, b"")
    if isinstance(log.body, bytes):
        await _send_part(socket, log.body)
        return
    async for part in log.body:
        await _send_part(socket, part)


async def _send_part(socket: WebSocket, part: bytes) -> None:
    if socket.protocol == _BASE64:
        await socket.send_text(base64.b64encode(part).decode())
    else:
        await socket.send(part)
