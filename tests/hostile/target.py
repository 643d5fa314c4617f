"""A server process under attack, connections to it, and what one step did to it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import ssl
import sys
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httptools

from hostile.exchanges import Exchange, Step, User, request
from kubewright.client._auth import pair_of
from kubewright.client._config import Config
from kubewright.client._tls import client_context
from kubewright.machinery.json import JSONObject

SERVER: Final = Path(__file__).with_name("server.py")
SECRET: Final = "treasure-of-the-vault"
"""A text that only administrators may see."""
LATE: Final = 1.0
"""Seconds in which another client is served: of time, and of the server's CPU time, which other programs do not use."""
_PROBES: Final = 300
"""On a slow machine, another client is served in the time of so many simple requests, ten times over."""
_GENEROUS: Final = 10
_TICK: Final = os.sysconf("SC_CLK_TCK")
_ANSWER: Final = 60.0
"""Seconds of the server's CPU time for an answer. The time of a clock says nothing on a busy machine."""
_LOOK: Final = 5.0
"""Seconds between two looks at a server that has not answered."""
_IDLE: Final = 12
"""Looks at which a server without an answer has used no CPU time."""
_CONNECTED: Final = 600.0
_QUIET: Final = 0.03
_STREAM: Final = 0.05
_EXCUSED: Final = (
    "etcdserver: request is too large",
    "failed calling webhook",
    "conversion webhook for",
    "failed to create typed patch object",
    "failed to convert new object",  # an apply patch that does not fit the schema
    "Internal error occurred: json: cannot unmarshal",  # a mutating policy that makes an invalid object
    "Internal error occurred: strict decoding error",
    ": strconv.ParseUint: parsing ",  # a resourceVersion in a get
    'strconv.ParseUint: parsing \\"',
    " accessor error: ",  # a scale that does not fit the object
    "doesn't match $setElementOrder list",
    "unknown patch type",  # strategic patches
    "cannot merge lists without merge key",
    "list element types are not identical: ",
    "unable to find api field in struct",
    "does not contain declared merge key",
)
"""Texts of answers 500 that a real server gives too."""


class Broken(Exception):
    """The server broke a promise."""


@dataclass
class Answer:
    """A response, or the part of it that arrived."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class _Reader:
    """Collects the answers on a connection."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.complete = 0
        self.chunked = False
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.complete += 1

    def on_message_begin(self) -> None:
        self.answers.append(Answer())

    def on_header(self, name: bytes, value: bytes) -> None:
        self.answers[-1].headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.answers[-1].status = self._parser.get_status_code()
        self.chunked = "transfer-encoding" in self.answers[-1].headers

    def on_body(self, body: bytes) -> None:
        self.answers[-1].body += body

    def on_message_complete(self) -> None:
        if self.answers[-1].status >= 200:
            self.complete += 1


