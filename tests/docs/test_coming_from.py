"""The Go and Kopf operators on the pages are built and run, and a Kubewright operator replaces each."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from benchmarks.peers import KOPF
from benchmarks.peers.build import build

from docs.snippets import ROOT, Program, programs
from docs.test_snippets import loaded
from kubewright import LeaderElection, Manager, ObjectMeta
from kubewright.apis.apps.v1 import Deployment, ReplicaSet
from kubewright.apis.coordination.v1 import Lease
from kubewright.apis.core.v1 import Pod, Service
from kubewright.client import MergePatch
from kubewright.machinery import yaml
from kubewright.models import custom_resource_definition
from kubewright.testing import Cluster, eventually, gone
from once import GO_BUILD, alone

GENERATED = Path(__file__).with_name("kubebuilder")
BUILD_SECONDS = 900
pytestmark = pytest.mark.timeout(2 * BUILD_SECONDS + 300)


def shown(page: str, language: str) -> dict[str, str]:
    """Return the files of another toolkit on a page, by title."""
    text = (ROOT / "docs" / page).read_text()
    return dict(re.findall(rf'^```{language} title="([^"]+)"\n(.*?)^```', text, flags=re.S | re.M))


def ours(page: str, folder: Path) -> ModuleType:
    """Return the Kubewright program on a page."""
    program: Program = next(each for each in programs() if each.name == f"docs_{page}")
    (folder / f"{program.name}.py").write_text(program.source)
    return loaded(program, folder)


@pytest.fixture(scope="module")
def go_operator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the operator of the page. Skips without Go, or if its modules are not available."""
    if shutil.which("go") is None:
        pytest.skip("Go was not found")
    folder = tmp_path_factory.mktemp("kubebuilder")
    for title, text in shown("coming-from-kubebuilder.md", "go").items():
        path = folder / title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shutil.copy(GENERATED / "zz_generated.deepcopy.go", folder / "api/v1")
    modules = ROOT / "tests/clients/go"
    shutil.copy(modules / "go.sum", folder)
    required = (modules / "go.mod").read_text()
    (folder / "go.mod").write_text(re.sub("(?m)^module .*", "module my.domain/webserver-operator", required))
    command = ("go", "build", "-mod=mod", "-o", "manager", "./cmd")
    with alone(tmp_path_factory, GO_BUILD):
        fetched = subprocess.run(("go", "mod", "download"), cwd=folder, capture_output=True, text=True)
        if fetched.returncode != 0:
            pytest.skip(f"the Go modules cannot be had: {fetched.stderr.strip()}")
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_SECONDS)
    assert done.returncode == 0, done.stderr
    return folder / "manager"


@pytest.fixture(scope="module")
def kopf_operator(tmp_path_factory: pytest.TempPathFactory) -> Sequence[str]:
    """The command that runs the operator of the page. Skips if Kopf is not available."""
    peers = build([KOPF])
    if not peers:
        pytest.skip("Kopf cannot be had")
    handlers = tmp_path_factory.mktemp("kopf") / "handlers.py"
    handlers.write_text(shown("coming-from-kopf.md", "python")["handlers.py"])
    python = peers[0].operators["widgets"][0]
    return (python, "-m", "kopf", "run", "--standalone", str(handlers))


