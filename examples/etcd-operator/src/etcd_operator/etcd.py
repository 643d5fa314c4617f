"""An asynchronous client of one etcd member, over its JSON gateway.

Each method is one request with a time limit, and is never retried: the caller decides with a fresh view.

Raises, everywhere
    Unreachable    no answer, or none in time. A change may have happened.
    Refused        etcd answers with an error. Nothing changed.
"""

from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, TypeVar

import msgspec
from kubewright import Config, ConnectionFailed, DeadlineExceeded
from kubewright.client import HTTPTransport
from kubewright.http.message import Request, Response

TIMEOUT: Final = 3.0
SLOW: Final = 60.0
"""Seconds for a defragmentation, which reads and writes the whole database."""
_HASH: Final = sha256().digest_size


class Unreachable(Exception):
    """The member does not answer."""


class Refused(Exception):
    """The member answers with an error."""


class SnapshotBroken(Exception):
    """The snapshot is not complete, or its hash is not the one that etcd sent."""


@dataclass(frozen=True)
class Credentials:
    """What a client of a cluster with TLS needs, in PEM."""

    ca: bytes
    certificate: bytes
    key: bytes
    server_name: str
    """A name in the certificates of all members: that of the Service for clients."""


class Message(msgspec.Struct, rename="camel"):
    """An answer of etcd. Numbers of 64 bits are strings in JSON."""


class Header(Message):
    cluster_id: str = msgspec.field(name="cluster_id", default="")
    member_id: str = msgspec.field(name="member_id", default="")
    revision: str = "0"
    raft_term: str = msgspec.field(name="raft_term", default="0")


class Member(Message):
    """An entry of the membership."""

    id: str = msgspec.field(name="ID", default="")
    name: str = ""
    """Empty until the member has started for the first time."""
    peer_urls: list[str] = msgspec.field(name="peerURLs", default_factory=list[str])
    client_urls: list[str] = msgspec.field(name="clientURLs", default_factory=list[str])
    is_learner: bool = False


class Answer(Message):
    """Any answer."""

    header: Header = msgspec.field(default_factory=Header)


A = TypeVar("A", bound=Answer)


class Members(Answer):
    members: list[Member] = []


class DowngradeInfo(Message):
    enabled: bool = False
    target_version: str = ""


class Status(Answer):
    """A member's own state."""

    version: str = ""
    db_size: str = "0"
    db_size_in_use: str = "0"
    leader: str = "0"
    raft_index: str = "0"
    raft_term: str = "0"
    raft_applied_index: str = "0"
    storage_version: str = ""
    """The version that can read the member's data, and newer ones; empty in etcd 3.5."""
    errors: list[str] = []
    is_learner: bool = False
    downgrade_info: DowngradeInfo = msgspec.field(default_factory=DowngradeInfo)


class Versions(Message):
    etcdserver: str = ""
    etcdcluster: str = ""


class Alarm(Message):
    member_id: str = msgspec.field(name="memberID", default="")
    alarm: str = "NONE"


class Alarms(Answer):
    alarms: list[Alarm] = []


class KeyValue(Message):
    key: bytes = b""
    value: bytes = b""
    mod_revision: str = msgspec.field(name="mod_revision", default="0")
    version: str = "0"


class Range(Answer):
    kvs: list[KeyValue] = []


class Transaction(Answer):
    succeeded: bool = False


class _Error(Message):
    message: str = ""


class _Chunk(Message):
    blob: bytes = b""


class _Part(Message):
    result: _Chunk | None = None
    error: _Error | None = None


