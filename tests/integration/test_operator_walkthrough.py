"""The WebServer walkthrough: `kubewright install` and `kubewright run` in the project, and kubectl."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import pytest_asyncio

from integration.command import COMMAND, NO_SERVERS
from integration.kubectl import KUBECTL, Kubectl
from kubewright import Manager, NotFound
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.apis.core.v1 import Service
from kubewright.testing import Cluster, eventually, gone
from webserver_operator.controller.webserver import reconcile

pytestmark = [
    pytest.mark.skipif(KUBECTL is None, reason="kubectl was not found; `make controlplane` builds it"),
]

EXAMPLE = Path(__file__).parents[2] / "examples/webserver-operator"
SAMPLE = EXAMPLE / "config/samples/my_v1_webserver.yaml"
NAMESAKE = "webservers.farm.my.domain"


async def kubewright(*arguments: str, kubeconfig: Path) -> asyncio.subprocess.Process:
    """Run a command in the folder of the project."""
    return await asyncio.create_subprocess_exec(
        COMMAND, *arguments,
        cwd=EXAMPLE, env={**os.environ, "KUBECONFIG": str(kubeconfig)}, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


@asynccontextmanager
async def operator(kubeconfig: Path) -> AsyncIterator[None]:
    """Run the operator for the duration of the block. SIGTERM ends it."""
    process = await kubewright("run", *NO_SERVERS, kubeconfig=kubeconfig)
    assert process.stderr is not None
    while b"Controllers started" not in (line := await process.stderr.readline()):
        assert line, "it ended before it worked"
    rest = asyncio.create_task(process.stderr.read())
    try:
        yield
    finally:
        process.terminate()
        status = await process.wait()
    assert status == 0
    assert b"Traceback" not in await rest


async def remove_namesake(cluster: Cluster) -> None:
    """Remove the CRD of another example whose kind has the same name, which kubectl might choose."""
    with suppress(NotFound):
        await cluster.client.delete(CustomResourceDefinition, NAMESAKE)
    await cluster.client.wait_until_gone(CustomResourceDefinition, NAMESAKE)


@pytest_asyncio.fixture
async def kubectl(cluster: Cluster, namespace: str) -> AsyncIterator[Kubectl]:
    """Run the operator as its own ServiceAccount, with the permissions that its controller declares."""
    admin = cluster.kubeconfig()
    await remove_namesake(cluster)
    installing = await kubewright("install", kubeconfig=admin)
    assert await installing.wait() == 0
    async with (
        cluster.service_account(Manager([reconcile]).rbac_rules(), namespace=namespace) as account,
        operator(cluster.kubeconfig(account)),
    ):
        yield Kubectl(admin, namespace)
    for service in await cluster.client.list(Service, namespace=namespace):
        await cluster.client.delete(service)


async def test_the_walkthrough_reaches_all_its_states(cluster: Cluster, kubectl: Kubectl) -> None:
    assert await kubectl("apply", "-f", str(SAMPLE)) == "webserver.my.domain/webserver-sample created\n"
    await serves(kubectl, 3, "nginx:1.23.1")
    header, row = (await kubectl("get", "webservers")).splitlines()
    assert header.split() == ["NAME", "REPLICAS", "IMAGE", "READY", "AGE"]
    assert row.split()[:4] == ["webserver-sample", "3", "nginx:1.23.1", "True"]
    service = await kubectl("get", "service", "webserver-sample-service")
    assert "80:30010/TCP" in service
    assert "The container image of the webserver" in await kubectl("explain", "webserver.spec.image")
    described = await kubectl("describe", "webserver", "webserver-sample")
    assert "AllReplicasAvailable" in described

    await kubectl("patch", "webserver", "webserver-sample", "--type=merge", '-p={"spec":{"replicas":4}}')
    await serves(kubectl, 4, "nginx:1.23.1")

    changed = SAMPLE.read_text().replace("nginx:1.23.1", "nginx:1.23.0").replace("replicas: 3", "replicas: 4")
    assert "configured" in await kubectl("apply", "-f", "-", given=changed)
    await serves(kubectl, 4, "nginx:1.23.0")
    sets = (await kubectl.json("get", "replicasets", "-l", "webserver_cr=webserver-sample"))["items"]
    assert sorted(each["spec"]["replicas"] for each in sets) == [0, 4]

    lost = (await kubectl.json("get", "service", "webserver-sample-service"))["metadata"]["uid"]
    await kubectl("delete", "service", "webserver-sample-service", "--timeout=120s")

    async def is_back() -> None:
        service = await cluster.client.get(Service, "webserver-sample-service", namespace=kubectl.namespace)
        assert service.metadata.uid != lost

    await eventually(is_back)

    assert "deleted" in await kubectl("delete", "webserver", "webserver-sample", "--timeout=120s")
    await gone(cluster.client.get, Service, "webserver-sample-service", namespace=kubectl.namespace)
    await kubectl("wait", "--for=delete", "deployment,replicaset,pod", "-l=app=webserver", "--timeout=120s")


async def test_kubectl_reports_an_invalid_sample(kubectl: Kubectl) -> None:
    unknown = SAMPLE.read_text().replace("replicas:", "replicaz:")
    assert 'unknown field "spec.replicaz"' in await kubectl("apply", "-f", "-", given=unknown, fails=True)
    text = SAMPLE.read_text().replace("replicas: 3", "replicas: three")
    assert 'must be of type integer: "string"' in await kubectl("apply", "-f", "-", given=text, fails=True)
    nameless = SAMPLE.read_text().replace("name: webserver-sample", "labels: {}")
    assert "resource name may not be empty" in await kubectl("apply", "-f", "-", given=nameless, fails=True)
    assert "name or generateName is required" in await kubectl("create", "-f", "-", given=nameless, fails=True)


async def serves(kubectl: Kubectl, replicas: int, image: str) -> None:
    """Wait until the WebServer reports this number of replicas, and all Pods run the image."""
    sample = "webserver/webserver-sample"
    await kubectl("wait", sample, f"--for=jsonpath={{.status.availableReplicas}}={replicas}", "--timeout=120s")
    await kubectl("rollout", "status", "deployment/webserver-sample", "--timeout=120s")

    async def all_run_it() -> None:
        images = "jsonpath={.items[*].spec.containers[*].image}"
        pods = await kubectl("get", "pods", "-l", "webserver_cr=webserver-sample", "-o", images)
        assert pods.split() == [image] * replicas

    await eventually(all_run_it)
