"""What an authority issues, and how it is replaced while everything that it has signed stays trusted."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import pytest

from kubewright.certificates import Authority, KeyPair, hosts_of, issue, new_authority
from kubewright.http.tls import server_context

NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)
HOSTS = ("db.shop.svc", "10.0.0.1")


def handshake(server: KeyPair, trusted: bytes) -> None:
    """Connect to a server in memory as a client that trusts only these authorities. Raises ssl.SSLError."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(cadata=trusted.decode())
    client = context.wrap_bio(back, there, server_hostname="db.shop.svc")
    answering = server_context(server.certificate, server.key).wrap_bio(there, back, server_side=True)
    waiting = [client, answering]
    for _ in range(9):
        for side in list(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(side)
    assert not waiting


def test_a_rotation_breaks_no_connection_of_a_side_that_is_one_step_behind() -> None:
    old = Authority(new_authority("old", NOW, 10 * DAY))
    began = old.begun("new", NOW, 10 * DAY)
    switched = began.switched(NOW)
    steps = [old, began, switched, switched.finished(NOW)]
    for number, step in enumerate(steps):
        server = issue(step.signer, "db", NOW, DAY, hosts=HOSTS)
        for near in steps[max(number - 1, 0) : number + 2]:
            handshake(server, near.bundle)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(issue(old.signer, "db", NOW, DAY, hosts=HOSTS), steps[-1].bundle)


def test_the_next_step_follows_from_the_data_of_a_secret() -> None:
    old = Authority(new_authority("old", NOW, 10 * DAY))
    began = old.begun("new", NOW, 10 * DAY)
    for step in (old, began, began.switched(NOW), began.switched(NOW).finished(NOW)):
        assert Authority.read(step.data) == step
    assert began.switched(NOW).bundle == began.bundle
    with pytest.raises(ValueError, match=r"tls\.crt is missing"):
        Authority.read({})


def test_an_authority_whose_key_was_lost_stays_trusted_while_its_successor_signs() -> None:
    lost = new_authority("old", NOW, 10 * DAY)
    earlier = issue(lost, "db", NOW, DAY, hosts=HOSTS)
    rescued = Authority(KeyPair(lost.certificate, b"")).begun("new", NOW, 10 * DAY)
    later = issue(rescued.signer, "db", NOW, DAY, hosts=HOSTS)
    for server in (earlier, later):
        assert rescued.has_signed(server.parsed)
        handshake(server, rescued.bundle)
    assert not rescued.switched(NOW).has_signed(earlier.parsed)


def test_a_certificate_ends_with_its_authority_and_has_aged_after_two_thirds_of_its_time() -> None:
    authority = new_authority("short", NOW, 3 * DAY)
    server = issue(authority, "db", NOW, 365 * DAY, hosts=HOSTS)
    assert hosts_of(server.parsed) == set(HOSTS)
    assert server.parsed.not_valid_after_utc == NOW + 3 * DAY
    assert not server.has_aged(NOW + DAY)
    assert server.has_aged(NOW + 2 * DAY)
