"""Leader election: of several processes of one operator, one works.

Guarantees
    Work begins after the Lease was won. It has stopped before anybody else can win it, as long as the others' clocks
    run at the rate of this machine's (the margin is a third of the lease): the time that a lease is good for is
    counted from before the request that renewed it was sent.
    Clocks are never compared, and one that is set changes nothing: another's lease has run out when it was not seen to
    change for as long as it says.
    A write that a worker makes when the time is over, because the process was halted, does not leave it (`Fence`).
    On a graceful stop the Lease is released after the workers have stopped, so that the next leader need not wait.
Not guaranteed
    That a write sent just before the end has not still to arrive: no client can call one back.
    That a machine which was suspended knows it at once: its monotonic clock stands still meanwhile on some systems, and
    a write may pass before the next renewal, which fails, ends the work.

Follows client-go's tools/leaderelection; the fence is ours.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from kubewright._runtime.clock import Clock
from kubewright._runtime.log import get_logger
from kubewright.apis.coordination.v1 import Lease, LeaseSpec
from kubewright.client._client import Client
from kubewright.client._transport import Transport
from kubewright.http.message import Request, Response
from kubewright.machinery.errors import AlreadyExists, ConfigError, Conflict, KubewrightError, LeadershipLost, NotFound
from kubewright.models._meta import MicroTime, ObjectMeta
from kubewright.models._rbac import PolicyRule

LEASE_RULE: Final = PolicyRule(
    api_groups=["coordination.k8s.io"], resources=["leases"], verbs=["create", "get", "update"]
)
"""What a candidate needs in the namespace of the Lease."""

_JITTER: Final = 1.2
"""Retries are spread by a fifth, so that candidates do not ask in step."""

_READS: Final = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class LeaderElection:
    """How to elect. Durations are controller-runtime's.

    Raises ConfigError for durations that leave no time to stop: the lease outlasts the deadline, the deadline a retry.
    """

    name: str = ""
    """Of the Lease; the Manager's own name when empty."""
    namespace: str = ""
    """Of the Lease; the namespace of the Pod, or of the kubeconfig's context, when empty."""
    lease_duration: timedelta = timedelta(seconds=15)
    """For how long a leader that was not heard of is waited for."""
    renew_deadline: timedelta = timedelta(seconds=10)
    """After this time without a renewal the leader gives up."""
    retry_period: timedelta = timedelta(seconds=2)
    """Between renewals, and between attempts of the others."""
    release_on_stop: bool = True
    """On a graceful stop let the next one lead at once."""

    def __post_init__(self) -> None:
        if not self.lease_duration > self.renew_deadline > self.retry_period * _JITTER:
            raise ConfigError(
                f"leader election: lease_duration ({self.lease_duration}) must be longer than renew_deadline "
                f"({self.renew_deadline}), and that longer than {_JITTER} times retry_period ({self.retry_period})"
            )


def identity() -> str:
    """A name for this process that no other has: `<host name>_<uuid>`. In a Pod the host's name is the Pod's."""
    return f"{os.environ.get('HOSTNAME') or socket.gethostname()}_{uuid.uuid4()}"


class Fence:
    """A transport that lets writes pass only while this process leads. Reads always do: a standby keeps its caches.

    It looks at the moment when a write goes out: one may have waited for a connection, or to be sent again.
    """

    def __init__(self, transport: Transport, is_leading: Callable[[], bool]) -> None:
        self._transport = transport
        self._is_leading = is_leading

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:
        def check() -> None:
            if not self._is_leading():
                raise LeadershipLost(f"{request.method} {request.path}: not sent, since this process does not lead")

        if request.method not in _READS:
            request.fence = check
        return await self._transport.send(request, timeout=timeout, stream=stream)

    async def close(self) -> None:
        await self._transport.close()


