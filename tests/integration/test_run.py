"""`kubewright run` with its own control plane, and with changing code."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from integration.command import NO_SERVERS, BackgroundCommand
from kubewright import Client, Config, Invalid, ObjectMeta
from kubewright.apis.core.v1 import Container, Pod, PodSpec
from kubewright.client import Unstructured
from kubewright.machinery import yaml
from kubewright.machinery.json import JSONObject
from kubewright.models import APIResource
from kubewright.testing import eventually
from kubewright_controlplane.serving import owned

GOLDEN = Path(__file__).parents[1] / "golden/projects/minimal"
CONTROLLER = "src/webserver_operator/controller/webserver.py"
WebServer = Unstructured.of(APIResource("my.domain", "v1", "WebServer", "webservers"))


class Running:
    """`kubewright run` in a project."""

    def __init__(self, project: Path, process: BackgroundCommand) -> None:
        self.project = project
        self.said = ""
        self._process = process
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while line := await self._process.stdout.readline():
            self.said += line.decode()

    async def says(self, text: str, *, times: int = 1) -> None:
        async def check() -> None:
            assert self.said.count(text) >= times, self.said

        await eventually(check)

    def client(self) -> Client:
        return Client(Config.from_kubeconfig(self.project / ".kubewright/kubeconfig"))

    def edit(self, path: str, old: str, new: str) -> None:
        source = (self.project / path).read_text()
        assert old in source
        (self.project / path).write_text(source.replace(old, new))

    async def end(self, number: signal.Signals = signal.SIGINT) -> int:
        self._process.send_signal(number)
        return await self.ended()

    async def ended(self) -> int:
        await self._reading
        return await self._process.wait()

    async def kill(self) -> None:
        if self._process.returncode is None:
            await self.end(signal.SIGTERM)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    shutil.copytree(GOLDEN, folder)
    return folder


@asynccontextmanager
async def run(project: Path, *arguments: str) -> AsyncIterator[Running]:
    process = await BackgroundCommand.start("run", *NO_SERVERS, *arguments, folder=project)
    running = Running(project, process)
    try:
        yield running
    finally:
        await running.kill()


async def create(client: Client, spec: JSONObject) -> Unstructured:
    return await client.create(WebServer(metadata=ObjectMeta(name="web", namespace="default"), content={"spec": spec}))


async def reason(client: Client) -> str:
    """Return the reason of the WebServer's Ready condition."""
    found = await client.get(WebServer, "web", namespace="default")
    conditions = found.content.get("status", {}).get("conditions", [])
    assert [(each["type"], each["status"]) for each in conditions] == [("Ready", "True")]
    return str(conditions[0]["reason"])


async def test_an_embedded_control_plane_starts_and_stops_with_the_operator(project: Path) -> None:
    before = sorted(path for path in project.iterdir())
    async with run(project, "--embedded") as running:
        await running.says('"Controllers started"')
        assert f"export KUBECONFIG={project / '.kubewright/kubeconfig'}" in running.said
        client = running.client()
        sample = yaml.load((project / "config/samples/my_v1_webserver.yaml").read_text())
        await create(client, sample["spec"])
        assert await eventually(reason, client) == "Reconciled"
        await client.close()
        assert await running.end() == 0
        assert '"Manager stopped"' in running.said
    assert sorted(path for path in project.iterdir()) == before


async def test_the_operator_stops_when_the_terminal_is_closed(project: Path) -> None:
    async with run(project, "--embedded", "--reload") as running:
        await running.says('"Controllers started"')
        assert await running.end(signal.SIGHUP) == 0
        assert '"Manager stopped"' in running.said
        assert not (project / ".kubewright").exists()


async def test_the_operator_stops_when_the_command_is_killed(project: Path) -> None:
    async with run(project, "--embedded") as running:
        await running.says('"Controllers started"')
        assert await running.end(signal.SIGKILL) == -signal.SIGKILL  # its output ends when the operator has exited
        assert '"Manager stopped"' in running.said


async def test_a_second_embedded_control_plane_names_the_way_out(project: Path) -> None:
    with owned(project / ".kubewright/kubeconfig"):
        async with run(project, "--embedded") as running:
            assert await running.ended() == 1
    assert "; stop it, or omit --embedded to use it" in running.said


async def test_pods_have_stand_ins_if_requested(project: Path) -> None:
    shell = Container(name="sh", image="busybox", command=["sh", "-c", "echo it runs"])
    pod = Pod(
        metadata=ObjectMeta(name="shell", namespace="default"),
        spec=PodSpec(containers=[shell], restart_policy="Never"),
    )
    async with run(project, "--embedded", "--stand-ins") as running:
        await running.says('"Controllers started"')
        client = running.client()
        await client.create(pod)

        async def is_over() -> None:
            assert (await client.get(Pod, "shell", namespace="default")).status.phase == "Succeeded"

        await eventually(is_over)
        assert [line async for line in client.logs("shell", namespace="default")] == ["it runs"]
        await client.close()


async def test_stand_ins_require_an_embedded_control_plane(project: Path) -> None:
    async with run(project, "--stand-ins") as running:
        assert await running.ended() == 2
    assert "--stand-ins needs --embedded: it is about the Pods of the embedded control plane" in running.said