class Connection:
    """A connection of one user."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cpu: Callable[[], float]) -> None:
        self._reader = reader
        self._writer = writer
        self._cpu = cpu

    async def send(self, exchange: Exchange) -> None:
        for piece in exchange.pieces:
            self._writer.write(piece)
            await self._writer.drain()
            if len(exchange.pieces) > 1:
                await asyncio.sleep(0)
        if exchange.ending == "half-close" and self._writer.can_write_eof():
            self._writer.write_eof()

    async def answer(self, *, head: bool, streams: bool = False) -> tuple[Answer, bool]:
        """Read one answer, or the beginning if it may be a stream. Returns it, and whether the connection is usable."""
        reader = _Reader()
        while not reader.complete:
            if streams and reader.chunked:
                try:
                    async with asyncio.timeout(_STREAM):
                        data = await self._reader.read(1 << 16)
                except TimeoutError:
                    return reader.answers[-1], False
            else:
                data = await self._read()
            if not data:
                return (reader.answers or [Answer()])[-1], False
            reader.feed(data)
            if head and reader.answers and reader.answers[-1].status >= 200:
                return reader.answers[-1], False
        last = reader.answers[-1]
        return last, last.status != 101 and last.headers.get("connection", "").lower() != "close"

    async def _read(self) -> bytes:
        """Read what arrives next. Raises Broken if the server works without end, or does nothing."""
        began = last = self._cpu()
        idle = 0
        while True:
            try:
                async with asyncio.timeout(_LOOK):
                    return await self._reader.read(1 << 16)
            except TimeoutError:
                now = self._cpu()
                idle = idle + 1 if now == last else 0
                last = now
                if now - began > _ANSWER or idle >= _IDLE:
                    raise Broken(f"no answer after {now - began:.1f} s of the server's CPU time") from None

    async def rest(self) -> list[Answer]:
        """Read until the server closes the connection or is quiet."""
        reader = _Reader()
        with suppress(TimeoutError, httptools.HttpParserError):
            while True:
                async with asyncio.timeout(_QUIET):
                    data = await self._reader.read(1 << 16)
                if not data:
                    break
                reader.feed(data)
        return reader.answers

    async def events(self) -> AsyncGenerator[JSONObject]:
        """Read a watch, event by event, until the server ends it."""
        reader = _Reader()
        while data := await self._reader.read(1 << 16):
            reader.feed(data)
            if not reader.answers:
                continue
            answer = reader.answers[-1]
            *lines, answer.body = answer.body.split(b"\n")
            for line in lines:
                event: JSONObject = json.loads(line)
                yield event
            if reader.complete:
                return

    def abort(self) -> None:
        self._writer.transport.abort()


class Target:
    """A running server, and this program's connections to it."""

    def __init__(self, process: asyncio.subprocess.Process, folder: Path) -> None:
        self._process = process
        self._folder = folder
        self._log = folder / "log"
        self._read = 0
        admin = Config.from_kubeconfig(folder / "admin")
        tenant = Config.from_kubeconfig(folder / "tenant")
        url = urlsplit(admin.server)
        self._address = (url.hostname or "", url.port or 0)
        self._tls: dict[User, ssl.SSLContext] = {
            "admin": client_context(admin, pair_of(admin)),
            "tenant": client_context(tenant, pair_of(tenant)),
            "anonymous": client_context(admin, None),
        }
        self._kept: dict[User, Connection] = {}
        self._other: Connection | None = None
        self.slowest = 0.0
        self._late = LATE

    @property
    def pid(self) -> int:
        return self._process.pid

    async def connect(self, user: User = "admin") -> Connection:
        try:
            streams = await asyncio.open_connection(
                *self._address, ssl=self._tls[user], ssl_handshake_timeout=_CONNECTED, ssl_shutdown_timeout=_CONNECTED
            )
            return Connection(*streams, self.cpu)
        except ConnectionRefusedError as error:
            raise Broken(f"the server has ended: {self._ended()}") from error

    async def calibrate(self) -> None:
        """Measure what simple requests cost here, so that limits hold on slow machines too."""
        before = self.cpu()
        for _ in range(_PROBES):
            await self._be_served()
        self._late = max(LATE, _GENEROUS * (self.cpu() - before))

    def cpu(self) -> float:
        """Return the CPU time of the server in seconds."""
        fields = self._stat().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICK

    def _stat(self) -> str:
        try:
            return Path(f"/proc/{self.pid}/stat").read_text()
        except FileNotFoundError:
            raise Broken(f"the server has ended: {self._ended()}") from None

    def _ended(self) -> str:
        return f"status {self._process.returncode}, {self._log.read_text()[-2000:]}"

    async def exchange(self, exchange: Exchange) -> list[Answer]:
        """Carry out an exchange. Returns the answers that arrived."""
        if exchange.ending == "answer":
            return [await self._ask(exchange, streams=True)]
        connection = await self.connect(exchange.user)
        try:
            with suppress(ConnectionError, ssl.SSLError):
                await connection.send(exchange)
                return await connection.rest() if exchange.ending != "abort" else []
        finally:
            connection.abort()
        return []

    async def _ask(self, exchange: Exchange, *, streams: bool = False) -> Answer:
        connection = self._kept.pop(exchange.user, None)
        for fresh in (False, True):
            connection = connection or await self.connect(exchange.user)
            try:
                await connection.send(exchange)
                answer, usable = await connection.answer(head=exchange.is_head, streams=streams)
            except (ConnectionError, ssl.SSLError, httptools.HttpParserError) as error:
                connection.abort()
                if fresh or isinstance(error, httptools.HttpParserError):
                    return Answer()
                connection = None
                continue
            if usable:
                self._kept[exchange.user] = connection
            else:
                connection.abort()
            return answer
        return Answer()

    async def get(self, path: str, accept: str = "application/json", status: int = 200) -> Answer:
        """Read a path as an administrator. Raises Broken for another status than this one."""
        return await self.ask("GET", path, accept=accept, status=(status,))

    async def ask(
        self, method: str, path: str, body: Any = None, *, accept: str = "application/json", status: Sequence[int] = ()
    ) -> Answer:
        """Send a request as an administrator. Raises Broken for another status than these."""
        data = b"" if body is None else json.dumps(body).encode()
        type = "" if body is None else "application/json"
        answer = await self._ask(request(method, path, data, type=type, headers=[("Accept", accept)]))
        if status and answer.status not in status:
            raise Broken(f"{method} {path} as {accept} is answered with {answer.status}: {answer.body[:500]!r}")
        check_answer(answer, f"{method} {path}")
        return answer

    async def run(self, step: Step) -> None:
        """Carry out a step, and see that the server is well. Raises Broken."""
        try:
            await self._run(step)
        except Broken as error:
            raise Broken(f"{error}\n{self._logged()}") from error
        self.check_log()

    async def _run(self, step: Step) -> None:
        for exchange in step.exchanges:
            cpu, began = self.cpu(), time.monotonic()
            answering = asyncio.ensure_future(self.exchange(exchange))
            await asyncio.sleep(0)
            await self._be_served()
            waited, used = time.monotonic() - began, self.cpu() - cpu
            for answer in await answering:
                check_answer(answer, "an exchange")
                if exchange.user != "admin" and SECRET.encode() in answer.body:
                    raise Broken(f"{exchange.user} read a secret: {answer.body[:500]!r}")
            self.slowest = max(self.slowest, min(waited, used))
            if waited > self._late and used > self._late:
                raise Broken(f"another client waited for {waited:.1f} s, in which the server used {used:.1f} s of CPU")

    async def _be_served(self) -> None:
        """Be another client, which asks for a namespace."""
        probe = request("GET", "/api/v1/namespaces/default")
        for fresh in (False, True):
            connection = self._other = self._other or await self.connect()
            try:
                await connection.send(probe)
                answer, usable = await connection.answer(head=False)
            except (ConnectionError, ssl.SSLError):
                answer, usable = Answer(), False
            if not usable:
                self._other = None
            if answer.status == 200:
                return
            if fresh:
                raise Broken(f"another client is not served: {answer.status} {answer.body[:300]!r}")

    def check_log(self) -> None:
        """Raise Broken if the server has logged an error since the last call."""
        if logged := self._logged():
            raise Broken(f"the server logged: {logged}")

    def _logged(self) -> str:
        with self._log.open("rb") as file:
            file.seek(self._read)
            logged = file.read()
        self._read += len(logged)
        return "\n".join(_defects(logged.decode(errors="replace")))[-4000:]

    async def sample(self) -> tuple[int, float]:
        """Collect the server's garbage. Returns the number of its objects, and its memory in MB."""
        samples = self._folder / "samples"
        before = samples.stat().st_size if samples.exists() else 0
        self._process.send_signal(signal.SIGUSR1)
        end = self.cpu() + _ANSWER
        while not samples.exists() or samples.stat().st_size == before:
            if self.cpu() > end:
                raise Broken(f"no sample of the memory after {_ANSWER:g} s of the server's CPU time")
            await self._be_served()
        resident = next(
            line for line in Path(f"/proc/{self.pid}/status").read_text().splitlines() if line.startswith("VmRSS:")
        )
        return int(samples.read_text().split()[-1]), int(resident.split()[1]) / 1000

    def close(self) -> None:
        for connection in (*self._kept.values(), *((self._other,) if self._other else ())):
            connection.abort()


