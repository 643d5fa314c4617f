"""HTTP requests to a registry, its token server and its blob stores.

A request that fails temporarily (429, 502, 503, 504, lost connection) is sent again a few times, and respects
Retry-After. Uses the proxies of HTTPS_PROXY and NO_PROXY.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from typing import Final
from urllib.parse import urlsplit

from kubewright.http.client import HTTPClient
from kubewright.http.message import Request, Response
from kubewright.http.proxy import proxy_for
from kubewright.machinery.errors import ConfigError, ConnectionFailed

_ATTEMPTS: Final = 5
_LATER: Final = frozenset({429, 502, 503, 504})
_PAUSE: Final = 0.5
"""Seconds before the second attempt. Doubles before each further attempt."""
_LONGEST_PAUSE: Final = 60.0
_TIMEOUT: Final = 300.0
"""Seconds. A layer may be large, and a connection slow."""


class Servers:
    """One HTTP client for each server. Use as `async with`."""

    def __init__(self) -> None:
        self._clients: dict[str, HTTPClient] = {}

    async def __aenter__(self) -> Servers:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            await client.close()

    async def send(self, url: str, request: Request, *, stream: bool = False) -> Response:
        """Send to the server of `url`; the request has the path. Raises ConnectionFailed if no attempt is answered."""
        client = self._client(url)
        for attempt in range(1, _ATTEMPTS + 1):
            pause = _PAUSE * 2 ** (attempt - 1)
            try:
                response = await client.send(request, timeout=_TIMEOUT, stream=stream)
            except ConnectionFailed:
                if attempt == _ATTEMPTS:
                    raise
            else:
                if response.status not in _LATER or attempt == _ATTEMPTS:
                    return response
                asked = response.headers.get("retry-after", "")
                pause = max(pause, min(float(asked) if asked.isdigit() else 0.0, _LONGEST_PAUSE))
                await response.aclose()
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _client(self, url: str) -> HTTPClient:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ConfigError(f"{url!r} is not a URL of a registry")
        base = f"{parts.scheme}://{parts.netloc}"
        if base not in self._clients:
            context = ssl.create_default_context() if parts.scheme == "https" else None
            self._clients[base] = HTTPClient(base, ssl=context, proxy=proxy_for(base, os.environ), timeout=_TIMEOUT)
        return self._clients[base]
