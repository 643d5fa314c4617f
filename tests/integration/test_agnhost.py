"""The stand-in for agnhost: its servers and programs in Pods."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from integration.programs import Programs, is_ready
from integration.programs import programs as programs
from kubewright.apis.core.v1 import Pod
from kubewright.client._transport import HTTPTransport
from kubewright.http.message import Request
from kubewright_controlplane import STAND_INS
from kubewright_controlplane.ports import process_port

IMAGE = "registry.k8s.io/e2e-test-images/agnhost"


class Agnhost:
    """Pods of agnhost."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs

    async def serve(self, *arguments: str, port: int, path: str, env: dict[str, str] | None = None) -> Pod:
        """Return a Pod whose server answers at `path`."""
        probe = {"httpGet": {"path": path, "port": port}, "periodSeconds": 1}
        variables = [{"name": name, "value": value} for name, value in (env or {}).items()]
        container = {"image": f"{IMAGE}:2.56", "args": arguments, "env": variables, "readinessProbe": probe}
        await self._programs.pod([container], arguments[0])
        return await self._programs.until(is_ready, arguments[0])

    async def run(self, name: str, *arguments: str) -> tuple[int, str]:
        """Return the exit status and the log of a program."""
        await self._programs.pod([{"image": f"{IMAGE}:2.56", "args": arguments}], name, restartPolicy="Never")

        def has_ended(pod: Pod) -> bool:
            return pod.status.phase in ("Succeeded", "Failed")

        ended = (await self._programs.until(has_ended, name)).status.container_statuses[0].state
        assert ended is not None
        assert ended.terminated is not None
        return ended.terminated.exit_code, await self._programs.log(name=name)

    async def ask(self, pod: Pod, port: int, path: str) -> tuple[int, str]:
        """Return what a Pod answers to a request through the API server."""
        transport = HTTPTransport(self._programs.cluster.config)
        try:
            proxy = f"/api/v1/namespaces/{self._programs.namespace}/pods/{pod.metadata.name}:{port}/proxy"
            answer = await transport.send(Request("GET", f"{proxy}{path}"))
            return answer.status, (await answer.read()).decode()
        finally:
            await transport.close()


@pytest_asyncio.fixture
async def agnhost(programs: Programs) -> AsyncIterator[Agnhost]:
    programs.table.put(f"{IMAGE}:*", STAND_INS[f"{IMAGE}:*"])
    yield Agnhost(programs)
    programs.table.remove(f"{IMAGE}:*")


async def test_its_servers_answer_each_other(agnhost: Agnhost) -> None:
    server = await agnhost.serve("netexec", port=8080, path="/healthz")
    named = await agnhost.serve("serve-hostname", port=9376, path="/")
    assert await agnhost.ask(server, 8080, "/hostname") == (200, "netexec")
    assert await agnhost.ask(server, 8080, "/echo?msg=hello&code=418") == (418, "hello")
    assert (await agnhost.ask(server, 8080, "/shell?cmd=id"))[0] == 501
    port = process_port(9376)
    status, text = await agnhost.ask(server, 8080, f"/dial?host={named.status.pod_ip}&port={port}&request=&tries=1")
    assert (status, "request and port are required" in text) == (400, True)
    asked = f"/dial?host={named.status.pod_ip}&port={port}&request=hostname&tries=2"
    assert json.loads((await agnhost.ask(server, 8080, asked))[1]) == {"responses": ["serve-hostname"] * 2}
    asked = f"/dial?host={server.status.pod_ip}&port={process_port(8081)}&protocol=udp&request=echo+a+b"
    assert json.loads((await agnhost.ask(server, 8080, asked))[1]) == {"responses": ["a b"]}
    address = f"{named.status.pod_ip}:{port}"
    assert await agnhost.run("connects", "connect", address, "--timeout=10s") == (0, "")
    status, said = await agnhost.run("refused", "connect", f"{named.status.pod_ip}:{process_port(9377)}")
    assert (status, said) == (1, "REFUSED\n")


async def test_ports_and_files_are_served(agnhost: Agnhost) -> None:
    texts = {"SERVE_PORT_8090": "first", "SERVE_TCP_PORT_8091": "second"}
    pod = await agnhost.serve("porter", "--json-response", port=8090, path="/", env=texts)
    assert json.loads((await agnhost.ask(pod, 8091, "/any"))[1]) == {"Method": "GET", "Body": "second"}
    files = await agnhost.serve("test-webserver", "--port=8092", port=8092, path="/")
    assert (await agnhost.ask(files, 8092, "/nothing-here"))[0] == 404
    alive = await agnhost.serve("liveness", port=8080, path="/started")
    assert (await agnhost.ask(alive, 8080, "/nothing-here"))[0] == 404


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (("entrypoint-tester", "a", "b"), 0, "[/agnhost entrypoint-tester a b]\n"),
        (("logs-generator", "--log-lines-total", "3", "--run-duration=10ms"), 0, "/api/v1/namespaces/"),
        (("logs-generator", "-t1", "-d=soon"), 2, "invalid duration 'soon': write one such as 500ms, 10s or 1m30s"),
        (("etc-hosts",), 0, "localhost"),
        (("guestbook",), 2, "invalid choice: 'guestbook'"),
    ],
)
async def test_programs_write_to_the_log(agnhost: Agnhost, arguments: tuple[str, ...], status: int, text: str) -> None:
    ended, said = await agnhost.run("p", *arguments)
    assert (ended, text in said) == (status, True), said
