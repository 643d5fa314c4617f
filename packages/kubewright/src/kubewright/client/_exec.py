"""Commands in containers: `Client.exec`.

A WebSocket carries input and output: the first byte of each message is its channel.

Follows k8s.io/apimachinery/pkg/util/remotecommand, the protocols v5.channel.k8s.io and v4.channel.k8s.io.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import msgspec

from kubewright.client._rest import RESTClient
from kubewright.http.message import Response
from kubewright.machinery.errors import CommandFailed, ConnectionFailed, Status
from kubewright.machinery.json import read_object

if TYPE_CHECKING:
    from kubewright.http.websocket import WebSocket

OUTPUT_LIMIT: Final = 1 << 20
"""Default limit of the output in bytes."""
_V5: Final = "v5.channel.k8s.io"
_PROTOCOLS: Final = (_V5, "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _STATUS, _CLOSE = 0, 1, 2, 3, 255
_PIECE: Final = 32 << 10
"""Bytes of input in one message."""
_STATUS_LIMIT: Final = 64 << 10


class ExecResult(msgspec.Struct, frozen=True):
    """What a command in a container did."""

    exit_code: int
    stdout: bytes = b""
    stderr: bytes = b""
    """The beginning of the standard error, up to the limit of the output."""


def exec_query(command: Sequence[str], container: str | None, *, stdin: bool) -> str:
    """Return the query of a request to run a command."""
    query = [("container", container)] if container else []
    query += [("stdin", "true")] if stdin else []
    return urlencode([*query, ("stdout", "true"), ("stderr", "true"), *(("command", each) for each in command)])


async def run_command(rest: RESTClient, target: str, where: str, stdin: bytes | None, limit: int) -> ExecResult:
    """Run the command of a target, and return what it did."""
    async with _connected(rest, target) as socket:
        if stdin is not None and socket.protocol != _V5:
            raise ConnectionFailed(f"{where}: the server cannot end the input of a command; it is older than 1.30")
        sending = asyncio.create_task(_send(socket, stdin or b"", is_open=stdin is not None))
        try:
            return await _received(socket, where, limit)
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError, ConnectionFailed):
                await sending


@asynccontextmanager
async def _connected(rest: RESTClient, target: str) -> AsyncGenerator[WebSocket]:
    """Open a WebSocket. Raises the APIError of a refusal."""
    from kubewright.http.websocket import WebSocket, agreed_protocol, offer  # loaded only by programs that use it

    headers, key = offer(_PROTOCOLS)
    response = await rest.upgrade(target, headers)
    try:
        tunnel = ResponseTunnel(response)
        yield WebSocket(tunnel, agreed_protocol(response, key, _PROTOCOLS), is_client=True)
    finally:
        await response.aclose()


class ResponseTunnel:
    """The connection of a response that has changed the protocol: see `Tunnel`."""

    def __init__(self, response: Response) -> None:
        assert response.write is not None
        assert not isinstance(response.body, bytes)
        self._body = response.body
        self._write = response.write

    async def read(self) -> bytes:
        try:
            return await anext(self._body)
        except StopAsyncIteration:
            raise ConnectionFailed("the server closed the connection before the command ended") from None

    async def write(self, data: bytes) -> None:
        await self._write(data)


async def _send(socket: WebSocket, stdin: bytes, *, is_open: bool) -> None:
    for start in range(0, len(stdin), _PIECE):
        await socket.send(bytes([_STDIN]) + stdin[start : start + _PIECE])
    if is_open:
        await socket.send(bytes([_CLOSE, _STDIN]))


class _Output(msgspec.Struct):
    where: str
    limit: int
    stdout: bytearray = msgspec.field(default_factory=bytearray)
    stderr: bytearray = msgspec.field(default_factory=bytearray)
    status: bytearray = msgspec.field(default_factory=bytearray)

    def add(self, channel: int, data: bytes) -> None:
        """Add what arrived on a channel. Raises CommandFailed if the output is too long."""
        if channel == _STDOUT:
            self.stdout += data
            if len(self.stdout) > self.limit:
                raise CommandFailed(
                    f"{self.where}: the output has more than {self.limit} bytes; raise `limit`, or write it in parts"
                )
        elif channel == _STDERR:
            self.stderr += data[: self.limit - len(self.stderr)]
        elif channel == _STATUS:
            self.status += data[: _STATUS_LIMIT - len(self.status)]

    def result(self) -> ExecResult:
        """Return what the command did. Raises CommandFailed if it could not be run."""
        status = _decoded(self.status)
        code = _exit_code(status) if status is not None else None
        if code is None:
            reason = status.message if status is not None else "the server did not say how it ended"
            raise CommandFailed(f"{self.where}: {reason}")
        return ExecResult(code, bytes(self.stdout), bytes(self.stderr))


async def _received(socket: WebSocket, where: str, limit: int) -> ExecResult:
    output = _Output(where, limit)
    try:
        while (message := await socket.receive()) is not None:
            if message:
                output.add(message[0], message[1:])
    except ConnectionFailed:
        if not output.status:
            raise
    return output.result()


def _decoded(status: bytearray) -> Status | None:
    try:
        return Status.from_dict(read_object(status))
    except msgspec.DecodeError:
        return None


def _exit_code(status: Status) -> int | None:
    """Return the exit code in a Status; None if it has none."""
    if status.status == "Success":
        return 0
    causes = status.details.causes if status.details is not None else ()
    found = next((each.message for each in causes if each.reason == "ExitCode"), "")
    return int(found) if found.isdigit() else None
