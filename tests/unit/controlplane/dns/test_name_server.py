"""A DNS server without a cluster: other names, broken queries, long answers."""

from __future__ import annotations

import asyncio
import secrets
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import dns.asyncquery
import dns.message
import dns.opcode
import dns.rcode
import dns.rrset
import pytest

from kubewright.apis.core.v1 import Service
from kubewright.apis.discovery.v1 import EndpointSlice
from kubewright.cache._store import Lister, Store
from kubewright_controlplane.common.selection import LABEL, by_label
from kubewright_controlplane.dns.server import NameServer
from kubewright_controlplane.ports import process_port

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all addresses of 127.0.0.0/8")


def some_host() -> str:
    """Return an address of this machine that no other program uses."""
    return f"127.200.{secrets.randbelow(256)}.{secrets.randbelow(254) + 1}"


@asynccontextmanager
async def running(resolvers: Path) -> AsyncGenerator[NameServer]:
    """Run a DNS server for an empty cluster."""
    host = some_host()
    slices = Lister[EndpointSlice](Store({LABEL: by_label}))
    with socket.socket() as free:
        free.bind((host, 0))
        port = free.getsockname()[1]
    server = NameServer(host, port, Lister[Service](Store({})), slices, resolvers=resolvers)
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
