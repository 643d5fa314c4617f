"""Responses: documents, failures and plain text, with the headers of every answer.

Follows apiserver's pkg/endpoints/handlers/responsewriters.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator

from kubewright.http.message import Request, Response
from kubewright.machinery.errors import APIError
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.registry.objects import encode_json

_GZIP_FROM = 128 * 1024
_GZIP_LEVEL = 1
_PRIVATE = "no-cache, private"
_WARNINGS_LIMIT = 4096
"""Characters of all warnings. With more, each of them is cut, and the last ones are dropped."""
_CUT_WARNING = 256


def document(status: int, body: bytes, content_type: str = "application/json") -> Response:
    """Return a document that must not be cached."""
    return Response(status, {"cache-control": _PRIVATE, "content-type": content_type}, body)


def json_document(status: int, obj: JSONObject) -> Response:
    return document(status, encode_json(obj))


def text(status: int, body: str) -> Response:
    headers = {
        "cache-control": _PRIVATE,
        "content-type": "text/plain; charset=utf-8",
        "x-content-type-options": "nosniff",
    }
    return Response(status, headers, body.encode())


def page_not_found() -> Response:
    return text(404, "404 page not found\n")


def failure(error: APIError) -> Response:
    """Return the Status of an error, with a Retry-After header if the error is temporary."""
    response = json_document(error.status.code, error.status.to_dict())
    if error.retry_after is not None:
        response.headers["retry-after"] = str(int(error.retry_after))
    return response


def compress(request: Request, response: Response) -> None:
    """Compress a large body if the client accepts gzip."""
    body = response.body
    if not isinstance(body, bytes) or len(body) < _GZIP_FROM or "content-encoding" in response.headers:
        return
    if "gzip" in request.headers.get("accept-encoding", ""):
        response.body = gzip.compress(body, _GZIP_LEVEL, mtime=0)
        response.headers["content-encoding"] = "gzip"
        response.headers["vary"] = "Accept-Encoding"


def add_warnings(response: Response, warnings: Iterable[str]) -> None:
    """Add the warnings for the client, also of a request that failed.

    Follows apiserver's pkg/endpoints/filters/warning.go.
    """
    listed = [each for each in dict.fromkeys(warnings) if each]
    if not listed:
        return
    if sum(map(len, listed)) > _WARNINGS_LIMIT:
        listed = list(_cut(listed))
    response.headers["warning"] = ", ".join(f'299 - "{_quoted(each)}"' for each in listed)


def _cut(warnings: Iterable[str]) -> Iterator[str]:
    """Yield cut warnings until the limit is reached."""
    written = 0
    for each in warnings:
        if written >= _WARNINGS_LIMIT:
            return
        text = each[:_CUT_WARNING]
        written += len(text)
        yield text


def _quoted(warning: str) -> str:
    return warning.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
