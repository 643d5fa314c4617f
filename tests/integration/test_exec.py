"""Pods that run as processes: `kubectl exec`, `attach`, and debug containers."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from conformance.rawapi import API
from integration.kubectl import KUBECTL, OVER_SPDY, Kubectl, at_terminal
from integration.programs import SLEEP, Programs, ended, is_running
from integration.programs import programs as programs
from kubewright.apis.core.v1 import Pod
from kubewright.client import ExecResult
from kubewright.client._patch import MergePatch
from kubewright.machinery.errors import BadRequest, CommandFailed, DeadlineExceeded, NotFound
from kubewright.models import PolicyRule
from kubewright.testing import Cluster, eventually
from kubewright_controlplane.kubelet.images import STAND_INS, Image
from websockets_client import websocket

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl was not found; `make controlplane` builds it")

PYTHON = (sys.executable, "-S", "-u", "-c")


@pytest.fixture(params=[{}, OVER_SPDY], ids=["websocket", "spdy"])
def kubectl(cluster: Cluster, namespace: str, request: pytest.FixtureRequest) -> Kubectl:
    return Kubectl(cluster.kubeconfig(), namespace, env=request.param)


async def test_a_command_runs_in_the_environment_of_the_program(programs: Programs, kubectl: Kubectl) -> None:
    await programs.run(SLEEP, env=[{"name": "COLOR", "value": "green"}])
    said = await kubectl("exec", "p", "--", *PYTHON, "import os; print(os.environ['COLOR'], os.environ['HOSTNAME'])")
    assert said == "green p\n"


async def test_kubectl_exits_with_the_status_of_the_command(programs: Programs, kubectl: Kubectl) -> None:
    await programs.run(SLEEP)
    process = await kubectl.start("exec", "p", "--", *PYTHON, "import sys; print('no', file=sys.stderr); sys.exit(3)")
    out, err = await process.communicate()
    assert (out, process.returncode) == (b"", 3)
    assert err == b"no\ncommand terminated with exit code 3\n"


async def test_standard_input_arrives_with_its_end(programs: Programs, kubectl: Kubectl) -> None:
    await programs.run(SLEEP)
    given = "line\n" * 200_000
    count = "import sys; print(len(sys.stdin.read()))"
    assert await kubectl("exec", "-i", "p", "--", *PYTHON, count, given=given) == f"{len(given)}\n"


async def test_the_client_runs_commands(programs: Programs, cluster: Cluster, namespace: str) -> None:
    await programs.run(SLEEP)

    async def run(program: str, **options: Any) -> ExecResult:
        return await cluster.client.exec("p", [*PYTHON, program], namespace=namespace, **options)

    said = await run("import sys; print('out'); print('err', file=sys.stderr)")
    assert said == ExecResult(0, b"out\n", b"err\n")
    given = b"line\n" * 200_000
    counted = await run("import sys; print(len(sys.stdin.read()))", stdin=given)
    assert counted.stdout == b"%d\n" % len(given)
    assert (await run("print(open(0).read())", stdin=b"")).stdout == b"\n"
    assert (await run("print('x' * 3_000_000)", limit=4_000_000)).stdout == b"x" * 3_000_000 + b"\n"


async def test_the_client_reports_why_a_command_failed(programs: Programs, cluster: Cluster, namespace: str) -> None:
    await programs.run(SLEEP)
    client, fail = cluster.client, [*PYTHON, "import sys; print('some'); sys.exit('no disk')"]
    with pytest.raises(CommandFailed, match=r"python.* in Pod .*/p ended with exit code 1: no disk") as caught:
        await client.exec("p", fail, namespace=namespace)
    assert (caught.value.exit_code, caught.value.stdout) == (1, b"some\n")
    assert (await client.exec("p", fail, namespace=namespace, check=False)).exit_code == 1
    with pytest.raises(CommandFailed, match="the output has more than 10 bytes; raise `limit`"):
        await client.exec("p", [*PYTHON, "print('x' * 100_000)"], namespace=namespace, limit=10)
    with pytest.raises(DeadlineExceeded, match=r"it did not end within 0\.3 s; raise `timeout`"):
        await client.exec("p", [*PYTHON, SLEEP], namespace=namespace, timeout=0.3)
    with pytest.raises(CommandFailed, match="/bin/nothing"):
        await client.exec("p", ["/bin/nothing"], namespace=namespace)
    with pytest.raises(NotFound):
        await client.exec("q", fail, namespace=namespace)
    with pytest.raises(BadRequest, match="container"):
        await client.exec("p", fail, namespace=namespace, container="other")


async def test_large_output_arrives_complete(programs: Programs, kubectl: Kubectl) -> None:
    await programs.run(SLEEP)
    said = await kubectl("exec", "p", "--", *PYTHON, "import sys; [sys.stdout.write('x' * 1000) for _ in range(8000)]")
    assert said == "x" * 8_000_000


async def test_a_terminal_is_a_terminal(programs: Programs, kubectl: Kubectl) -> None:
    await programs.run(SLEEP)
    show = "import os; print(os.isatty(0), os.isatty(1)); print('heard', input()); raise SystemExit(4)"
    async with at_terminal(kubectl, "exec", "-it", "p", "--", *PYTHON, show) as terminal:
        await terminal.shows("True True")
        terminal.types("hello\n")
        await terminal.shows("heard hello")
        assert await terminal.ended() == 4


async def test_a_command_ends_when_its_client_disconnects(programs: Programs, kubectl: Kubectl) -> None:
    await programs.run(SLEEP)
    process = await kubectl.start("exec", "p", "--", *PYTHON, f"import os; print(os.getpid()); {SLEEP}")
    assert process.stdout is not None
    number = int(await process.stdout.readline())
    process.kill()
    await process.wait()
    await ended(number)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("exec", "p", "--", "no-such-program"), "executable file not found in $PATH"),
        (("exec", "p", "-c", "nobody", "--", "true"), "container nobody is not valid for pod p"),
        (("exec", "q", "--", "true"), 'pods "q" not found'),
    ],
)
async def test_a_command_that_cannot_run_is_reported(
    programs: Programs, kubectl: Kubectl, arguments: tuple[str, ...], why: str
) -> None:
    await programs.run(SLEEP)
    assert why in await kubectl(*arguments, fails=True)


async def test_too_many_commands_are_refused(
    programs: Programs, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    await programs.run(SLEEP)
    monkeypatch.setattr("kubewright_controlplane.kubelet.server._EXEC_DESCRIPTORS", 1 << 30)
    process = await kubectl.start("exec", "p", "--", "true")
    _, err = await process.communicate()
    assert process.returncode
    assert b"too many commands run in containers" in err
    monkeypatch.undo()
    assert await kubectl("exec", "p", "--", "echo", "again") == "again\n"


async def test_exec_into_a_simulated_container_is_rejected(programs: Programs, kubectl: Kubectl) -> None:
    await programs.pod([{"image": "nginx"}])
    await programs.until(is_running)
    assert "is simulated, no process runs in it" in await kubectl("exec", "p", "--", "true", fails=True)


async def test_exec_needs_permission_to_create_and_to_get(programs: Programs, cluster: Cluster, namespace: str) -> None:
    await programs.run(SLEEP)
    reads = PolicyRule(api_groups=[""], resources=["pods", "pods/exec"], verbs=["get"])
    enters = PolicyRule(api_groups=[""], resources=["pods/exec"], verbs=["create"])
    async with cluster.service_account([reads], namespace=namespace) as account:
        refused = await Kubectl(cluster.kubeconfig(account), namespace)("exec", "p", "--", "true", fails=True)
        assert 'cannot create resource "pods/exec"' in refused
    async with cluster.service_account([reads, enters], namespace=namespace) as account:
        await Kubectl(cluster.kubeconfig(account), namespace)("exec", "p", "--", *PYTHON, "pass")


async def test_attach_connects_to_the_output_and_input_of_the_program(programs: Programs, kubectl: Kubectl) -> None:
    echo = "import sys\nfor line in sys.stdin: print('heard', line.strip())"
    await programs.pod([{"image": programs.image(echo), "stdin": True, "stdinOnce": True}], restartPolicy="Never")
    await programs.until(is_running)
    said = await kubectl("attach", "-i", "-q", "p", given="one\ntwo\n")
    assert said == "heard one\nheard two\n"
    assert await programs.says("heard two") == "heard one\nheard two\n"


@pytest.mark.parametrize(
    ("protocol", "has_status"),
    [
        ("v5.channel.k8s.io", True),
        ("v4.channel.k8s.io", True),
        ("v4.base64.channel.k8s.io", True),
        ("base64.channel.k8s.io", False),
        ("channel.k8s.io", False),
        ("", False),
    ],
)
async def test_clients_with_any_version_of_the_websocket_protocol_run_commands(
    programs: Programs, cluster: Cluster, protocol: str, *, has_status: bool
) -> None:
    await programs.run(SLEEP)
    is_text = "base64" in protocol

    def message(channel: int, data: bytes) -> bytes | str:
        return f"{channel}{base64.b64encode(data).decode()}" if is_text else bytes((channel,)) + data

    program = "import sys; print('heard', input()); print('oops', file=sys.stderr); sys.exit(3)"
    query = urlencode([("command", each) for each in (*PYTHON, program)])
    target = f"/api/v1/namespaces/{programs.namespace}/pods/p/exec?stdin=1&stdout=1&stderr=1&{query}"
    async with websocket(cluster.config, target, [protocol] if protocol else []) as socket:
        assert (socket.status, socket.protocol) == (101, protocol or None)
        assert await socket.receive() == message(1, b"")  # the client is connected
        socket.send(message(0, b"hello\n"))
        said: dict[int, bytes] = {}
        while (received := await socket.receive()) is not None:
            assert isinstance(received, str) is is_text
            channel, data = (
                (int(received[0]), base64.b64decode(received[1:]))
                if isinstance(received, str)
                else (received[0], received[1:])
            )
            said[channel] = said.get(channel, b"") + data
    assert (said[1], said[2]) == (b"heard hello\n", b"oops\n")
    failure = "command terminated with non-zero exit code: exit status 3"
    assert (json.loads(said[3])["message"] if has_status else said[3].decode()) == failure


async def test_options_of_exec_and_logs_are_flags_in_any_case(programs: Programs, cluster: Cluster) -> None:
    await programs.run("import time; print('started', flush=True); time.sleep(1000)")
    pod = f"/api/v1/namespaces/{programs.namespace}/pods/p"
    command = urlencode([("command", each) for each in (*PYTHON, "import sys; print(sys.argv[1:])", "")])
    target = f"{pod}/exec?stdin=False&stdout=True&stderr=FALSE&tty=False&{command}"
    async with websocket(cluster.config, target, ["v5.channel.k8s.io"]) as socket:
        assert socket.status == 101
        said = b""
        while (received := await socket.receive()) is not None:
            assert isinstance(received, bytes)
            said += received[1:] if received[0] == 1 else b""
    assert said == b"['']\n"
    api = API(cluster.config)
    answer = (await api.get(f"{pod}/log?follow=False&timestamps=True&previous=False&sinceSeconds=")).expect(200)
    assert answer.body.endswith(b"Z started\n")
    await api.close()


async def test_files_are_copied_to_and_from_a_container(programs: Programs, kubectl: Kubectl, tmp_path: Path) -> None:
    await programs.run(SLEEP)
    given = tmp_path / "given"
    given.mkdir()
    (given / "numbers").write_bytes(os.urandom(3_000_000))
    (given / "empty").touch()
    await kubectl("cp", str(given), "p:copied")
    await kubectl("cp", "p:copied", str(tmp_path / "back"))
    for name in ("numbers", "empty"):
        assert (tmp_path / "back" / name).read_bytes() == (given / name).read_bytes()


SHELL = "import os, sys\nfor line in sys.stdin: exec(line)"


async def test_exec_into_an_added_debug_container_works(programs: Programs, kubectl: Kubectl) -> None:
    await programs.run(SLEEP)
    programs.table.put("busybox", Image((sys.executable, "-S", "-u", "-c", SHELL)))
    added = {"name": "ephemeral-busybox", "image": "busybox", "stdin": True, "tty": True}
    containers = programs.client.subresource(Pod, "p", "ephemeralcontainers", namespace=programs.namespace)
    await containers.patch(Pod, MergePatch({"spec": {"ephemeralContainers": [added]}}))
    try:

        async def runs() -> None:
            found = (await programs.get()).status.ephemeral_container_statuses
            assert [each.name for each in found] == ["ephemeral-busybox"]
            assert found[0].state is not None
            assert found[0].state.running is not None, found
            assert (found[0].container_id or "").startswith("process://")

        await eventually(runs)
        assert await kubectl("exec", "p", "-c", "ephemeral-busybox", "--", *PYTHON, "print('inside')") == "inside\n"
        await runs()  # its terminal never closes
    finally:
        programs.table.remove("busybox")


@pytest.fixture
def busybox(programs: Programs) -> Iterator[None]:
    programs.table.put("busybox", STAND_INS["busybox:*"])
    yield
    programs.table.remove("busybox")


@pytest.mark.usefixtures("busybox")
async def test_kubectl_run_starts_a_shell_at_a_terminal(kubectl: Kubectl) -> None:
    async with at_terminal(
        kubectl, "run", "shell", "--image=busybox", "-it", "--rm", "--restart=Never", "--", "sh"
    ) as shell:
        await shell.shows("try pressing enter")
        shell.types("echo $((20+22))\n")
        await shell.shows("42")
        shell.types("exit 3\n")
        await shell.shows('pod "shell" deleted')
        assert await shell.ended() == 3


@pytest.mark.usefixtures("busybox")
async def test_kubectl_debug_adds_a_container_or_copies_the_pod(programs: Programs, kubectl: Kubectl) -> None:
    await programs.run(SLEEP)
    echo = ("--", "sh", "-c", "read line; echo heard $line")
    added = await kubectl("debug", "p", "-i", "-q", "--image=busybox", "--target=c0", *echo, given="one\n")
    assert "heard one" in added
    copied = await kubectl("debug", "p", "-i", "-q", "--image=busybox", "--copy-to=copy", *echo, given="two\n")
    assert "heard two" in copied
    changed = ("debug", "p", "-i", "-q", "--copy-to=changed", "--container=c0", "--set-image=*=busybox")
    assert "heard three" in await kubectl(*changed, *echo, given="three\n")


async def test_output_that_nobody_reads_lets_the_process_wait(programs: Programs, kubectl: Kubectl) -> None:
    await programs.run(SLEEP)
    endless = "import sys; data = 'x' * 65536\nwhile True: sys.stdout.write(data)"
    before = resident()
    process = await kubectl.start("exec", "p", "--", *PYTHON, endless)
    try:
        assert process.stdout is not None
        await process.stdout.readexactly(1)
        await asyncio.sleep(2)  # at full speed, this would be a gigabyte
        assert resident() - before < 100
    finally:
        process.kill()
        await process.communicate()


def resident() -> float:
    """Return the memory of this process, in which the API server and the kubelet run, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