class Etcd:
    """A client of the member at `url`. Use it in an `async with` block, or call `close`."""

    def __init__(self, url: str, credentials: Credentials | None = None, *, timeout: float = TIMEOUT) -> None:
        self.url = url
        self._timeout = timeout
        config = Config(server=url)
        if credentials is not None:
            config = Config(
                server=url,
                ca=credentials.ca,
                client_cert=credentials.certificate,
                client_key=credentials.key,
                tls_server_name=credentials.server_name,
            )
        self._transport = HTTPTransport(config)

    async def __aenter__(self) -> "Etcd":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    # ---- membership

    async def members(self, *, linearizable: bool = True) -> Members:
        """Return the membership as the quorum knows it now, or as the member does.

        Raises Unreachable or Refused if it is to be `linearizable` and there is no quorum.
        """
        return await self._ask(Members, "cluster/member/list", linearizable=linearizable)

    async def add_learner(self, peer_url: str) -> None:
        await self._ask(Answer, "cluster/member/add", peerURLs=[peer_url], isLearner=True)

    async def promote(self, member_id: str) -> None:
        """Give a learner its vote. Refused until it has caught up."""
        await self._ask(Answer, "cluster/member/promote", ID=member_id)

    async def remove(self, member_id: str) -> None:
        await self._ask(Answer, "cluster/member/remove", ID=member_id)

    # ---- maintenance

    async def status(self) -> Status:
        return await self._ask(Status, "maintenance/status")

    async def cluster_version(self) -> str:
        """Return the version that all members support: `3.6.0`."""
        response = await self._send("GET", "/version", b"", self._timeout, stream=False)
        return msgspec.json.decode(await response.read(), type=Versions).etcdcluster

    async def transfer_leadership(self, to: str) -> None:
        """Hand leadership over. Only the leader can."""
        await self._ask(Answer, "maintenance/transfer-leadership", targetID=to)

    async def alarms(self) -> list[Alarm]:
        return (await self._ask(Alarms, "maintenance/alarm", action="GET")).alarms

    async def disarm(self, alarm: Alarm) -> None:
        await self._ask(Alarms, "maintenance/alarm", action="DEACTIVATE", memberID=alarm.member_id, alarm=alarm.alarm)

    async def defragment(self) -> None:
        await self._ask(Answer, "maintenance/defragment", within=SLOW)

    async def downgrade(self, action: str, version: str) -> None:
        """VALIDATE, ENABLE or CANCEL a downgrade to a minor version: `3.6.0`."""
        await self._ask(Answer, "maintenance/downgrade", action=action, version=version)

    async def snapshot(self) -> AsyncIterator[bytes]:
        """Yield the database. Raises SnapshotBroken at the end, unless its hash is the one that etcd sent."""
        response = await self._send("POST", "/v3/maintenance/snapshot", b"{}", SLOW, stream=True)
        digest, held = sha256(), b""
        async for part in _parts(response):
            if part.result is None:
                raise Refused(part.error.message if part.error else "the answer has no result")
            held += part.result.blob
            ready, held = held[:-_HASH], held[-_HASH:]
            digest.update(ready)
            yield ready
        if digest.digest() != held:
            raise SnapshotBroken("the hash of the snapshot differs from the one that etcd sent: take another one")

    # ---- keys

    async def get(self, key: str, *, serializable: bool = False) -> Range:
        """Return a key. The read is linearizable, unless it is `serializable`."""
        return await self._ask(Range, "kv/range", key=_text(key), serializable=serializable)

    async def put(self, key: str, value: str) -> Answer:
        return await self._ask(Answer, "kv/put", key=_text(key), value=_text(value))

    async def put_if(self, key: str, value: str, mod_revision: str) -> Transaction:
        """Write a key if it was not changed since `mod_revision` (`0`: if it does not exist)."""
        compare = {"key": _text(key), "target": "MOD", "result": "EQUAL", "mod_revision": mod_revision}
        put = {"requestPut": {"key": _text(key), "value": _text(value)}}
        return await self._ask(Transaction, "kv/txn", compare=[compare], success=[put])

    async def compact(self, revision: int) -> None:
        await self._ask(Answer, "kv/compaction", revision=str(revision))

    # ---- requests

    async def _ask(self, kind: type[A], path: str, *, within: float | None = None, **body: Any) -> A:
        content = msgspec.json.encode(body)
        response = await self._send("POST", f"/v3/{path}", content, within or self._timeout, stream=False)
        return msgspec.json.decode(await response.read(), type=kind)

    async def _send(self, method: str, path: str, body: bytes, within: float, *, stream: bool) -> Response:
        request = Request(method, path, {"content-type": "application/json"} if body else {}, body)
        try:
            response = await self._transport.send(request, timeout=within, stream=stream)
        except (ConnectionFailed, DeadlineExceeded) as error:
            raise Unreachable(f"{self.url}: {error}") from error
        if response.status == 200:
            return response
        answer = await response.read()
        raise _unreachable_or_refused(self.url, path, response.status, answer)


def _unreachable_or_refused(url: str, path: str, status: int, answer: bytes) -> Exception:
    """Return the error for an answer. After those for lost and late requests, the effect is unknown."""
    try:
        message = msgspec.json.decode(answer, type=_Error).message
    except msgspec.DecodeError:
        message = answer.decode(errors="replace")[:200]
    text = f"{url}: {path}: HTTP {status}: {message}"
    return Unreachable(text) if status >= 500 or status in (408, 499) else Refused(text)


async def _parts(response: Response) -> AsyncIterator[_Part]:
    """Yield the messages of a stream: JSON, one a line."""
    rest = b""
    try:
        body = response.body
        assert not isinstance(body, bytes)
        async for chunk in body:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in filter(None, lines):
                yield msgspec.json.decode(line, type=_Part)
        if rest:
            yield msgspec.json.decode(rest, type=_Part)
    except (ConnectionFailed, DeadlineExceeded) as error:
        raise Unreachable(f"the snapshot broke off: {error}") from error
    finally:
        await response.aclose()


def _text(value: str) -> str:
    return b64encode(value.encode()).decode()