def check_answer(answer: Answer, what: str) -> None:
    """Raise Broken for an internal error that a real server would not report."""
    if answer.status >= 500 and answer.status not in (501, 503, 504, 505):
        text = answer.body.decode(errors="replace")
        if not any(each in text for each in _EXCUSED):
            raise Broken(f"{what} is answered with {answer.status}: {text[:1000]}")


def _defects(log: str) -> list[str]:
    """Return the entries of a log that are defects. A controller may log that the server rejected a request."""
    entries = re.split(r"\n(?=\d\d:\d\d:\d\d\.)", log)
    return [each for each in entries if each.strip() and (" controller." not in each or "Traceback (" in each)]


@asynccontextmanager
async def started(folder: Path, *, controllers: bool = False) -> AsyncGenerator[Target]:
    """Run a server process in a new folder while the block lasts."""
    folder.mkdir()
    with (folder / "log").open("wb") as log:
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
        arguments = [str(SERVER), str(folder), *(["--controllers"] if controllers else [])]
        process = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, stdout=asyncio.subprocess.PIPE, stderr=log, env=environment
        )
        try:
            assert process.stdout is not None
            ready = await process.stdout.readline()
            assert ready == b"ready\n", f"the server did not start: {(folder / 'log').read_text()}"
            target = Target(process, folder)
            try:
                yield target
            finally:
                target.close()
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
