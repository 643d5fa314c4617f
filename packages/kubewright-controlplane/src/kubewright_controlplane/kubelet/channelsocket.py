"""The channels of a WebSocket: the first byte of each message is its channel. In base64 protocols it is a digit.

Follows k8s.io/streaming pkg/httpstream/wsstream.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubewright.http.websocket import WebSocket


class ChannelSocket:
    """A WebSocket whose messages are data of numbered channels."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._base64 = "base64" in socket.protocol

    async def receive(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield channels and data until the client disconnects. Malformed and empty messages are ignored."""
        while (message := await self._socket.receive()) is not None:
            if not message:
                continue
            if not self._base64:
                yield message[0], message[1:]
                continue
            try:
                yield message[0] - ord("0"), base64.b64decode(message[1:], validate=True)
            except binascii.Error:
                continue  # a real kubelet ignores it, too

    async def send(self, channel: int, data: bytes) -> None:
        """Send data. Raises ConnectionFailed if the client has disconnected."""
        if self._base64:
            await self._socket.send_text(f"{chr(ord('0') + channel)}{base64.b64encode(data).decode()}")
        else:
            await self._socket.send(bytes((channel,)) + data)
