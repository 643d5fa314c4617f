"""Services in front of Pods that run, as clients of their cluster IPs see them."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

from integration.programs import Programs, is_running
from integration.programs import programs as programs
from integration.servicenet import ANSWERING, GREETING, PORT, WEB, Datagrams, ask, expose, refuses, run
from kubewright import ObjectMeta
from kubewright.apis.core.v1 import Pod, Service
from kubewright.apis.discovery.v1 import Endpoint, EndpointPort, EndpointSlice
from kubewright.client._patch import MergePatch
from kubewright.client._transport import HTTPTransport
from kubewright.http.message import Request
from kubewright.testing import eventually
from websockets_client import websocket

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all addresses of 127.0.0.0/8")


async def test_connections_and_datagrams_are_forwarded_to_all_ready_pods(programs: Programs) -> None:
    service = await expose(programs)
    host = service.spec.cluster_ip or ""
    await run(programs, "one", "two")
    await eventually(ask, host, 8000)

    async def both() -> None:
        assert {await ask(host, 8000) for _ in range(4)} == {"hello one", "hello two"}

    await eventually(both)
    with Datagrams() as first, Datagrams() as second, Datagrams() as third:
        answers = [await each.ask(host, 8001) for each in (first, second, third)]
        assert set(answers) == {"hello one", "hello two"}
        assert await first.ask(host, 8001) == answers[0]
    long = b"x" * (5 << 20)
    assert (await ask(host, 8000, long)).startswith(long.decode())
    await programs.client.delete(service)
    await eventually(refuses, host, 8000)


async def test_a_client_keeps_its_pod_with_session_affinity(programs: Programs) -> None:
    await run(programs, "one", "two", "three")
    service = await expose(programs, sessionAffinity="ClientIP")
    host = service.spec.cluster_ip or ""
    await eventually(ask, host, 8000)
    assert len({await ask(host, 8000) for _ in range(6)}) == 1
    change = MergePatch({"spec": {"sessionAffinity": "None"}})
    await programs.client.patch(Service, change, name="web", namespace=programs.namespace)

    async def all_of_them() -> None:
        assert len({await ask(host, 8000) for _ in range(6)}) == 3

    await eventually(all_of_them)


async def test_a_service_forwards_nothing_from_clients_that_are_cut_off(programs: Programs) -> None:
    await run(programs, "one")
    service = await expose(programs)
    host = service.spec.cluster_ip or ""
    await eventually(ask, host, 8000)
    existing = await asyncio.open_connection(host, 8000)
    await cut_off(programs, "127.0.0.0/24, 127.9.9.9")

    async def is_cut_off() -> None:
        with Datagrams() as lost:
            try:
                answer = await asyncio.wait_for(lost.ask(host, 8001), 0.3)
            except TimeoutError:
                return
        raise AssertionError(answer)

    await eventually(is_cut_off)
    existing[1].write(b"late")
    existing[1].write_eof()
    answers = asyncio.gather(existing[0].read(), ask(host, 8000))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(answers), 0.3)
    await cut_off(programs, None)
    assert tuple(await answers) == (b"late one", "hello one")
    existing[1].close()
    await cut_off(programs, "one")
    await programs.events("InvalidAnnotation")


async def cut_off(programs: Programs, value: str | None) -> None:
    change = MergePatch({"metadata": {"annotations": {"simulation.kubewright.dev/cut-off-from": value}}})
    await programs.client.patch(Service, change, name="web", namespace=programs.namespace)


async def test_a_port_is_open_while_a_pod_is_ready(programs: Programs) -> None:
    service = await expose(programs, ports=[{"port": 8000, "targetPort": PORT}])
    host = service.spec.cluster_ip or ""
    await run(programs, "one")
    await eventually(ask, host, 8000)
    unready = {"exec": {"command": ["false"]}}
    await programs.pod([{"image": programs.image(ANSWERING), "readinessProbe": unready}], "two", labels={"app": "web"})
    await programs.until(is_running, "two")
    await programs.client.delete(Pod, "one", namespace=programs.namespace, grace_period=0)
    await eventually(refuses, host, 8000)
    change = MergePatch({"spec": {"publishNotReadyAddresses": True}})
    await programs.client.patch(Service, change, name="web", namespace=programs.namespace)
    assert await eventually(ask, host, 8000) == "hello two"


async def test_endpoints_of_a_service_without_a_selector_are_targets(programs: Programs) -> None:
    await run(programs, "one")
    address = (await programs.get("one")).status.pod_ip or ""
    port = {"name": "tcp", "port": 8000}
    service = await expose(programs, selector=None, ports=[port])
    slice_of = EndpointSlice(
        metadata=ObjectMeta(
            name="mine", namespace=programs.namespace, labels={"kubernetes.io/service-name": service.metadata.name}
        ),
        address_type="IPv4",
        endpoints=[Endpoint(addresses=[address])],
        ports=[EndpointPort(name="tcp", port=PORT)],
    )
    await programs.client.create(slice_of)
    assert await eventually(ask, service.spec.cluster_ip or "", 8000) == "hello one"


async def test_a_program_that_takes_a_port_from_all_addresses_is_reported(programs: Programs) -> None:
    greedy = ANSWERING.replace('os.environ["KUBEWRIGHT_BIND_HOST"]', '"0.0.0.0"').replace(str(PORT), "7171")
    probe = {"tcpSocket": {"port": 7171}, "periodSeconds": 1}
    await expose(programs, ports=[{"name": "tcp", "port": 7171}, {"name": "other", "port": 8000, "targetPort": 7171}])
    await run(programs, "one", program=greedy, readinessProbe=probe)
    [note] = await programs.events("ClusterIPNotOpened")
    assert "port 7171/TCP can't be opened: a program listens on this port of all interfaces" in note
    ports = [{"containerPort": 7171}]
    await programs.pod([{"image": programs.image(greedy), "ports": ports}], "two", restartPolicy="Never")
    [note] = await programs.events("PortInUse")
    assert "Port 7171 is in use at 0.0.0.0." in note


async def test_protocols_that_cannot_be_forwarded_are_reported_and_the_others_are_open(programs: Programs) -> None:
    await run(programs, "one")
    ports = [
        {"name": "tcp", "port": 8000, "targetPort": "answers"},
        {"name": "sctp", "port": 8000, "targetPort": PORT, "protocol": "SCTP"},
    ]
    service = await expose(programs, ports=ports)
    [note] = await programs.events("ClusterIPNotOpened")
    assert "port 8000/SCTP is not opened: only TCP and UDP are supported" in note
    assert await ask(service.spec.cluster_ip or "", 8000) == "hello one"


async def test_the_api_server_passes_requests_on_to_services_and_pods(programs: Programs) -> None:
    await run(programs, "one", program=WEB)
    ports = [{"name": "http", "port": 80, "targetPort": PORT}]
    await expose(programs, ports=ports)
    await expose(programs, "empty", selector={"app": "none"}, ports=ports)
    base = f"/api/v1/namespaces/{programs.namespace}"
    transport = HTTPTransport(programs.cluster.config)

    async def ask_api(target: str, method: str = "GET", body: bytes = b"") -> tuple[int, str]:
        answer = await transport.send(Request(method, f"{base}/{target}", body=body))
        return answer.status, (await answer.read()).decode() or answer.headers.get("location", "")

    async def is_served() -> None:
        assert (await ask_api("services/web:http/proxy/"))[0] == 200

    try:
        await eventually(is_served)
        for name in ("services/web:http", "services/web:80", f"pods/one:{PORT}", "pods/http:one:", "pods/one"):
            path = f"{name}/proxy/a%20b/?c=d%26e"
            said = ["POST", "/a%20b/?c=d%26e", "body", f"{base}/{name}/proxy/a%20b/", None]
            assert await ask_api(path, "POST", b"body") == (200, repr(said))
        assert (await ask_api("pods/one/proxy/tea"))[0] == 418
        assert "OPTIONS" in (await ask_api("pods/one/proxy/", "OPTIONS"))[1]
        assert await ask_api("pods/one/proxy?q=1") == (301, f"{base}/pods/one/proxy/?q=1")
        assert await ask_api("pods/one/proxy/away") == (302, f"{base}/pods/one/proxy/home?a=1")
        refused = {
            "services/empty:http/proxy/": (503, 'no endpoints available for service \\"empty\\"'),
            "services/web:81/proxy/": (503, 'no service port 81 found for service \\"web\\"'),
            "services/none/proxy/": (404, 'services \\"none\\" not found'),
            "pods/one:1/proxy/": (503, "error trying to reach service"),
            "pods/ftp:one:1/proxy/": (400, "invalid pod request"),
        }
        for target, (status, text) in refused.items():
            found = await ask_api(target)
            assert found[0] == status, found
            assert text in found[1]
    finally:
        await transport.close()


async def test_websockets_pass_the_proxies_to_services_pods_and_nodes(programs: Programs) -> None:
    await run(programs, "one", program=GREETING)
    pod = await programs.get("one")
    await expose(programs, ports=[{"name": "http", "port": 80, "targetPort": PORT}])
    base = f"/api/v1/namespaces/{programs.namespace}"

    async def answers(target: str) -> None:
        async with websocket(programs.cluster.config, target, ["greeting"]) as socket:
            assert (socket.status, socket.protocol) == (101, "greeting"), socket.error
            socket.send("hello")
            assert await socket.receive() == "hello /a?b=c"

    await eventually(answers, f"{base}/services/web:http/proxy/a?b=c")
    await answers(f"{base}/pods/one/proxy/a?b=c")
    async with websocket(programs.cluster.config, f"{base}/pods/one/proxy/none", ["greeting"]) as socket:
        assert (socket.status, socket.error) == (418, "no\n")
    kubelet = f"/api/v1/nodes/{pod.spec.node_name}/proxy"
    command = f"{kubelet}/exec/{programs.namespace}/one/c0?output=1&command=echo&command=there"
    async with websocket(programs.cluster.config, command, ["v5.channel.k8s.io"]) as socket:
        assert socket.status == 101, socket.error
        assert [await socket.receive() for _ in range(2)] == [b"\1", b"\1there\n"]


async def test_containers_have_the_services_of_their_namespace_in_their_environment(programs: Programs) -> None:
    service = await expose(programs, "my-web")
    host = service.spec.cluster_ip
    image = programs.image("import json, os, time; print(json.dumps(dict(os.environ))); time.sleep(1000)")
    await programs.pod([{"image": image}], "with")
    await programs.pod([{"image": image}], "without", enableServiceLinks=False)
    values = json.loads(await programs.says("}", "with"))
    assert {name: value for name, value in values.items() if name.startswith("MY_WEB_")} == {
        "MY_WEB_SERVICE_HOST": host,
        "MY_WEB_SERVICE_PORT": "8000",
        "MY_WEB_SERVICE_PORT_TCP": "8000",
        "MY_WEB_SERVICE_PORT_UDP": "8001",
        "MY_WEB_PORT": f"tcp://{host}:8000",
        "MY_WEB_PORT_8000_TCP": f"tcp://{host}:8000",
        "MY_WEB_PORT_8000_TCP_PROTO": "tcp",
        "MY_WEB_PORT_8000_TCP_PORT": "8000",
        "MY_WEB_PORT_8000_TCP_ADDR": host,
        "MY_WEB_PORT_8001_UDP": f"udp://{host}:8001",
        "MY_WEB_PORT_8001_UDP_PROTO": "udp",
        "MY_WEB_PORT_8001_UDP_PORT": "8001",
        "MY_WEB_PORT_8001_UDP_ADDR": host,
    }
    values = json.loads(await programs.says("}", "without"))
    assert not any(name.startswith("MY_WEB_") for name in values)
    assert f"https://{values['KUBERNETES_SERVICE_HOST']}:{values['KUBERNETES_SERVICE_PORT']}" == (
        programs.cluster.config.server
    )
