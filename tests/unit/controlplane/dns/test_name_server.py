"""A DNS server without a cluster: other names, broken queries, long answers."""

from __future__ import annotations

import asyncio
import secrets
import socket
import sys
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import dns.asyncquery
import dns.message
import dns.opcode
import dns.rcode
import dns.rdata
import dns.rrset
import msgspec
import pytest

from kubewright.apis.core.v1 import Service
from kubewright.apis.discovery.v1 import EndpointSlice
from kubewright.cache._entry import EntryDecoder
from kubewright.cache._store import Lister, Store
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.common.selection import LABEL, by_label
from kubewright_controlplane.dns.server import NameServer
from kubewright_controlplane.ports import process_port

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all addresses of 127.0.0.0/8")


def some_host() -> str:
    """Return an address of this machine that no other program uses."""
    return f"127.200.{secrets.randbelow(256)}.{secrets.randbelow(254) + 1}"


@asynccontextmanager
async def running(
    resolvers: Path, services: Iterable[JSONObject] = (), slices: Iterable[JSONObject] = ()
) -> AsyncGenerator[NameServer]:
    """Run a DNS server for a cluster with these objects."""
    host = some_host()
    known, indexed = Store[Service]({}), Store[EndpointSlice]({LABEL: by_label})
    for each in services:
        known.put(EntryDecoder(Service, keep_managed_fields=False).decode(msgspec.Raw(msgspec.json.encode(each))))
    for each in slices:
        decoder = EntryDecoder(EndpointSlice, keep_managed_fields=False)
        indexed.put(decoder.decode(msgspec.Raw(msgspec.json.encode(each))))
    with socket.socket() as free:
        free.bind((host, 0))
        port = free.getsockname()[1]
    server = NameServer(host, port, Lister(known), Lister(indexed), resolvers=resolvers)
    await server.open()
    try:
        yield server
    finally:
        await server.close()


async def ask(server: NameServer, query: dns.message.Message) -> dns.message.Message:
    return await dns.asyncquery.udp(query, server.host, timeout=10, port=server.port)


class Resolver(asyncio.DatagramProtocol):
    """A resolver that knows one address for all names."""

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        query = dns.message.from_wire(data)
        answer = dns.message.make_response(query)
        answer.answer.append(dns.rrset.from_text(query.question[0].name, 300, "IN", "A", "192.0.2.7"))
        self.transport.sendto(answer.to_wire(), addr)


@pytest.mark.skipif(process_port(53) != 53, reason="this user may not open port 53")
async def test_other_names_are_asked_of_the_resolvers_of_the_machine(tmp_path: Path) -> None:
    host, file = some_host(), tmp_path / "resolv.conf"
    file.write_text(f"# comment\nnameserver {host}\noptions ndots:5\n")
    loop = asyncio.get_running_loop()
    resolver, _ = await loop.create_datagram_endpoint(Resolver, local_addr=(host, 53))
    try:
        async with running(file) as server:
            found = await ask(server, dns.message.make_query("example.com", "A"))
            assert str(found.answer[0]) == "example.com. 300 IN A 192.0.2.7"
            missing = await ask(server, dns.message.make_query("example.cluster.local", "A"))
            assert missing.rcode() == dns.rcode.NXDOMAIN
    finally:
        resolver.close()


async def test_queries_that_cannot_be_answered_are_refused_and_the_server_continues(tmp_path: Path) -> None:
    async with running(tmp_path / "none") as server:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for data in (b"", b"\0", b"\xff" * 40, secrets.token_bytes(200)):
                sender.sendto(data, (server.host, server.port))
        query = dns.message.make_query("example.com", "A")
        assert (await ask(server, query)).rcode() == dns.rcode.SERVFAIL
        query.set_opcode(dns.opcode.STATUS)
        assert (await ask(server, query)).rcode() == dns.rcode.NOTIMP
        found = await ask(server, dns.message.make_query("dns-version.cluster.local", "TXT"))
        assert "1.1.0" in str(found.answer[0])


async def test_a_query_with_thousands_of_records_is_refused_without_parsing_it(tmp_path: Path) -> None:
    name, count = b"\1a" * 126 + b"\0", 4600
    header = (7).to_bytes(2) + b"\1\0\0\1" + count.to_bytes(2) + bytes(4)
    aliases = b"\xc0\x0c\0\5\0\1\0\0\0\0\0\2\xc0\x0c" * count
    query = header + name + b"\0\1\0\1" + aliases
    async with running(tmp_path / "none") as server, asyncio.timeout(10):
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(len(query).to_bytes(2) + query)
        answer = dns.message.from_wire(await reader.readexactly(int.from_bytes(await reader.readexactly(2))))
        assert (answer.id, answer.rcode()) == (7, dns.rcode.FORMERR)
        writer.close()


async def test_an_answer_has_some_endpoints_of_a_large_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0
    from_text = dns.rdata.from_text

    def counting(*args: Any, **options: Any) -> dns.rdata.Rdata:
        nonlocal made
        made += 1
        return from_text(*args, **options)

    monkeypatch.setattr(dns.rdata, "from_text", counting)
    metadata = {"namespace": "default", "resourceVersion": "1", "uid": "u"}
    service = {"metadata": {**metadata, "name": "big"}, "spec": {"clusterIP": "None", "ports": []}}
    slices = [
        {
            "metadata": {**metadata, "name": f"big-{number}", "labels": {"kubernetes.io/service-name": "big"}},
            "addressType": "IPv4",
            "ports": [{"name": f"p{port}", "port": port + 1} for port in range(100)],
            "endpoints": [{"addresses": [f"10.0.{number}.{each}"]} for each in range(250)],
        }
        for number in range(8)
    ]
    async with running(tmp_path / "none", [service], slices) as server:
        for kind, most in (("A", 250), ("SRV", 500), ("ANY", 750)):
            made = 0
            query = dns.message.make_query("big.default.svc.cluster.local", kind)
            answer = await dns.asyncquery.tcp(query, server.host, timeout=10, port=server.port)
            assert sum(len(each) for each in answer.answer) >= 250
            assert made <= most
        one = dns.message.make_query("10-0-7-200.big.default.svc.cluster.local", "A")
        assert "10.0.7.200" in str((await ask(server, one)).answer[0])
        name = dns.message.make_query("200.7.0.10.in-addr.arpa", "PTR")
        assert (await ask(server, name)).rcode() == dns.rcode.SERVFAIL  # it is not an address of the cluster


async def test_silent_connections_do_not_keep_others_out(tmp_path: Path) -> None:
    async with running(tmp_path / "none") as server, asyncio.timeout(10):
        silent = [await asyncio.open_connection(server.host, server.port) for _ in range(40)]
        query = dns.message.make_query("dns-version.cluster.local", "TXT")
        found = await dns.asyncquery.tcp(query, server.host, timeout=5, port=server.port)
        assert "1.1.0" in str(found.answer[0])
        for _, writer in silent:
            writer.close()