class LeaderElector:
    """One candidate for one Lease: `await acquire()`, then `await hold()`, at the end `await release()`."""

    def __init__(self, client: Client, settings: LeaderElection, holder: str, *, clock: Clock) -> None:
        self.lease = Lease(metadata=ObjectMeta(name=settings.name, namespace=settings.namespace))
        """The Lease as it was last seen."""
        self.holder = holder
        self._client = client
        self._settings = settings
        self._clock = clock
        self._log = get_logger("kubewright.manager._leader").bind(
            lease=f"{settings.namespace}/{settings.name}", identity=holder
        )
        self._seen: LeaseSpec | None = None
        self._seen_at = 0.0
        self._renewed_at: float | None = None
        self._told_of = ""

    @property
    def leading(self) -> bool:
        """The Lease is ours, and was renewed recently enough that nobody else can have taken it."""
        if self._renewed_at is None:
            return False
        return self._clock.monotonic() - self._renewed_at < self._settings.renew_deadline.total_seconds()

    async def acquire(self) -> None:
        """Wait until this process leads."""
        self._log.info("Waiting for leadership")
        while not await self._try(self._settings.renew_deadline.total_seconds() / 2):
            retry = self._settings.retry_period.total_seconds()
            await self._clock.sleep(retry * random.uniform(1.0, _JITTER))
        self._log.info("Became leader", transitions=self.lease.spec.lease_transitions)

    async def hold(self) -> None:
        """Renew the Lease for as long as that goes well. Raises LeadershipLost: the workers have to stop at once."""
        retry = self._settings.retry_period.total_seconds()
        while self._renewed_at is not None:
            left = self._renewed_at + self._settings.renew_deadline.total_seconds() - self._clock.monotonic()
            await self._clock.sleep(min(retry, left))
            left = self._renewed_at + self._settings.renew_deadline.total_seconds() - self._clock.monotonic()
            if left <= 0:
                break
            await self._try(min(left, self._settings.renew_deadline.total_seconds() / 2))
            if self._seen is not None and self._seen.holder_identity != self.holder:
                break
        self._renewed_at = None
        raise LeadershipLost(
            f"Lease {self._settings.namespace}/{self._settings.name}: taken by another, or not renewed within "
            f"{self._settings.renew_deadline.total_seconds():g} s; stopping, so that two never lead"
        )

    async def release(self) -> None:
        """Give the Lease up, after the workers have stopped. A failure is logged: the others then wait for its end."""
        if not self.leading or not self._settings.release_on_stop:
            self._renewed_at = None
            return
        self._renewed_at = None
        now = MicroTime.of(self._clock.now())
        self.lease.spec = LeaseSpec(
            holder_identity="",
            lease_duration_seconds=1,
            acquire_time=now,
            renew_time=now,
            lease_transitions=self.lease.spec.lease_transitions,
        )
        try:
            async with asyncio.timeout(self._settings.renew_deadline.total_seconds() / 2):
                await self._client.update(self.lease)
        except (KubewrightError, TimeoutError) as error:
            self._log.warning("Lease not released", error=str(error) or "no answer in time")
        else:
            self._log.info("Lease released")

    async def _try(self, seconds: float) -> bool:
        """One attempt to get or renew the Lease, within that time."""
        started = self._clock.monotonic()
        try:
            async with asyncio.timeout(seconds):
                won = await self._get_or_renew()
        except (KubewrightError, TimeoutError) as error:
            self._log.warning("Lease not reached", error=str(error) or "no answer in time")
            return False
        if won:
            self._renewed_at = started
        return won

    async def _get_or_renew(self) -> bool:
        if self._renewed_at is None or not self.lease.metadata.resource_version:
            if not await self._look():
                return await self._create()
            if not self._is_free():
                return False
        try:
            return await self._write()
        except (
            Conflict,
            NotFound,
        ):  # an unanswered attempt of ours arrived, someone else was faster, or it was deleted
            if not await self._look():
                return await self._create()
            return self._is_free() and await self._write()

    async def _look(self) -> bool:
        """See what the Lease says; False when there is none."""
        meta = self.lease.metadata
        try:
            self.lease = await self._client.get(Lease, meta.name, namespace=meta.namespace)
        except NotFound:
            self.lease = Lease(metadata=ObjectMeta(name=meta.name, namespace=meta.namespace))
            return False
        if self.lease.spec != self._seen:
            self._seen, self._seen_at = self.lease.spec, self._clock.monotonic()
        holder = self.lease.spec.holder_identity or ""
        if holder not in (self.holder, self._told_of):
            self._told_of = holder
            self._log.info("Another leads", leader=holder)
        return True

    def _is_free(self) -> bool:
        spec = self.lease.spec
        if spec.holder_identity in (None, "", self.holder):
            return True
        # What the holder says it needs counts, where that is more than what we were told.
        seconds = max(spec.lease_duration_seconds or 0, self._settings.lease_duration.total_seconds())
        return self._clock.monotonic() - self._seen_at >= seconds

    async def _create(self) -> bool:
        self.lease.spec = self._claim()
        try:
            self._remember(await self._client.create(self.lease))
        except AlreadyExists:
            return False
        return True

    async def _write(self) -> bool:
        self.lease.spec = self._claim()
        self._remember(await self._client.update(self.lease))
        return True

    def _claim(self) -> LeaseSpec:
        """The Lease as it is when we hold it from now on."""
        spec, now = self.lease.spec, MicroTime.of(self._clock.now())
        ours = spec.holder_identity == self.holder
        transitions = spec.lease_transitions or 0
        return LeaseSpec(
            holder_identity=self.holder,
            lease_duration_seconds=round(self._settings.lease_duration.total_seconds()),
            acquire_time=spec.acquire_time if ours else now,
            renew_time=now,
            lease_transitions=transitions if ours or not self.lease.metadata.resource_version else transitions + 1,
        )

    def _remember(self, lease: Lease) -> None:
        self.lease = lease
        self._seen, self._seen_at = lease.spec, self._clock.monotonic()
