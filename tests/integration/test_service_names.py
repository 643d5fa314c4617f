"""The names of Services and Pods, as programs that ask the DNS server of a cluster see them."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import dns.asyncquery
import dns.flags
import dns.message
import dns.rcode
import dns.reversename
import dns.rrset
import pytest
import pytest_asyncio

from integration.programs import Programs, is_running
from integration.programs import programs as programs
from integration.servicenet import PORT, ask, expose, run
from integration.test_sandbox import reason_without_sandbox
from kubewright.apis.core.v1 import Service
from kubewright.testing import eventually
from kubewright_controlplane.ports import process_port

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all addresses of 127.0.0.0/8")


class Names:
    """A client of the DNS server."""

    def __init__(self, host: str, namespace: str) -> None:
        self.host = host
        self.port = process_port(53)
        self.domain = f"{namespace}.svc.cluster.local"

    async def answer(self, name: str, kind: str = "A", *, tcp: bool = False) -> dns.message.Message:
        send = dns.asyncquery.tcp if tcp else dns.asyncquery.udp
        return await send(dns.message.make_query(name, kind), self.host, timeout=10, port=self.port)

    async def find(self, name: str, kind: str = "A", *, tcp: bool = False) -> list[str]:
        """Return the records in the answer about a name, sorted."""
        found = await self.answer(name, kind, tcp=tcp)
        assert found.rcode() == dns.rcode.NOERROR, found
        return sorted(text for each in found.answer for text in _values(each))

    async def has(self, name: str, expected: Sequence[str], kind: str = "A") -> None:
        """Wait until these are the records of a name."""

        async def check() -> None:
            assert await self.find(name, kind) == sorted(expected)

        await eventually(check)

    async def is_missing(self, name: str, kind: str = "A", *, rcode: dns.rcode.Rcode = dns.rcode.NXDOMAIN) -> None:
        """Check that a name does not exist, or has no such record, and that resolvers may remember that."""
        found = await self.answer(name, kind)
        assert (found.rcode(), found.answer) == (rcode, [])
        assert "SOA ns.dns.cluster.local." in str(found.authority[0])


def _values(records: dns.rrset.RRset) -> list[str]:
    return [line.split(maxsplit=4)[4] for line in records.to_text().splitlines()]


@pytest_asyncio.fixture
async def names(programs: Programs) -> Names:
    """The DNS server of the cluster, which starts with the first Pod that runs."""
    await programs.pod([{"image": programs.image("import time; time.sleep(1000)")}], "first")
    await programs.until(is_running, "first")
    service = await programs.client.get(Service, "kube-dns", namespace="kube-system")
    return Names(service.spec.cluster_ip or "", programs.namespace)


async def test_a_service_has_an_address_and_its_ports(programs: Programs, names: Names) -> None:
    service = await expose(programs)
    address = service.spec.cluster_ip or ""
    name = f"web.{names.domain}"
    await names.has(name, [address])
    assert await names.find(name.upper(), tcp=True) == [address]
    assert await names.find(f"_tcp._tcp.{name}", "SRV") == [f"0 100 8000 {name}."]
    assert await names.find(f"_udp._udp.{name}", "SRV") == [f"0 100 8001 {name}."]
    assert await names.find(str(dns.reversename.from_address(address)), "PTR") == [f"{name}."]
    found = await names.answer(name)
    assert found.flags & dns.flags.AA
    assert found.flags & dns.flags.RA
    await names.is_missing(name, "AAAA", rcode=dns.rcode.NOERROR)
    for other in (
        f"_udp._tcp.{name}",
        f"no.{name}",
        f"other.{names.domain}",
        f"{name}.{names.domain}",
        "x.cluster.local",
    ):
        await names.is_missing(other)
    await names.is_missing(names.domain, rcode=dns.rcode.NOERROR)
    await programs.client.delete(service)

    async def gone() -> None:
        await names.is_missing(name)

    await eventually(gone)


async def test_the_pods_of_a_headless_service_have_names(programs: Programs, names: Names) -> None:
    await expose(programs, clusterIP="None", selector={"app": "db"}, ports=[{"name": "db", "port": PORT}])
    await run(programs, "db-0", "db-1", app="db", subdomain="web")
    await run(programs, "plain", app="db")
    addresses = {name: (await programs.get(name)).status.pod_ip or "" for name in ("db-0", "db-1", "plain")}
    name = f"web.{names.domain}"
    await names.has(name, list(addresses.values()))
    dashed = addresses["plain"].replace(".", "-")
    hosts = {"db-0": f"db-0.{name}", "db-1": f"db-1.{name}", "plain": f"{dashed}.{name}"}
    for pod, host in hosts.items():
        assert await names.find(host) == [addresses[pod]]
        assert await names.find(str(dns.reversename.from_address(addresses[pod])), "PTR") == [f"{host}."]
    services = await names.answer(f"_db._tcp.{name}", "SRV")
    assert sorted(_values(services.answer[0])) == sorted(f"0 33 {PORT} {host}." for host in hosts.values())
    assert {str(each.name).rstrip(".") for each in services.additional} == set(hosts.values())
    assert await names.find(f"{dashed}.{programs.namespace}.pod.cluster.local") == [addresses["plain"]]
    await names.is_missing(f"db-2.{name}")


async def test_an_external_name_is_an_alias(programs: Programs, names: Names) -> None:
    service = await expose(programs)
    target = f"web.{names.domain}"
    await expose(programs, "alias", type="ExternalName", externalName=target, selector=None, ports=[])
    await names.has(f"alias.{names.domain}", [service.spec.cluster_ip or "", f"{target}."])
    assert await names.find(f"alias.{names.domain}", "CNAME") == [f"{target}."]


async def test_the_cluster_itself_has_names(names: Names, programs: Programs) -> None:
    api = await programs.client.get(Service, "kubernetes", namespace="default")
    assert await names.find("kubernetes.default.svc.cluster.local") == [api.spec.cluster_ip]
    assert await names.find("kube-dns.kube-system.svc.cluster.local") == [names.host]
    assert await names.find("dns-version.cluster.local", "TXT") == ['"1.1.0"']
    if process_port(443) == 443:
        await eventually(ask, api.spec.cluster_ip or "", 443, b"GET / HTTP/1.0\r\n\r\n")


CLIENT = """
import socket, time, urllib.request
print(open("/etc/resolv.conf").read(), flush=True)
while True:
    try:
        with socket.create_connection(("web", 8000)) as connection:
            connection.shutdown(socket.SHUT_WR)
            print("answer:", connection.makefile().read(), flush=True)
        break
    except OSError as error:
        print(error, flush=True)
        time.sleep(0.1)
time.sleep(1000)
"""


@pytest.mark.skipif(bool(reason_without_sandbox()), reason=reason_without_sandbox() or "-")
@pytest.mark.skipif(process_port(53) != 53, reason="this user may not open port 53")
async def test_a_program_in_a_sandbox_finds_services_by_their_names(programs: Programs, names: Names) -> None:
    await expose(programs)
    await run(programs, "one")
    image = programs.image(CLIENT, sandbox=True)
    await programs.pod([{"image": image}], "client")
    said = await programs.says("answer:", "client")
    assert "answer:  one" in said
    assert f"nameserver {names.host}\n" in said
    assert f"search {names.domain} svc.cluster.local cluster.local" in said
    config = {"nameservers": ["192.0.2.1"], "searches": ["example.com"], "options": [{"name": "ndots", "value": "2"}]}
    await programs.pod([{"image": image}], "own", dnsPolicy="None", dnsConfig=config)
    said = await programs.says("ndots", "own")
    assert said.startswith("nameserver 192.0.2.1\nsearch example.com\noptions ndots:2\n")
