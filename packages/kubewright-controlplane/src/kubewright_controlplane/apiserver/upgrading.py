"""Requests that change the protocol of their connection on the way to a program: WebSocket and SPDY.

Guarantees
    At most 64 KiB are kept in each direction: a slow side slows the other side down.
    A head that takes longer than `_HEAD_SECONDS`, is longer than 64 KiB, or that a client could misunderstand, is an
    error.

Follows k8s.io/apimachinery pkg/util/proxy.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Iterable
from typing import Final, NamedTuple

from kubewright.http import wire
from kubewright.http.message import Request, Response, Tunnel
from kubewright.machinery.errors import ConnectionFailed
from kubewright_controlplane.apiserver.forwarding import HOP_BY_HOP

_HEAD_SECONDS: Final = 60.0
_BODY_SECONDS: Final = 10.0
_MAX_HEAD: Final = 64 << 10
_CHUNK: Final = 64 << 10
_STATUS_LINE: Final = re.compile(r"HTTP/1\.[01] ([1-5][0-9][0-9])(?: [^\x00-\x08\x0a-\x1f\x7f]*)?")
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_SHOWN: Final = 100


class Program(NamedTuple):
    """Where a program is, and how it is trusted."""

    host: str
    """The header Host."""
    address: tuple[str, int]
    context: ssl.SSLContext | None
    """None: the connection is not encrypted."""
    server_name: str | None
    """The name in its certificate."""


async def upgrade(program: Program, request: Request, more: Iterable[tuple[str, str]], protocol: str) -> Response:
    """Ask a program to change to `protocol`, and connect the client to it if it does.

    `more` are headers in addition to those of the request. Any other answer is returned with its body, which is left
    out if it has no length. Raises ConnectionFailed.
    """
    lines = [("host", program.host), *request.headers.items(), ("connection", "Upgrade"), ("upgrade", protocol), *more]
    head = wire.request_line(request.method, request.target) + wire.lines(lines)
    name = program.server_name if program.context is not None else None
    try:
        async with asyncio.timeout(_HEAD_SECONDS):
            reader, writer = await asyncio.open_connection(
                *program.address, ssl=program.context, server_hostname=name, limit=_MAX_HEAD
            )
            try:
                writer.write(wire.encode(f"{head}\r\n") + request.body)
                status, headers = _parse_head(await reader.readuntil(b"\r\n\r\n"))
            except BaseException:
                writer.transport.abort()
                raise
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
        where = program.server_name or program.host
        raise ConnectionFailed(f"cannot upgrade the connection to {where}: {error}") from error
    if status != 101:
        return await _refused(status, headers, reader, writer)
    kept = {name: value for name, value in headers.items() if name not in HOP_BY_HOP or name == "upgrade"}

    async def begin(tunnel: Tunnel) -> None:
        await _relay(tunnel, reader, writer)

    return Response(101, kept, tunnel=begin)


async def _refused(
    status: int, headers: dict[str, str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> Response:
    """Return an answer that does not change the protocol. Its body has a length, or is left out."""
    try:
        length = headers.get("content-length", "0")
        size = min(int(length), _MAX_HEAD) if length.isdecimal() else 0
        async with asyncio.timeout(_BODY_SECONDS):
            body = await reader.readexactly(size)
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        body = b""
    finally:
        writer.transport.abort()
    return Response(status, headers, body)


async def _relay(tunnel: Tunnel, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes in both directions until one side ends."""

    async def upload() -> None:
        while True:
            writer.write(await tunnel.read())
            await writer.drain()

    async def download() -> None:
        while data := await reader.read(_CHUNK):
            await tunnel.write(data)

    directions = [asyncio.ensure_future(upload()), asyncio.ensure_future(download())]
    try:
        await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in directions:
            each.cancel()
        await asyncio.gather(*directions, return_exceptions=True)
        writer.transport.abort()


def _parse_head(data: bytes) -> tuple[int, dict[str, str]]:
    """Return status and headers. Raises ValueError for what is not the final answer in HTTP."""
    first, *lines = wire.text(data).split("\r\n")
    found = _STATUS_LINE.fullmatch(first)
    status = int(found[1]) if found is not None else 0
    if status < 200 and status != 101:
        raise ValueError(f"invalid answer: {wire.readable(first[:_SHOWN])!r}")
    headers: dict[str, str] = {}
    for line in filter(None, lines):
        name, colon, value = line.partition(":")
        key, value = name.lower(), value.strip(" \t")
        if not (colon and _HEADER_NAME.fullmatch(name)) or _CONTROL.search(value):
            raise ValueError(f"invalid header: {wire.readable(line[:_SHOWN])!r}")
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return status, headers
