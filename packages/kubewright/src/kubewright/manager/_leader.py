"""Leader election: of several processes of one operator, only one works.

Guarantees
    Work begins after this process has won the Lease. It has stopped before another process can win it, provided that
    the clocks of both run at the same rate (the margin is a third of the lease). A lease is valid from the moment
    before its renewal was sent.
    The times of two machines are never compared, and setting a clock has no effect: the lease of another process has
    expired if it has not changed for its duration.
    A process that was halted and wakes up too late sends no writes (`Fence`).
    A graceful stop releases the Lease after the workers have stopped, so that the next leader does not wait.
Not guaranteed
    That a write sent just before the end does not arrive later: no client can call a request back.
    That a process notices immediately that its machine was suspended. On some systems the monotonic clock stands still
    during that time, so a write may pass until the next renewal fails.

Follows client-go's tools/leaderelection; the fence is ours.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import uuid
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from kubewright._runtime.clock import Clock, monotonic
from kubewright._runtime.log import get_logger
from kubewright.apis.coordination.v1 import Lease, LeaseSpec
from kubewright.client._client import Client
from kubewright.client._transport import Transport
from kubewright.http.message import Request, Response
from kubewright.machinery.errors import AlreadyExists, ConfigError, Conflict, KubewrightError, LeadershipLost, NotFound
from kubewright.machinery.time import Seconds, seconds
from kubewright.models._meta import MicroTime, ObjectMeta
from kubewright.models._rbac import PolicyRule

LEASE_RULE: Final = PolicyRule(
    api_groups=["coordination.k8s.io"], resources=["leases"], verbs=["create", "get", "update"]
)
"""The permissions of a candidate in the Lease's namespace."""

_JITTER: Final = 1.2
"""Jitter of retries: 20 %, so that candidates do not send requests at the same time."""

_READS: Final = frozenset({"GET", "HEAD"})


class LeaderElection(msgspec.Struct, frozen=True):
    """Settings of the election. The default durations are controller-runtime's; they are seconds or a timedelta.

    Raises ConfigError for durations that leave no time to stop: the lease must outlast the deadline, and the deadline a
    retry.
    """

    name: str = ""
    """Name of the Lease; empty: the Manager's name."""
    namespace: str = ""
    """Namespace of the Lease; empty: that of the Pod, or of the kubeconfig's context."""
    lease_duration: Seconds = 15.0
    """How long the others wait for a leader that does not renew."""
    renew_deadline: Seconds = 10.0
    """How long a leader continues to work without a renewal."""
    retry_period: Seconds = 2.0
    """Time between renewals, and between attempts of the others."""
    release_on_stop: bool = True
    """A graceful stop releases the Lease, so that another process can lead immediately."""

    def __post_init__(self) -> None:
        lease, deadline, retry = map(seconds, (self.lease_duration, self.renew_deadline, self.retry_period))
        if not (lease > deadline > retry * _JITTER and retry > 0):
            raise ConfigError(
                f"leader election: lease_duration ({lease:g} s) must be longer than renew_deadline ({deadline:g} s), "
                f"and renew_deadline longer than {_JITTER} times retry_period ({retry:g} s)"
            )


def identity() -> str:
    """Return a name that no other process has: `<host name>_<uuid>`. In a Pod the host name is the Pod's name."""
    return f"{os.environ.get('HOSTNAME') or socket.gethostname()}_{uuid.uuid4()}"


class Fence:
    """A transport that sends writes only while this process leads. Reads always pass, so that a standby has caches.

    The check happens when a write goes out, because it may have waited for a connection or for a retry.
    """

    def __init__(self, transport: Transport, is_leading: Callable[[], bool]) -> None:
        self._transport = transport
        self._is_leading = is_leading

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:
        def check() -> None:
            if not self._is_leading():
                raise LeadershipLost(f"{request.method} {request.path}: not sent, because this process does not lead")

        if request.method not in _READS:
            request.fence = check
        return await self._transport.send(request, timeout=timeout, stream=stream)

    async def close(self) -> None:
        await self._transport.close()


