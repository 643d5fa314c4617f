"""Untyped requests to an API server, as paths and bytes: the base of the typed client and of the cache's reflectors.

Adds query parameters and headers to requests, raises errors for failures, and reports the warnings of the server.

Warnings: https://kubernetes.io/blog/2020/09/03/warnings/ and RFC 7234, section 5.5.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeAlias
from urllib.parse import quote_plus

import msgspec

from kubewright._runtime.log import get_logger
from kubewright.client._transport import Transport
from kubewright.client._watch import EventDecoder, RawEvent
from kubewright.http.message import Request, Response
from kubewright.machinery.errors import APIError, Status, StatusDetails, from_status
from kubewright.machinery.json import read_object

JSON: Final = "application/json"
ANY: Final = "*/*"

_SHOWN: Final = 500
"""The maximum number of characters of an answer without a Status in an error."""

Query: TypeAlias = Mapping[str, str | None]
"""Parameters of a request; None and empty values are omitted."""


WarningHandler: TypeAlias = Callable[[str], None]
"""Called with the text of each warning."""

_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_ESCAPE: Final = re.compile(r"\\(.)")


_log = get_logger("kubewright.client")


class RESTClient:
    """Sends requests to one API server."""

    def __init__(self, transport: Transport, *, user_agent: str, on_warning: WarningHandler) -> None:
        self.transport = transport
        self.user_agent = user_agent
        self.on_warning = on_warning

    async def close(self) -> None:
        """Close the transport and all of its connections."""
        await self.transport.close()

    async def request(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        *,
        body: bytes = b"",
        content_type: str = JSON,
        accept: str = JSON,
        timeout: float | None = None,
    ) -> bytes:
        """Return the body of a successful answer. Raises the APIError of any other answer."""
        request = self._compose(method, path, query, body, content_type, accept)
        response = await self.transport.send(request, timeout=timeout)
        data = response.body
        if not isinstance(data, bytes):
            data = await response.read()
        if response.status >= 300:
            raise error_of(request, response, data)
        if "warning" in response.headers:
            self._warn(response)
        return data

    async def watch(
        self, path: str, query: Query, *, accept: str = JSON, silence: float | None = None
    ) -> AsyncGenerator[list[RawEvent], None]:
        """Yield the events of a watch until the server ends the stream. Events that arrive together are one list.

        The first list is empty: the server has accepted the watch. If no event arrives for `silence` seconds, the watch
        ends with DeadlineExceeded.
        """
        request = self._compose("GET", path, {**query, "watch": "true"}, b"", JSON, accept)
        response = await self._begin(request, silence)
        try:
            yield []
            decoder = EventDecoder()
            if isinstance(response.body, bytes):
                yield decoder.feed(response.body)
                return
            async for chunk in response.body:
                events = decoder.feed(chunk)
                if events:
                    yield events
        finally:
            await response.aclose()

    async def stream(self, path: str, query: Query, *, accept: str) -> AsyncGenerator[bytes, None]:
        """Yield the chunks of a successful answer, without a time limit. Raises the APIError of any other answer."""
        response = await self._begin(self._compose("GET", path, query, b"", JSON, accept), None)
        try:
            if isinstance(response.body, bytes):
                yield response.body
                return
            async for chunk in response.body:
                yield chunk
        finally:
            await response.aclose()

    async def _begin(self, request: Request, silence: float | None) -> Response:
        """Return the successful answer to a request before its body arrives. The caller must close it."""
        response = await self.transport.send(request, timeout=silence, stream=True)
        try:
            if response.status >= 300:
                raise error_of(request, response, await response.read())
            self._warn(response)
        except BaseException:
            await response.aclose()
            raise
        return response

    def _compose(
        self, method: str, path: str, query: Query | None, body: bytes, content_type: str, accept: str
    ) -> Request:
        headers = {"accept": accept, "user-agent": self.user_agent}
        if body:
            headers["content-type"] = content_type
        if query and (text := _encoded(tuple(query.items()))):
            path = f"{path}?{text}"
        return Request(method, path, headers, body)

    def _warn(self, response: Response) -> None:
        for text in parse_warnings(response.headers.get("warning", "")):
            self.on_warning(text)


def parse_warnings(header: str) -> list[str]:
    """Return the texts of a `Warning` header: `299 - "a", 299 - "b"`."""
    return [_ESCAPE.sub(r"\1", text) for text in _WARNING.findall(header)]


class LogOnce:
    """Logs each warning the first time it is received."""

    _LIMIT = 1000
    """Warnings may contain names of objects. After this many different warnings, all are forgotten."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def __call__(self, text: str) -> None:
        if text in self._seen:
            return
        if len(self._seen) >= self._LIMIT:
            self._seen.clear()
        self._seen.add(text)
        _log.warning("Warning from the API server", warning=text)


@lru_cache(maxsize=64)
def _encoded(query: tuple[tuple[str, str | None], ...]) -> str:
    """Return the text encoded for a URL. Cached, because the writes of a program use few values."""
    return "&".join(f"{key}={quote_plus(value)}" for key, value in query if value)


def error_of(request: Request, response: Response, data: bytes) -> APIError:
    """Return the error for an answer, from its Status, or from its code and text if it has no Status."""
    status = _status(data)
    if status is None:
        status = Status(response.status, message=f"{request.method} {request.path}: {response.status} {_excerpt(data)}")
    details = status.details or StatusDetails()
    if response.status == 404 and not details.name:
        text = (
            "the server has no such resource; is its CustomResourceDefinition installed, and this version of it served?"
        )
        status = replace(status, message=f"{request.method} {request.path}: {text}")
    seconds = response.headers.get("retry-after", "")
    if seconds.isdigit() and not details.retry_after_seconds:
        status = replace(status, details=replace(details, retry_after_seconds=int(seconds)))
    return from_status(status)


def _status(data: bytes) -> Status | None:
    try:
        found = read_object(data)
    except msgspec.MsgspecError:
        return None
    return Status.from_dict(found) if found.get("kind") == "Status" else None


def _excerpt(data: bytes) -> str:
    text = data.decode("utf-8", "replace").strip()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
