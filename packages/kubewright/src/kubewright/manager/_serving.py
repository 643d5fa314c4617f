"""The manager's own small servers: probes and metrics."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import Final

from kubewright.http.message import Handler, Request, Response
from kubewright.machinery.errors import ConfigError
from kubewright.manager._metrics import Metrics

OFF: Final = "0"
"""The address of a server that is not wanted."""
BIND_HOST: Final = "KUBEWRIGHT_BIND_HOST"
"""The variable that says which host an address without one means. The nodes of an embedded control plane set it to the
Pod's own address, so that several Pods of this machine may each have their port 8081."""


@asynccontextmanager
async def serving(
    handler: Handler, address: str | None, option: str, ssl: Callable[[], SSLContext] | None = None
) -> AsyncGenerator[int, None]:
    """Serve `handler` at `host:port` as long as the block lasts; gives the port, 0 when off.

    Without a host it is the one that $KUBEWRIGHT_BIND_HOST names, or every interface.

    Over TLS when `ssl` makes a context for it.

    Raises ConfigError for an address that is none or is taken; `option` is what the message calls it.
    """
    if address in (None, OFF, ""):
        yield 0
        return
    from kubewright.http.server import Server

    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise ConfigError(f'{option} {address!r} is not an address; write "host:port", ":port", or "0" for none')
    host = host.strip("[]") or os.environ.get(BIND_HOST, "")
    server = Server(handler, host=host, port=int(port), ssl=ssl() if ssl is not None else None)
    try:
        await server.start()
    except ConfigError as error:
        raise ConfigError(f"{option} {address!r}: {error}") from error
    try:
        yield server.port
    finally:
        await server.close()


class Scrapes:
    """Answers Prometheus."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def handle(self, request: Request) -> Response:
        """A `Handler` for `/metrics`."""
        if request.path != "/metrics":
            return Response.plain(404, "404 page not found\n")
        content_type, body = self._metrics.render(request.headers.get("accept", ""))
        return Response(200, {"content-type": content_type}, body)