class LeaderElector:
    """One candidate for one Lease: `await acquire()`, then `await hold()`, and at the end `await release()`."""

    def __init__(self, client: Client, settings: LeaderElection, holder: str, *, clock: Clock) -> None:
        self.lease = Lease(metadata=ObjectMeta(name=settings.name, namespace=settings.namespace))
        """The last known state of the Lease."""
        self.holder = holder
        self._client = client
        self._settings = settings
        self._clock = clock
        self._lease_duration = seconds(settings.lease_duration)
        self._deadline = seconds(settings.renew_deadline)
        self._retry = seconds(settings.retry_period)
        self._blocked = 0.0
        """The longest time, since the last renewal, for which the event loop did not run this."""
        self._log = get_logger("kubewright.manager.leader").bind(
            lease=f"{settings.namespace}/{settings.name}", identity=holder
        )
        self._seen: LeaseSpec | None = None
        self._seen_at = 0.0
        self._renewed_at: float | None = None
        self._logged_leader = ""

    @property
    def leading(self) -> bool:
        """Whether the Lease is ours, and its last renewal so recent that no other process can have taken it."""
        return self._renewed_at is not None and monotonic() - self._renewed_at < self._deadline

    async def acquire(self) -> None:
        """Wait until this process leads."""
        self._log.info("Leadership requested")
        while not await self._try(self._deadline / 2):  # noqa: ASYNC110 - the Lease is on the server
            await asyncio.sleep(self._retry * random.uniform(1.0, _JITTER))
        self._log.info("Leadership acquired", transitions=self.lease.spec.lease_transitions)

    async def hold(self) -> None:
        """Renew the Lease as long as that succeeds. Raises LeadershipLost: the workers must stop immediately."""
        reason = ""
        while not reason:
            reason = await self._renew()
        self._renewed_at = None
        raise LeadershipLost(
            f"Lease {self._settings.namespace}/{self._settings.name}: {reason}; stopping, so that "
            f"two processes never lead"
        )

    async def _renew(self) -> str:
        """Wait for the next renewal and try it. Return why leadership is lost, or nothing."""
        assert self._renewed_at is not None
        expires = self._renewed_at + self._deadline
        pause = max(0.0, min(self._retry, expires - monotonic()))
        await self._punctually(asyncio.sleep(pause), pause)
        left = expires - monotonic()
        if left > 0:
            limit = min(left, self._deadline / 2)
            await self._punctually(self._try(limit), limit)
        holder = self._seen.holder_identity if self._seen is not None else self.holder
        if holder != self.holder:
            return f"{f'taken by {holder}' if holder else 'its holder was removed'}{self._why_late()}"
        return "" if left > 0 else f"not renewed within {self._deadline:g} s{self._why_late()}"

    def _why_late(self) -> str:
        if self._blocked < self._deadline / 2:
            return ""
        return (
            f" because the event loop stood still for {self._blocked:.1f} s: the process was halted, or a reconcile "
            f"blocked it (see the warning 'Event loop blocked', and call blocking code with `await run_blocking(...)`)"
        )

    async def _punctually(self, work: Awaitable[object], limit: float) -> None:
        """Await `work`, which ends within `limit` seconds unless the event loop is blocked."""
        began = monotonic()
        await work
        self._blocked = max(self._blocked, monotonic() - began - limit)

    async def release(self) -> None:
        """Release the Lease, after the workers have stopped. If that fails, the others wait until it expires."""
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
            async with asyncio.timeout(self._deadline / 2):
                await self._client.update(self.lease)
        except (KubewrightError, TimeoutError) as error:
            self._log.warning("Lease not released", error=str(error) or "no answer in time")
        else:
            self._log.info("Lease released")

    async def _try(self, limit: float) -> bool:
        """Try once to get or renew the Lease, within `limit` seconds."""
        started = monotonic()
        try:
            async with asyncio.timeout(limit):
                won = await self._get_or_renew()
        except (KubewrightError, TimeoutError) as error:
            self._log.warning("Lease not updated", error=str(error) or "no answer in time")
            return False
        if won:
            self._renewed_at, self._blocked = started, 0.0
        return won

    async def _get_or_renew(self) -> bool:
        if self._renewed_at is None or not self.lease.metadata.resource_version:
            if not await self._look():
                return await self._create()
            if not self._is_free():
                return False
        try:
            return await self._write()
        # A request of ours arrived although its answer was lost, another process was faster, or the Lease was deleted.
        except (Conflict, NotFound):
            if not await self._look():
                return await self._create()
            return self._is_free() and await self._write()

    async def _look(self) -> bool:
        """Read the Lease. Return False if it does not exist."""
        meta = self.lease.metadata
        try:
            self.lease = await self._client.get(Lease, meta.name, namespace=meta.namespace)
        except NotFound:
            self.lease = Lease(metadata=ObjectMeta(name=meta.name, namespace=meta.namespace))
            return False
        if self.lease.spec != self._seen:
            self._seen, self._seen_at = self.lease.spec, monotonic()
        holder = self.lease.spec.holder_identity or ""
        if holder not in (self.holder, self._logged_leader):
            self._logged_leader = holder
            self._log.info("Other leader found", leader=holder)
        return True

    def _is_free(self) -> bool:
        spec = self.lease.spec
        if spec.holder_identity in (None, "", self.holder):
            return True
        duration = max(spec.lease_duration_seconds or 0, self._lease_duration)  # the holder may have a longer one
        return monotonic() - self._seen_at >= duration

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
        """Return the state of a Lease that this process holds from now on."""
        spec, now = self.lease.spec, MicroTime.of(self._clock.now())
        ours = spec.holder_identity == self.holder
        transitions = spec.lease_transitions or 0
        return LeaseSpec(
            holder_identity=self.holder,
            lease_duration_seconds=round(self._lease_duration),
            acquire_time=spec.acquire_time if ours else now,
            renew_time=now,
            lease_transitions=transitions if ours or not self.lease.metadata.resource_version else transitions + 1,
        )

    def _remember(self, lease: Lease) -> None:
        self.lease = lease
        self._seen, self._seen_at = lease.spec, monotonic()
