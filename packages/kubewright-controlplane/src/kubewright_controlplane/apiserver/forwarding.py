"""The headers of requests that the server passes on to programs and extension servers, and of their answers.

Follows k8s.io/apimachinery pkg/util/proxy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubewright.http.message import Request

HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""The headers that concern one connection (RFC 9110, section 7.6.1)."""
_NOT_SENT: Final = HOP_BY_HOP | {"authorization", "host", "content-length", "accept-encoding"}
_NOT_ANSWERED: Final = HOP_BY_HOP | {"content-length", "date"}


def forwarded(request: Request) -> dict[str, str]:
    """Return the headers of a client's request as the next server gets them, without those of the user."""
    headers = {
        name: value
        for name, value in request.headers.items()
        if name not in _NOT_SENT and not name.startswith("impersonate-")
    }
    if request.peer is not None and request.peer.address:
        earlier, host = headers.get("x-forwarded-for"), request.peer.address.rpartition(":")[0].strip("[]")
        headers["x-forwarded-for"] = f"{earlier}, {host}" if earlier else host
    return headers | {
        "x-forwarded-host": request.headers.get("host", ""),
        "x-forwarded-proto": "https",
        "x-forwarded-uri": request.path,
    }


def answered(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of an answer as the client gets them."""
    return {name: value for name, value in headers.items() if name not in _NOT_ANSWERED}
