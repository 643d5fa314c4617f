"""CPU time of the HTTP layer: a request on the client's and on the server's side, over TLS, and a watch event.

Server and client are two processes, and each is measured by its own CPU time. `sockets and TLS alone` is the floor: the
same bytes over the same sockets and TLS, without parser, pool or handler. Run it with `python benchmarks/transport.py`;
`--loop asyncio` measures without uvloop. Figures are the minimum of several rounds, in microseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from multiprocessing.connection import Connection
from typing import Any

import trustme

from kubewright.http.client import HTTPClient
from kubewright.http.message import Request, Response
from kubewright.http.server import Server

OBJECT = b"x" * 1200
EVENT = b'{"type":"MODIFIED","object":' + OBJECT + b"}\n"
ANSWER_HEADERS = {"content-type": "application/json", "cache-control": "no-cache, private"}
HEADERS = {"accept": "application/json", "user-agent": "benchmark", "authorization": "Bearer " + "t" * 60}
REQUESTS = 4_000
EVENTS = 20_000
ROUNDS = 5


async def answer(request: Request) -> Response:
    if request.path == "/object":
        return Response(200, ANSWER_HEADERS, OBJECT)
    if request.path == "/watch":
        return Response(200, ANSWER_HEADERS, events())
    return Response(200, {}, repr(time.process_time()).encode())


async def events() -> AsyncIterator[bytes]:
    """Yield each event in its own chunk, like a server that does not batch events."""
    for _ in range(EVENTS):
        yield EVENT


class Echo(asyncio.Protocol):
    """Answers all data with the same bytes: a response of the server. On the client's side it only wakes up."""

    def __init__(self, reply: bytes = b"") -> None:
        self.reply = reply
        self.received: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        if self.reply:
            self.transport.write(self.reply)
        elif self.received is not None:
            self.received.set_result(None)


async def echo_only(client: Echo) -> None:
    request = b"q" * 180
    for _ in range(REQUESTS):
        client.received = asyncio.get_running_loop().create_future()
        client.transport.write(request)
        await client.received


async def serve(context: ssl.SSLContext, ports: Connection) -> None:
    server = Server(answer, ssl=context)
    await server.start()
    loop = asyncio.get_running_loop()
    echo = await loop.create_server(lambda: Echo(b"r" * 1350), "127.0.0.1", 0, ssl=context)
    ports.send((server.port, echo.sockets[0].getsockname()[1]))
    await asyncio.Event().wait()


async def get(client: HTTPClient) -> None:
    for _ in range(REQUESTS):
        await client.send(Request("GET", "/object", HEADERS))


async def get_concurrently(client: HTTPClient) -> None:
    async def worker() -> None:
        for _ in range(REQUESTS // 16):
            await client.send(Request("GET", "/object", HEADERS))

    await asyncio.gather(*(worker() for _ in range(16)))


async def post(client: HTTPClient) -> None:
    for _ in range(REQUESTS):
        await client.send(Request("POST", "/object", HEADERS, OBJECT))


async def watch(client: HTTPClient) -> None:
    response = await client.send(Request("GET", "/watch", HEADERS), stream=True)
    assert not isinstance(response.body, bytes)
    async for _ in response.body:
        pass


async def measure(port: int, echo_port: int, trust: trustme.CA) -> None:
    context = ssl.create_default_context()
    trust.configure_trust(context)  # pyright: ignore[reportUnknownMemberType] - its context may be pyOpenSSL's
    client = HTTPClient(f"https://127.0.0.1:{port}", ssl=context)

    async def server_cpu() -> float:
        return float(await (await client.send(Request("GET", "/cpu"))).read())

    loop = asyncio.get_running_loop()
    _, echo = await loop.create_connection(Echo, "127.0.0.1", echo_port, ssl=context)
    cases: list[tuple[str, Callable[[], Awaitable[None]], int]] = [
        ("sockets and TLS alone", lambda: echo_only(echo), REQUESTS),
        ("GET, one at a time", lambda: get(client), REQUESTS),
        ("GET, 16 at a time", lambda: get_concurrently(client), REQUESTS),
        ("POST, one at a time", lambda: post(client), REQUESTS),
        ("watch, per event", lambda: watch(client), EVENTS),
    ]
    best: dict[str, tuple[float, float]] = {}
    for _ in range(ROUNDS):
        for name, case, count in cases:
            begin, begin_there = time.process_time(), await server_cpu()
            await case()
            ours = (time.process_time() - begin) / count * 1e6
            theirs = (await server_cpu() - begin_there) / count * 1e6
            best[name] = min(ours, best.get(name, (ours, 0))[0]), min(theirs, best.get(name, (0, theirs))[1])
    print(f"{'us of CPU':24}{'client':>8}{'server':>8}")
    for name, (ours, theirs) in best.items():
        print(f"{name:24}{ours:8.1f}{theirs:8.1f}")
    await client.close()


def run(main: Coroutine[Any, Any, None], loop: str) -> None:
    if loop == "uvloop":
        import uvloop

        uvloop.run(main)
    else:
        asyncio.run(main)


def serve_in_process(certificate: trustme.LeafCert, ports: Connection, loop: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)  # pyright: ignore[reportUnknownMemberType] - its context may be pyOpenSSL's
    run(serve(context, ports), loop)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loop", choices=["uvloop", "asyncio"], default="uvloop")
    loop = parser.parse_args().loop
    trust = trustme.CA()
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("fork").Process(
        target=serve_in_process, args=(trust.issue_cert("127.0.0.1"), theirs, loop), daemon=True
    )
    server.start()
    port, echo_port = ours.recv()
    run(measure(port, echo_port, trust), loop)
    server.terminate()


if __name__ == "__main__":
    main()
