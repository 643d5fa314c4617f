"""Watches over a WebSocket: one event in each text message, as clients in Java and in browsers ask for them.

As in a real API server, the client has to name its origin, and may name one subprotocol, whatever that is.

Follows k8s.io/apiserver pkg/endpoints/handlers/watch.go.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from kubewright.http.message import Request, Response
from kubewright_controlplane.apiserver.registry.watching import Watch

if TYPE_CHECKING:
    from kubewright.http.websocket import WebSocket

_ORIGIN: Final = re.compile(r"(?:/|[A-Za-z][A-Za-z0-9+.-]*:)(?:[^%\s\x00-\x1f]|%[0-9A-Fa-f]{2})*")


async def watch_over_websocket(request: Request, watch: Watch, ending: bytes) -> Response:
    """Return the response that changes to a WebSocket and sends the events of `watch`, each of which has this `ending`.

    Closes the watch if it refuses.
    """
    from kubewright.http.websocket import accept, send_while_open  # imported lazily: its library is slow to load

    protocol = request.headers.get("sec-websocket-protocol", "").strip()

    async def serve(socket: WebSocket) -> None:
        try:
            await send_while_open(socket, _send(socket, watch, ending))
        finally:
            await watch.aclose()

    if not _ORIGIN.fullmatch(request.headers.get("origin", "")):
        response = Response.plain(403, "a watch over a WebSocket needs the header Origin, with a URL\n")
    else:
        response = accept(request, (protocol,), serve)  # more than one protocol match none
    if response.tunnel is None:
        await watch.aclose()
    return response


async def _send(socket: WebSocket, watch: AsyncIterator[bytes], ending: bytes) -> None:
    async for chunk in watch:
        for event in chunk.split(ending)[:-1]:
            await socket.send_text((event + ending).decode())
