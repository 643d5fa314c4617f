"""Requests that are delayed on their way to the server."""

import asyncio
from collections.abc import Callable

from kubewright import Config
from kubewright.client import HTTPTransport
from kubewright.http.message import Request, Response


class Held:
    """A transport that holds requests back until they are released."""

    def __init__(self, config: Config, which: Callable[[Request], bool]) -> None:
        self._inner = HTTPTransport(config)
        self._which = which
        self.held = 0
        """The number of requests held back."""
        self.holding = asyncio.Event()
        self.let_go = asyncio.Event()
        self.arrived = asyncio.Event()

    async def send(
        self,
        request: Request,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - transports have it
        stream: bool = False,
    ) -> Response:
        if not self._which(request):
            return await self._inner.send(request, timeout=timeout, stream=stream)
        self.held += 1
        self.holding.set()
        await self.let_go.wait()
        response = await self._inner.send(request, timeout=timeout, stream=stream)
        self.arrived.set()
        return response

    async def close(self) -> None:
        await self._inner.close()
