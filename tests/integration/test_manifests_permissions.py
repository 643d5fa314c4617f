"""A manager runs with the flags and the ServiceAccount of its Deployment, and only the generated permissions."""

from __future__ import annotations

import asyncio
import secrets
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from integration.command import environment, run
from integration.kubectl import Kubectl
from integration.manifests import installer, needs_kubectl
from kubewright.machinery.json import JSONObject
from kubewright.testing import Cluster, eventually
from kubewright_controlplane.ports import free_port

pytestmark = [needs_kubectl, pytest.mark.xdist_group("golden manifests")]

PROGRAM = """
from kubewright import Context, CustomResource, Manager, Model, ObjectMeta, controller, field
from kubewright.apis.core.v1 import ConfigMap

class Status(Model):
    seen: bool = False

class Berth(CustomResource, group="permissions.example.com", version="v1"):
    status: Status = field(default_factory=Status)

class Coast(CustomResource, group="permissions.example.com", version="v1", namespaced=False):
    status: Status = field(default_factory=Status)

@controller(Berth, owns=[ConfigMap])
async def berths(ctx: Context[Berth]) -> None:
    metadata = ObjectMeta(name=ctx.object.metadata.name, namespace=ctx.object.metadata.namespace)
    await ctx.apply(ConfigMap(metadata=metadata, data={"a": "b"}))
    await seen(ctx)

@controller(Coast)
async def coasts(ctx: Context[Coast]) -> None:
    await seen(ctx)

async def seen(ctx) -> None:
    ctx.events.normal(ctx.object, "Seen", "it was seen")
    await ctx.update_status(Status(seen=True))

manager = Manager([berths, coasts])

if __name__ == "__main__":
    manager.main()
"""
OBJECTS = """
apiVersion: permissions.example.com/v1
kind: {kind}
metadata: {{name: {name}, namespace: {namespace}}}
"""


class Deployed:
    """A project whose manifests are installed, and its manager, which runs in this process as it would in a Pod."""

    def __init__(self, cluster: Cluster, kubectl: Kubectl, project: Path) -> None:
        self.cluster = cluster
        self.kubectl = kubectl
        self.project = project
        self.objects = installer(project)
        [deployment] = [each for each in self.objects if each["kind"] == "Deployment"]
        self.namespace: str = deployment["metadata"]["namespace"]
        self.container: JSONObject = deployment["spec"]["template"]["spec"]["containers"][0]
        self.port = free_port()
        self.said = b""

    async def token(self, account: str, namespace: str) -> str:
        return (await self.kubectl("create", "token", account, f"--namespace={namespace}")).strip()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        token = await self.token(f"{self.project.name}-controller-manager", self.namespace)
        config = replace(self.cluster.config, token=token, client_cert=None, client_key=None, namespace=self.namespace)
        own = environment(self.cluster.kubeconfig(config)) | {"POD_NAMESPACE": self.namespace}
        given = " ".join(self.container["args"]).replace("$(POD_NAMESPACE)", self.namespace)
        given = given.replace(":8081", f"127.0.0.1:{free_port()}").replace(":8443", f"127.0.0.1:{self.port}")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "program", *given.split(), cwd=self.project, env=own, stderr=asyncio.subprocess.PIPE
        )
        assert process.stderr is not None
        while b"Controllers started" not in (line := await process.stderr.readline()):
            assert line, self.said.decode()
            self.said += line
        rest = asyncio.create_task(process.stderr.read())
        try:
            yield
        finally:
            process.terminate()
            self.said += await rest
            assert await process.wait() == 0, self.said.decode()

    async def scrape(self, token: str) -> int:
        """Request the metrics. Returns the status of the answer."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context)
        writer.write(f"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        status = int((await reader.readline()).split()[1])
        writer.close()
        return status


@asynccontextmanager
async def deployed(cluster: Cluster, folder: Path, settings: str) -> AsyncIterator[Deployed]:
    kubectl = Kubectl(cluster.kubeconfig(), "")
    project = folder / f"op-{secrets.token_hex(4)}"
    project.mkdir()
    (project / "program.py").write_text(PROGRAM)
    (project / "pyproject.toml").write_text(
        f'[project]\nname = "{project.name}"\n[tool.kubewright]\nmanager = "program:manager"\n{settings}'
    )
    status, said = await asyncio.to_thread(run, "generate", "installer", folder=project)
    assert status == 0, said
    file = str(project / "dist/install.yaml")
    await kubectl("apply", "--server-side", "--force-conflicts", "-f", file)
    await eventually(kubectl, "get", "berths,coasts", "--all-namespaces")
    await kubectl("scale", "deployment", "--all", "--replicas=0", f"--namespace={project.name}-system")
    try:
        yield Deployed(cluster, kubectl, project)
    finally:
        await kubectl("delete", "--ignore-not-found", "-f", file)


async def exercise(there: Deployed, berths: str) -> None:
    """Assert that Berths and a Coast are reconciled, with Events, and that no request was denied."""
    for kind, namespace in (("Berth", berths), ("Coast", "")):
        text = OBJECTS.format(kind=kind, name=there.project.name, namespace=namespace or "default")
        await there.kubectl("create", "-f", "-", given=text if namespace else text.replace(", namespace: default", ""))

    async def seen() -> None:
        for resource, where in (("berth", f"--namespace={berths}"), ("coast", "--namespace=default")):
            found = await there.kubectl.json("get", resource, there.project.name, where)
            assert found.get("status") == {"seen": True}
            events = await there.kubectl.json("get", "events.events.k8s.io", where)
            assert there.project.name in [each["regarding"]["name"] for each in events["items"]]
        await there.kubectl("get", "configmap", there.project.name, f"--namespace={berths}")
        await there.kubectl("get", "leases", "--output=name", f"--namespace={there.namespace}")

    await eventually(seen)


@pytest.mark.parametrize("watched", ['"all"', '"own"', "some"])
async def test_the_generated_permissions_are_sufficient(
    cluster: Cluster, namespace: str, tmp_path: Path, watched: str
) -> None:
    value = f'["{namespace}"]' if watched == "some" else watched
    async with deployed(cluster, tmp_path, f"watch-namespaces = {value}\n") as there, there.running():
        await exercise(there, there.namespace if watched == '"own"' else namespace)
    assert b"orbidden" not in there.said, there.said.decode()
    assert b"not allowed" not in there.said, there.said.decode()


async def test_only_users_with_the_reader_role_read_metrics(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    async with deployed(cluster, tmp_path, "") as there, there.running():
        await there.kubectl("create", "serviceaccount", "scraper", f"--namespace={namespace}")
        token = await there.token("scraper", namespace)
        assert await there.scrape(token) == 403
        role, subject = f"--clusterrole={there.project.name}-metrics-reader", f"--serviceaccount={namespace}:scraper"
        await there.kubectl("create", "clusterrolebinding", there.project.name, role, subject)
        try:
            other = await there.token("scraper", namespace)

            async def may() -> None:
                assert await there.scrape(other) == 200

            await eventually(may)
        finally:
            await there.kubectl("delete", "clusterrolebinding", there.project.name)
