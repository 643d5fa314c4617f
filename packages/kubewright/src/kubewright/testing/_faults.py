"""Faults between an operator and its API server, for tests.

    faults = Faults(cluster.config)
    faults.lag = 0.5
    async with Manager([reconcile], transport=faults):
        ...

`killed_after_each_write` tries every write after which a process can die.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from typing import Final, ParamSpec, TypeAlias, cast

import msgspec

from kubewright.client._config import Config
from kubewright.client._transport import HTTPTransport, Transport
from kubewright.http.message import Request, Response
from kubewright.machinery.errors import ConfigError, ConnectionFailed, Status
from kubewright.machinery.time import Seconds, seconds
from kubewright.testing._waiting import eventually

P = ParamSpec("P")

Verdict: TypeAlias = Callable[[Request], Response | None]
"""Returns the answer to a request that must not reach the API server, or None to let it pass."""

_UNCOUNTED: Final = ("/apis/coordination.k8s.io/", "/apis/authorization.k8s.io/")
"""Renewals of Leases, and access reviews, which are asked by a POST."""


def failure(
    code: int, reason: str, message: str = "caused by a test", headers: dict[str, str] | None = None
) -> Response:
    """Return an API server's answer to a request that it rejects: a metav1.Status."""
    body = msgspec.json.encode(Status(code, reason, message).to_dict())
    return Response(code, {"content-type": "application/json", **(headers or {})}, body)


class Faults(Transport):
    """A transport for one `Manager` or `Client` that causes faults.

    Faults occur above the retries of the client: the operator sees what is answered here.
    """

    def __init__(self, config: Config | None = None, *, transport: Transport | None = None) -> None:
        """Create a transport to the API server of `config`, or through `transport`.

        Raises ConfigError unless exactly one of them is given.
        """
        if (config is None) == (transport is None):
            raise ConfigError("Faults: give either a config or transport=")
        self._inner: Transport = transport or HTTPTransport(cast("Config", config))
        self.lag = 0.0
        """Delay of watch events in seconds: caches are stale by as much."""
        self.answer: Verdict = lambda _: None
        """Called before a request is sent."""
        self.loses: Callable[[Request], bool] = lambda _: False
        """Returns whether the answer to a request is lost, after the API server has processed it."""
        self.dies_after: int | None = None
        """Number of the write after which the process dies. It reaches the API server, but its answer is lost."""
        self.writes = 0
        """Number of writes that have reached the API server, without renewals of Leases."""
        self._died = asyncio.Event()
        self._breaks: Callable[[], bytes | None] = lambda: None

    @property
    def died(self) -> bool:
        """Whether the process is dead: none of its requests reach the API server."""
        return self._died.is_set()

    def die(self) -> None:
        """Kill the process now."""
        self._died.set()

    def storm(self, chance: random.Random, share: float = 0.2) -> None:
        """Make this share of all requests fail, each in a random way that is possible for it; watches break as often.

        A request is rejected (409, 429, 500 or 503), or processed with its answer lost. A watch ends, or gets the error
        that its resource version has expired (410).
        """

        def answer(request: Request) -> Response | None:
            return chance.choice(_refusals(request)) if chance.random() < share / 2 else None

        def breaks() -> bytes | None:
            return chance.choice((b"", _EXPIRED)) if chance.random() < share else None

        self.answer, self._breaks = answer, breaks
        self.loses = lambda _: chance.random() < share / 2

    def calm(self) -> None:
        """Stop causing faults. A dead process stays dead."""
        self.answer, self.loses, self._breaks = lambda _: None, lambda _: False, lambda: None
        self.lag, self.dies_after = 0.0, None

    async def died_or(self, check: Callable[P, Awaitable[object]], *args: P.args, **kwargs: P.kwargs) -> None:
        """Wait until the operator has died, or `eventually(check)` returns."""
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

    async def rest(self, *, quiet: Seconds = 2.0, within: Seconds = 300.0) -> None:
        """Wait until the operator has written nothing for the time `quiet`, so that its work is done.

        Raises AssertionError if that does not happen `within` that time. Both are seconds or a timedelta.
        """
        clock = asyncio.get_running_loop().time
        began, written = clock(), -1
        while written != self.writes:
            if clock() > began + seconds(within):
                raise AssertionError(f"the operator still writes after {seconds(within):g} s: {self.writes} writes")
            written = self.writes
            await asyncio.sleep(seconds(quiet))

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
        """Count a write and return its number; None for any other request."""
        if request.method == "GET" or request.path.startswith(_UNCOUNTED):
            return None
        if self.dies_after is not None and self.writes >= self.dies_after:
            raise ConnectionFailed("the process has made its last write")  # which is still on its way
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
        """Yield the chunks of a watch with a delay, until it breaks or the process dies."""
        clock = asyncio.get_running_loop().time
        chunks: asyncio.Queue[tuple[float, bytes | BaseException | None]] = asyncio.Queue()

        async def read() -> None:
            try:
                async for chunk in body:
                    chunks.put_nowait((clock(), chunk))
                chunks.put_nowait((clock(), None))
            except Exception as error:  # noqa: BLE001 - passed on to the reader of the watch
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
    """Yield faults for an operator that dies after its first write, then for one that dies after its second, and so on.

        async for faults in killed_after_each_write(account):
            ...                                               # create an object
            async with operator.replace(transport=faults):
                await faults.died_or(check, name)
            async with operator.replace(config=account):
                await eventually(check, name)
            ...                                               # delete it, so that it makes no work for the next one

    Ends after the first operator that passed the check before it died.
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
    {"type": "ERROR", "object": Status(410, "Expired", "too old resource version: caused by a test").to_dict()}
) + b"\n"  # fmt: skip


def _refusals(request: Request) -> list[Response]:
    """Return the answers with which an API server can reject a request."""
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
