"""Watches over a WebSocket: each event is one text message. Some clients, such as that of fabric8, prefer it.

Follows k8s.io/apiserver pkg/endpoints/handlers/watch.go (HandleWS).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from kubewright.http.message import Request, Response
from kubewright.http.websocket import WebSocket, accept
from kubewright.machinery.errors import ConnectionFailed
from kubewright_controlplane.apiserver.registry.watching import Watch


async def serve_watch(request: Request, watch: Watch) -> Response:
    """Return the response that sends the events of a watch as messages."""

    async def speak(socket: WebSocket) -> None:
        directions = [asyncio.ensure_future(_send(socket, watch)), asyncio.ensure_future(_ignore(socket))]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in directions:
                each.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
            await watch.aclose()

    response = accept(request, (), speak)
    if response.status != 101:
        await watch.aclose()
    return response


async def _send(socket: WebSocket, events: AsyncIterator[bytes]) -> None:
    with suppress(ConnectionFailed):  # the client has disconnected
        async for chunk in events:
            for event in chunk.splitlines(keepends=True):
                await socket.send_text(event)


async def _ignore(socket: WebSocket) -> None:
    """Read until the client closes. It has nothing to say."""
    while await socket.receive() is not None:
        pass
