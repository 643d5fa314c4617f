"""An HTTP/1.1 client: a small pool of connections to one server."""

from __future__ import annotations

import ssl as tls
from collections.abc import Sequence

from kubewright.http.message import Request, Response


class HTTPClient:
    """Sends requests to the server at `base_url` (`https://host:port`, `http://...`). Its bound `send` is a `Handler`."""

    def __init__(
        self,
        base_url: str,
        *,
        ssl: tls.SSLContext | None = None,
        server_name: str | None = None,
        proxy: str | None = None,
        headers: Sequence[tuple[str, str]] = (),
        timeout: float = 60.0,
        connect_timeout: float = 10.0,
        max_connections: int = 32,
        idle_timeout: float = 50.0,
    ) -> None: ...

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:
        """The response to `request`.

        Whole (`stream` false): the body is bytes, and all of it came within `timeout` seconds (None: the client's).
        Streamed: the body is an iterator of chunks as they come. `timeout` is then the longest silence: before the
        head, and before each chunk. None bounds the wait for the head alone.

        ConnectionFailed when no answer came, or only a part of one; DeadlineExceeded when it came too late. From a
        streamed body the same two.
        """
        raise NotImplementedError

    async def close(self) -> None:
        """Close every connection, streams too."""
