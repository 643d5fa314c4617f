"""What goes wrong between an operator and its API server, brought about in tests.

    faults = Faults(cluster.config)
    faults.lag = 0.5
    async with running(Manager([reconcile], config=faults)):
        ...

`killed_after_each_write` goes through all the moments at which a process can die.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from typing import Final, ParamSpec, TypeAlias

import msgspec

from kubewright.client._config import Config
from kubewright.client._transport import HTTPTransport, Transport
from kubewright.http.message import Request, Response
from kubewright.machinery.errors import ConnectionFailed, Status
from kubewright.testing._waiting import eventually

P = ParamSpec("P")

Verdict: TypeAlias = Callable[[Request], Response | None]
"""What is answered to a request that is not to reach the API server; None lets it pass."""

_UNCOUNTED: Final = ("/apis/coordination.k8s.io/", "/apis/authorization.k8s.io/")
"""Renewals of Leases, and questions that are asked by a POST."""


def failure(code: int, reason: str, message: str = "made by a test", headers: dict[str, str] | None = None) -> Response:
    """An answer of an API server that says why not: a metav1.Status."""
    body = msgspec.json.encode(Status(code, reason, message).to_dict())
    return Response(code, {"content-type": "application/json", **(headers or {})}, body)


class Faults(Transport):
    """A transport to the API server of a config, for one `Manager` or `Client`, with the faults that are asked for.

    Faults come above the retries of the client: what is answered here is what the operator sees.
    """

    def __init__(self, config: Config | Transport) -> None:
        self._inner: Transport = HTTPTransport(config) if isinstance(config, Config) else config
        self.lag = 0.0
        """By how many seconds what comes on a watch is late: caches are stale by as much."""
        self.answer: Verdict = lambda _: None
        """Asked before a request is sent."""
        self.loses: Callable[[Request], bool] = lambda _: False
        """Whether the answer to a request that has reached the API server is lost."""
        self.dies_after: int | None = None
        """The write after which the process dies: it reaches the API server; its answer, and all later ones, don't."""
        self.writes = 0
        """How many requests to change something have reached the API server; renewals of Leases are none."""
        self._died = asyncio.Event()
        self._breaks: Callable[[], bytes | None] = lambda: None

    @property
    def died(self) -> bool:
        """Nothing that the operator does reaches the API server any more."""
        return self._died.is_set()

    def die(self) -> None:
        """Now."""
        self._died.set()

    def storm(self, chance: random.Random, share: float = 0.2) -> None:
        """Of all requests this share fails, each in one of the ways in which it could; watches break as often.

        Refused as too many (429) or in conflict (409), by a server that has an error (500) or is not there (503), or
        carried out with the answer lost. A watch breaks off, or is told that its resource version is gone (410).
        """

        def answer(request: Request) -> Response | None:
            return chance.choice(_refusals(request)) if chance.random() < share / 2 else None

        def breaks() -> bytes | None:
            return chance.choice((b"", _EXPIRED)) if chance.random() < share else None

        self.answer, self._breaks = answer, breaks
        self.loses = lambda _: chance.random() < share / 2

    def calm(self) -> None:
        """No more faults from now on. Who has died stays dead."""
        self.answer, self.loses, self._breaks = lambda _: None, lambda _: False, lambda: None
        self.lag, self.dies_after = 0.0, None

    async def died_or(self, check: Callable[P, Awaitable[object]], *args: P.args, **kwargs: P.kwargs) -> None:
        """Wait until the operator has died, or `check` passes as it does for `eventually`."""
        passing = asyncio.ensure_future(eventually(check, *args, **kwargs))
        dying = asyncio.ensure_future(self._died.wait())
        try:
            await asyncio.wait({passing, dying}, return_when=asyncio.FIRST_COMPLETED)
            if not self.died:
                passing.result()
        finally:
            passing.cancel()
            dying.cancel()
            await asyncio.gather(passing, dying, return_exceptions=True)

    async def rest(self, *, quiet: float = 2, within: float = 300) -> None:
        """Wait until nothing has been written for `quiet` seconds: what there was to do is done, and all is told.

        Raises AssertionError when there is no such time `within` so many seconds.
        """
        clock = asyncio.get_running_loop().time
        began, written = clock(), -1
        while written != self.writes:
            if clock() > began + within:
                raise AssertionError(f"it is still being written after {within:g} s: {self.writes} writes by now")
            written = self.writes
            await asyncio.sleep(quiet)

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:
        self._check_alive()
        if _is_watch(request):
            return await self._watch(request, timeout)
        answered = self.answer(request)
        if answered is not None:
            return answered
        lost = self.loses(request)
        number = self._number(request)
        try:
            response = await self._inner.send(request, timeout=timeout, stream=stream)
        finally:
            if number is not None and number == self.dies_after:
                self.die()
        if lost or self.died:
            await response.aclose()
            raise ConnectionFailed(f"{request.method} {request.path}: the answer is lost")
        return response

    async def close(self) -> None:
        await self._inner.close()

    def _number(self, request: Request) -> int | None:
        """Which write it is."""
        if request.method == "GET" or request.path.startswith(_UNCOUNTED):
            return None
        if self.dies_after is not None and self.writes >= self.dies_after:
            raise ConnectionFailed("the process has made its last write")  # beside that one, which is under way
        self.writes += 1
        return self.writes

    def _check_alive(self) -> None:
        if self.died:
            raise ConnectionFailed("the process is dead")

    async def _watch(self, request: Request, timeout: float | None) -> Response:
        response = await self._inner.send(request, timeout=timeout, stream=True)
        if response.status == 200 and not isinstance(response.body, bytes):
            response.body = self._late(response.body)
        return response

    async def _late(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """What comes on a watch, each chunk late by as much, until it breaks or the process dies."""
        clock = asyncio.get_running_loop().time
        chunks: asyncio.Queue[tuple[float, bytes | BaseException | None]] = asyncio.Queue()

        async def read() -> None:
            try:
                async for chunk in body:
                    chunks.put_nowait((clock(), chunk))
                chunks.put_nowait((clock(), None))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is for the one who watches
                chunks.put_nowait((clock(), error))

        async def die() -> None:
            await self._died.wait()
            chunks.put_nowait((clock(), None))

        tasks = [asyncio.create_task(read()), asyncio.create_task(die())]
        within_line = False
        try:
            while True:
                came, chunk = await chunks.get()
                await asyncio.sleep(max(0.0, came + self.lag - clock()))
                self._check_alive()
                if isinstance(chunk, BaseException):
                    raise chunk
                if chunk is None:
                    return
                broken = self._breaks()
                if broken is not None:
                    if broken and not within_line:
                        yield broken
                    return
                within_line = not chunk.endswith(b"\n")
                yield chunk
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await Response(200, body=body).aclose()


async def killed_after_each_write(config: Config) -> AsyncIterator[Faults]:
    """The lives of an operator that dies after its first write, after its second, and so on.

        async for faults in killed_after_each_write(account):
            ...                                               # a fresh object
            async with running(new_operator(faults)):
                await faults.died_or(all_is_well, name)
            async with running(new_operator(account)):
                await eventually(all_is_well, name)
            ...                                               # delete it: what is left is work for the next life, too

    Ends with the first life that reached its goal without having to die.
    """
    last = 1
    while True:
        faults = Faults(config)
        faults.dies_after = last
        yield faults
        if not faults.died:
            return
        last += 1


_EXPIRED: Final = msgspec.json.encode(
    {"type": "ERROR", "object": Status(410, "Expired", "too old resource version: made by a test").to_dict()}
) + b"\n"  # fmt: skip


def _refusals(request: Request) -> list[Response]:
    """All that an API server can say to a request that it does not carry out."""
    refusals = [
        failure(500, "InternalError"),
        failure(503, "ServiceUnavailable"),
        failure(429, "TooManyRequests", headers={"retry-after": "1"}),
    ]
    if request.method in ("PUT", "PATCH"):
        refusals.append(failure(HTTPStatus.CONFLICT, "Conflict"))
    return refusals


def _is_watch(request: Request) -> bool:
    return request.method == "GET" and "watch=" in request.query
