"""Leader election: one process leads, and never two."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from kubewright._runtime.clock import Clock
from kubewright.client._client import Client
from kubewright.client._config import Config
from kubewright.client._transport import HandlerTransport, HTTPTransport
from kubewright.http.message import Request, Response
from kubewright.http.server import Server
from kubewright.machinery.errors import ConfigError, LeadershipLost
from kubewright.manager._leader import Fence, LeaderElection, LeaderElector
from kubewright.testing import VirtualClock

from .smallserver import SmallServer

DAY = 86400.0

LEASE = "/apis/coordination.k8s.io/v1/namespaces/system/leases/web"


class Candidate:
    """A process that takes part in the election, and works while it leads."""

    def __init__(self, name: str, server: SmallServer, clock: Clock) -> None:
        self.server = SmallServer()  # its own connection to the server, which can be broken
        self.server.share(server)
        client = Client(transport=HandlerTransport(self.server.handle, clock=clock), clock=clock)
        settings = LeaderElection(name="web", namespace="system")
        self.elector = LeaderElector(client, settings, name, clock=clock)
        self.working = False
        self.lost: LeadershipLost | None = None
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        await self.elector.acquire()
        self.working = True
        try:
            await self.elector.hold()
        except LeadershipLost as error:
            self.lost = error
        finally:
            self.working = False

    async def stop(self) -> None:
        """Stop gracefully: end the work, then release the Lease."""
        self.task.cancel()
        await asyncio.wait([self.task])
        await self.elector.release()


class OwnTime:
    """A clock whose time of day is set during the test."""

    def __init__(self, clock: VirtualClock) -> None:
        self.ahead = 0.0
        self.monotonic, self.sleep, self.call_later = clock.monotonic, clock.sleep, clock.call_later
        self._clock = clock

    def now(self) -> datetime:
        return self._clock.now() + timedelta(seconds=self.ahead)


@pytest.fixture
def candidates(server: SmallServer, clock: VirtualClock) -> Iterator[list[Candidate]]:
    running: list[Candidate] = []
    yield running
    for each in running:
        each.task.cancel()


def stand(name: str, server: SmallServer, clock: Clock, candidates: list[Candidate]) -> Candidate:
    candidates.append(Candidate(name, server, clock))
    return candidates[-1]


async def test_the_first_candidate_creates_the_lease_and_leads(
    server: SmallServer, clock: VirtualClock, candidates: list[Candidate]
) -> None:
    first = stand("a", server, clock, candidates)
    await clock.advance(0)
    assert first.working
    assert first.elector.leading
    spec = server.objects[LEASE]["spec"]
    assert spec["holderIdentity"] == "a"
    assert spec["leaseDurationSeconds"] == 15
    assert spec.get("leaseTransitions", 0) == 0
    assert spec["acquireTime"] == spec["renewTime"] == "2026-01-01T00:00:00.000000Z"


async def test_the_leader_renews_every_two_seconds_and_keeps_the_acquire_time(
    server: SmallServer, clock: VirtualClock, candidates: list[Candidate]
) -> None:
    stand("a", server, clock, candidates)
    await clock.advance(60)
    spec = server.objects[LEASE]["spec"]
    assert spec["renewTime"] == "2026-01-01T00:01:00.000000Z"
    assert spec["acquireTime"] == "2026-01-01T00:00:00.000000Z"


async def test_a_second_candidate_waits_while_the_first_renews(
    server: SmallServer, clock: VirtualClock, candidates: list[Candidate]
) -> None:
    first, second = stand("a", server, clock, candidates), stand("b", server, clock, candidates)
    await clock.advance(300)
    assert first.working
    assert not second.working


async def test_another_candidate_leads_when_the_lease_of_a_dead_leader_expires(
    server: SmallServer, clock: VirtualClock, candidates: list[Candidate]
) -> None:
    first = stand("a", server, clock, candidates)
    await clock.advance(20)
    second = stand("b", server, clock, candidates)
    await clock.advance(5)
    first.task.cancel()
    await clock.advance(13)
    assert not second.working
    await clock.advance(7)
    assert second.working
    spec = server.objects[LEASE]["spec"]
    assert spec["holderIdentity"] == "b"
    assert spec["leaseTransitions"] == 1


async def test_an_old_renew_time_does_not_expire_the_lease(
    server: SmallServer, clock: VirtualClock, candidates: list[Candidate]
) -> None:
    first = stand("a", server, clock, candidates)
    await clock.advance(0)
    first.task.cancel()
    server.objects[LEASE]["spec"]["renewTime"] = "2001-01-01T00:00:00.000000Z"
    second = stand("b", server, clock, candidates)
    await clock.advance(14)
    assert not second.working


@pytest.mark.parametrize("jump", [DAY, -DAY, 20.0, -20.0])
@pytest.mark.parametrize("whose", ["leader", "standby"])
async def test_setting_a_clock_neither_ends_nor_grants_leadership(
    server: SmallServer, clock: VirtualClock, candidates: list[Candidate], jump: float, whose: str
) -> None:
    clocks = {"leader": OwnTime(clock), "standby": OwnTime(clock)}
    first = stand("a", server, clocks["leader"], candidates)
    await clock.advance(5)
    second = stand("b", server, clocks["standby"], candidates)
    await clock.advance(5)
    for _ in range(3):
        clocks[whose].ahead += jump
        for _ in range(40):
            await clock.advance(0.5)
            assert first.working
            assert not second.working
    first.task.cancel()
    await clock.advance(13)
    assert not second.working
    await clock.advance(7)
    assert second.working


async def test_a_disconnected_leader_stops_before_another_can_lead(
    server: SmallServer, clock: VirtualClock, candidates: list[Candidate]
) -> None:
    first, second = stand("a", server, clock, candidates), stand("b", server, clock, candidates)
    await clock.advance(31)
    first.server.down = True
    stopped_at = led_at = None
    for _ in range(400):
        await clock.advance(0.1)
        assert not (first.working and second.working)
        if stopped_at is None and not first.working:
            stopped_at = clock.monotonic()
        if led_at is None and second.working:
            led_at = clock.monotonic()
    assert stopped_at is not None
    assert led_at is not None
    assert led_at - stopped_at >= 4
    assert first.lost is not None
    assert "Lease system/web" in str(first.lost)


async def test_an_outage_shorter_than_the_deadline_does_not_end_leadership(
    server: SmallServer, clock: VirtualClock, candidates: list[Candidate]
) -> None:
    first = stand("a", server, clock, candidates)
    await clock.advance(30)
    first.server.down = True
    await clock.advance(7)
    first.server.down = False
    await clock.advance(30)
    assert first.working


async def test_a_lost_answer_to_a_renewal_does_not_end_leadership(
    server: SmallServer, clock: VirtualClock, candidates: list[Candidate]
) -> None:
    first = stand("a", server, clock, candidates)
    await clock.advance(3)
    first.server.loses_answers = True
    await clock.advance(2)
    first.server.loses_answers = False
    await clock.advance(30)
    assert first.working
    assert server.objects[LEASE]["spec"].get("leaseTransitions", 0) == 0


async def test_a_deleted_lease_is_created_again(
    server: SmallServer, clock: VirtualClock, candidates: list[Candidate]
) -> None:
    first = stand("a", server, clock, candidates)
    await clock.advance(3)
    del server.objects[LEASE]
    await clock.advance(3)
    assert first.working
    assert server.objects[LEASE]["spec"]["holderIdentity"] == "a"


async def test_leadership_ends_at_the_next_renewal_if_the_holder_was_edited(
    server: SmallServer, clock: VirtualClock, candidates: list[Candidate]
) -> None:
    first = stand("a", server, clock, candidates)
    await clock.advance(3)
    server.touch(LEASE, {"spec": server.objects[LEASE]["spec"] | {"holderIdentity": "somebody"}})
    await clock.advance(2)
    assert not first.working
    assert not first.elector.leading


async def test_after_a_graceful_stop_the_next_candidate_does_not_wait(
    server: SmallServer, clock: VirtualClock, candidates: list[Candidate]
) -> None:
    first, second = stand("a", server, clock, candidates), stand("b", server, clock, candidates)
    await clock.advance(10)
    await first.stop()
    assert server.objects[LEASE]["spec"]["holderIdentity"] == ""
    await clock.advance(2.5)
    assert second.working


async def test_one_of_several_candidates_leads(
    server: SmallServer, clock: VirtualClock, candidates: list[Candidate]
) -> None:
    for name in "abcde":
        stand(name, server, clock, candidates)
    await clock.advance(60)
    assert sum(each.working for each in candidates) == 1


async def test_the_fence_passes_reads_always_and_writes_only_for_a_leader(server: SmallServer) -> None:
    leading = False
    fence = Fence(HandlerTransport(server.handle), lambda: leading)
    await fence.send(Request("GET", LEASE))
    with pytest.raises(LeadershipLost, match="does not lead"):
        await fence.send(Request("DELETE", LEASE))
    leading = True
    await fence.send(Request("PUT", LEASE, body=b"{}"))
    assert [each.method for each in server.requests] == ["GET", "PUT"]


async def test_a_write_that_waits_for_a_retry_is_not_sent_after_the_lease_is_lost() -> None:
    leading, asked = True, asyncio.Event()
    requests: list[Request] = []

    async def busy(request: Request) -> Response:
        requests.append(request)
        asked.set()
        return Response(429, {"retry-after": "5"})

    server, clock = Server(busy), VirtualClock()
    await server.start()
    transport = HTTPTransport(Config(f"http://127.0.0.1:{server.port}"), clock=clock)
    fence = Fence(transport, lambda: leading)
    sending = asyncio.create_task(fence.send(Request("PATCH", LEASE, body=b"{}")))
    await asked.wait()
    leading = False
    while not sending.done():
        await clock.advance(1)
        await asyncio.sleep(0.001)
    assert isinstance(sending.exception(), LeadershipLost)
    assert len(requests) == 1
    await transport.close()
    await server.close()


def test_durations_that_leave_no_time_to_stop_are_rejected() -> None:
    good = LeaderElection()
    with pytest.raises(ConfigError, match="lease_duration"):
        replace(good, renew_deadline=timedelta(seconds=15))
    with pytest.raises(ConfigError, match="retry_period"):
        replace(good, retry_period=timedelta(seconds=9))


def test_durations_are_seconds_or_timedeltas() -> None:
    LeaderElection(lease_duration=30, renew_deadline=20.5, retry_period=timedelta(seconds=4))
    with pytest.raises(ConfigError, match=r"lease_duration \(30 s\) must be longer than renew_deadline \(60 s\)"):
        LeaderElection(lease_duration=30, renew_deadline=timedelta(minutes=1))
