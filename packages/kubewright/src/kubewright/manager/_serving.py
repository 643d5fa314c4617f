"""The manager's own servers: probes and metrics."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import Final, Literal, TypeAlias

from kubewright.http.message import Handler, Request, Response
from kubewright.machinery.errors import ConfigError
from kubewright.manager._metrics import Metrics

OFF: Final = "0"
"""The address that turns a server off."""
BIND_HOST: Final = "KUBEWRIGHT_BIND_HOST"
"""The environment variable with the host for addresses without one. The nodes of an embedded control plane set it to
the Pod's address, so that several Pods of one machine can each have port 8081.
"""
Option: TypeAlias = Literal["health_address", "metrics_address"]
"""The option with the address of a server."""
_FLAGS: Final[dict[Option, str]] = {
    "health_address": "--health-probe-bind-address",
    "metrics_address": "--metrics-bind-address",
}


@asynccontextmanager
async def serving(
    handler: Handler, address: str | None, option: Option, ssl: Callable[[], SSLContext] | None = None
) -> AsyncGenerator[int, None]:
    """Serve `handler` at `host:port` while the block runs, and yield the port; 0 when the server is off.

    An address without a host means $KUBEWRIGHT_BIND_HOST, or else every interface. With `ssl` the server speaks TLS.

    Raises ConfigError if the address is invalid or in use; the message names it by `option` and its flag.
    """
    if address in (None, OFF, ""):
        yield 0
        return
    from kubewright.http.server import Server

    named = f"{option} {address!r} ({_FLAGS[option]})"
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise ConfigError(f'{named} is not an address; write "host:port", ":port", or "0" to turn it off')
    host = host.strip("[]") or os.environ.get(BIND_HOST, "")
    server = Server(handler, host=host, port=int(port), ssl=ssl() if ssl is not None else None)
    try:
        await server.start()
    except ConfigError as error:
        raise ConfigError(f"{named}: {error}") from error
    try:
        yield server.port
    finally:
        await server.close()


class Scrapes:
    """Answers Prometheus."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def handle(self, request: Request) -> Response:
        """Answer a request for `/metrics`. This is a `Handler`."""
        if request.path != "/metrics":
            return Response.plain(404, "404 page not found\n")
        from kubewright.manager._exposition import render

        content_type, body = render(self._metrics, request.headers.get("accept", ""))
        return Response(200, {"content-type": content_type}, body)
