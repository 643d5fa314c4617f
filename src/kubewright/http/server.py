"""An HTTP/1.1 server: a handler behind a socket."""

from __future__ import annotations

import ssl as tls

from kubewright.http.message import Handler


class Server:
    """Serves `handler` at `host` and `port` (0: any free one), over TLS when `ssl` is given.

    `body_limit` is in bytes; a larger body is answered 413 by the server itself. A handler that wants to word that
    answer sets the limit higher than its own. `head_limit` bounds request line and headers (431).
    """

    def __init__(
        self,
        handler: Handler,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        ssl: tls.SSLContext | None = None,
        body_limit: int = 16 << 20,
        head_limit: int = 64 << 10,
    ) -> None: ...

    @property
    def port(self) -> int:
        """The port that is listened on, once started."""
        raise NotImplementedError

    async def start(self) -> None:
        """Listen. ConfigError when the address cannot be had."""

    async def close(self, grace: float = 0.0) -> None:
        """Stop accepting, end streams, give requests in flight `grace` seconds to finish, then cut what is left."""