@asynccontextmanager
async def started(*command: str | Path, **environment: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Run a program for the duration of the block."""
    process = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, **environment}, stdout=sys.stderr, stderr=sys.stderr
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def stop(process: asyncio.subprocess.Process) -> None:
    assert process.returncode is None, "the operator exited unexpectedly"
    process.terminate()
    await process.wait()


class World:
    """A WebServer and its dependents."""

    def __init__(self, cluster: Cluster, namespace: str, page: ModuleType) -> None:
        self.client = cluster.client
        self.namespace = namespace
        self.page = page

    async def create(self) -> None:
        metadata = ObjectMeta(name="web", namespace=self.namespace)
        spec = self.page.WebServerSpec(replicas=2, image="nginx:1.23.1")
        await self.client.create(self.page.WebServer(metadata=metadata, spec=spec))

    async def serves(self, replicas: int) -> None:
        web = await self.web()
        assert web.status.available_replicas == replicas
        assert (await self.deployment()).status.available_replicas == replicas
        service = await self.client.get(Service, "web-service", namespace=self.namespace)
        assert service.spec.ports[0].node_port == 30010
        assert len(await self.pods()) == replicas

    async def scale(self, replicas: int) -> None:
        wanted = MergePatch({"spec": {"replicas": replicas}})
        await self.client.patch(self.page.WebServer, wanted, name="web", namespace=self.namespace)

    async def web(self) -> Any:
        return await self.client.get(self.page.WebServer, "web", namespace=self.namespace)

    async def deployment(self) -> Deployment:
        return await self.client.get(Deployment, "web", namespace=self.namespace)

    async def pods(self) -> set[str]:
        return {each.metadata.uid for each in await self.client.list(Pod, namespace=self.namespace)}

    async def owners_of_fields(self) -> set[tuple[str, str]]:
        """Return the managers of fields, except those of the cluster, which write the status and the revision."""
        entries = (await self.deployment()).metadata.managed_fields
        return {(each.manager, each.operation) for each in entries if each.manager != "kube-controller-manager"}

    async def no_pod_was_restarted(self, before: set[str]) -> None:
        """Assert that the old Pods still run, and that the template never changed."""
        assert before <= await self.pods()
        assert len(await self.client.list(ReplicaSet, namespace=self.namespace)) == 1

    async def delete(self) -> None:
        await self.client.delete(self.page.WebServer, "web", namespace=self.namespace)
        await gone(self.web)
        await gone(self.client.get, Service, "web-service", namespace=self.namespace)


def test_the_classes_produce_the_crd_of_controller_gen(tmp_path: Path) -> None:
    made = yaml.load((GENERATED / "my.domain_webservers.yaml").read_text())
    assert made["metadata"].pop("annotations") == {"controller-gen.kubebuilder.io/version": "v0.21.0"}
    assert custom_resource_definition(ours("coming_from_kubebuilder", tmp_path).WebServer) == made


async def test_an_operator_of_kubebuilder_is_replaced_without_restarting_a_pod(
    cluster: Cluster, namespace: str, go_operator: Path, tmp_path: Path
) -> None:
    page = ours("coming_from_kubebuilder", tmp_path)
    await cluster.install(page.WebServer)
    world = World(cluster, namespace, page)
    await world.create()
    flags = ("--leader-elect", "--health-probe-bind-address=0")
    environment = {"KUBECONFIG": str(cluster.kubeconfig()), "LEASE_NAMESPACE": namespace}
    async with started(go_operator, *flags, **environment) as old:
        await eventually(world.serves, 2)
        pods = await world.pods()
        lease = await cluster.client.get(Lease, "80807133.my.domain", namespace=namespace)
        election = LeaderElection(name="80807133.my.domain", namespace=namespace)
        new = Manager(
            page.manager.controllers, name="webserver-operator", config=cluster.config, leader_election=election
        )
        async with new:
            await world.scale(3)
            await eventually(world.serves, 3)  # the old operator leads
            assert await holder(cluster, namespace) == lease.spec.holder_identity
            assert await world.owners_of_fields() == {("manager", "Update")}
            await stop(old)
            await eventually(leads_no_more, cluster, namespace, lease.spec.holder_identity)
            await world.scale(4)
            await eventually(world.serves, 4)
            await world.no_pod_was_restarted(pods)

            await page.release_fields(cluster.client, await world.deployment(), "manager")
            assert await world.owners_of_fields() == {("webserver-operator", "Apply")}
            await world.delete()


async def test_an_operator_of_kopf_is_replaced_without_restarting_a_pod(
    cluster: Cluster, namespace: str, kopf_operator: Sequence[str], tmp_path: Path
) -> None:
    page = ours("coming_from_kopf", tmp_path)
    await cluster.install(page.WebServer)
    world = World(cluster, namespace, page)
    await world.create()
    flags = ("--namespace", namespace)
    async with started(*kopf_operator, *flags, KUBECONFIG=str(cluster.kubeconfig())) as old:
        await eventually(world.serves, 2)
        await stop(old)
    pods = await world.pods()
    web = await world.web()
    assert web.metadata.finalizers == [page.FINALIZER]
    assert "kopf.zalando.org/last-handled-configuration" in web.metadata.annotations
    assert await world.owners_of_fields() == {("OpenAPI-Generator", "Update")}

    await page.forget_kopf_everywhere(cluster.client)
    web = await world.web()
    assert (web.metadata.finalizers, web.metadata.annotations) == ([], {})
    new = Manager([page.reconcile], name="webserver-operator", config=cluster.config, namespaces=namespace)
    async with new:
        await world.scale(3)
        await eventually(world.serves, 3)
        await world.no_pod_was_restarted(pods)
        await world.delete()


async def holder(cluster: Cluster, namespace: str) -> str | None:
    return (await cluster.client.get(Lease, "80807133.my.domain", namespace=namespace)).spec.holder_identity


async def leads_no_more(cluster: Cluster, namespace: str, identity: str | None) -> None:
    assert await holder(cluster, namespace) != identity