async def test_changed_code_is_at_work_at_once_and_the_cluster_stays(project: Path) -> None:
    async with run(project, "--embedded", "--reload") as running:
        await running.says('"Controllers started"')
        client = running.client()
        await create(client, {})
        assert await eventually(reason, client) == "Reconciled"
        running.edit(CONTROLLER, '"Reconciled"', '"Changed"')
        await running.says(f"{CONTROLLER} changed: restarting")

        async def is_changed() -> None:
            assert await reason(client) == "Changed"

        await eventually(is_changed)
        await client.close()
        assert await running.end() == 0


async def test_a_mistake_is_reported_and_the_old_operator_keeps_running(project: Path) -> None:
    async with run(project, "--embedded", "--reload") as running:
        await running.says('"Controllers started"')
        running.edit(CONTROLLER, "obj = ctx.object", "obj = (ctx.object")
        await running.says(f"{CONTROLLER}, line ")
        await running.says("the operator keeps running")
        client = running.client()
        await create(client, {})
        assert await eventually(reason, client) == "Reconciled"
        await client.close()
        assert await running.end() == 0
        assert "starting again" not in running.said


async def test_an_operator_that_ends_is_started_again_with_the_next_change(project: Path) -> None:
    async with run(project, "--embedded", "--reload") as running:
        await running.says('"Controllers started"')
        running.edit(CONTROLLER, "@controller", "import nowhere\n\n\n@controller")
        await running.says("No module named 'nowhere'")
        await running.says("the operator has exited; it restarts when a file changes")
        running.edit(CONTROLLER, "import nowhere\n\n\n", "")
        await running.says('"Controllers started"', times=2)
        assert await running.end() == 0


async def test_without_reload_the_end_of_the_operator_is_the_end(project: Path) -> None:
    (project / CONTROLLER).write_text("import nowhere\n")
    async with run(project, "--embedded") as running:
        assert await running.ended() == 1
        assert "No module named 'nowhere'" in running.said


async def test_changed_types_are_installed(project: Path) -> None:
    async with run(project, "--embedded", "--reload") as running:
        await running.says('"Controllers started"')
        running.edit("src/webserver_operator/api/v1/webserver.py", "foo: str | None = None", 'bar: str = "new"')
        await running.says('"Controllers started"', times=2)
        client = running.client()
        assert (await create(client, {})).content["spec"] == {"bar": "new"}
        await client.close()


WEBHOOK = """
from kubewright.policies import ValidatingPolicy, Validation
from kubewright.webhooks import AdmissionContext, defaulter

from .api.v1.webserver import WebServer


@defaulter(WebServer)
def set_foo(ctx: AdmissionContext[WebServer]) -> None:
    ctx.object.spec.foo = ctx.object.spec.foo or "filled in"


named = ValidatingPolicy(
    "named", WebServer, validations=[Validation("object.spec.?foo.orValue('') != 'bad'", message="bad is refused")]
)
manager = manager.replace(webhooks=[set_foo], policies=[named])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_webhooks_are_called_and_policies_enforced_while_the_operator_runs(
    project: Path, number: signal.Signals
) -> None:
    main = project / "src/webserver_operator/main.py"
    main.write_text(main.read_text().replace('\nif __name__ == "__main__":', f'{WEBHOOK}\nif __name__ == "__main__":'))
    async with run(project, "--embedded", "--reload") as running:
        await running.says('"Controllers started"')
        client = running.client()
        with pytest.raises(Invalid, match=r"'webserver.*\.local-named' denied request: bad is refused"):
            await create(client, {"foo": "bad"})
        assert (await create(client, {})).content["spec"] == {"foo": "filled in"}
        running.edit("src/webserver_operator/main.py", "filled in", "renewed")
        await running.says('"Controllers started"', times=2)
        await client.delete(WebServer, "web", namespace="default")
        assert (await create(client, {})).content["spec"] == {"foo": "renewed"}
        await client.close()
        assert await running.end(number) == 0
    assert "not deregistered" not in running.said


async def test_an_api_server_elsewhere_needs_a_url(project: Path) -> None:
    main = project / "src/webserver_operator/main.py"
    main.write_text(main.read_text().replace('\nif __name__ == "__main__":', f'{WEBHOOK}\nif __name__ == "__main__":'))
    (project / "remote").write_text(
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], "
        "clusters: [{name: c, cluster: {server: 'https://192.0.2.1:6443'}}], users: [{name: u, user: {token: t}}]}"
    )
    async with run(project, "--kubeconfig=remote") as running:
        assert await running.ended() == 1
    assert "https://192.0.2.1:6443 is not on this machine and cannot call webhooks on 127.0.0.1" in running.said
    assert "--webhook-url" in running.said


async def test_help_lists_options_of_the_command_and_of_the_operator(project: Path) -> None:
    async with run(project, "--help") as running:
        assert await running.ended() == 0
    assert "--embedded" in running.said
    assert "usage: kubewright run [-h]" in running.said
    assert "--leader-elect" in running.said


@pytest.mark.parametrize("option", ["--kubeconfig=x", "--context=x"])
async def test_an_embedded_control_plane_excludes_another_cluster(project: Path, option: str) -> None:
    async with run(project, "--embedded", option) as running:
        assert await running.ended() == 2
    assert "--embedded starts its own cluster; omit --kubeconfig and --context" in running.said
