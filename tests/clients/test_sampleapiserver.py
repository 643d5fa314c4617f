"""k8s.io/sample-apiserver behind the control plane: an extension server as projects write them.

The program is in `sampleapiserver/`. Building it takes minutes the first time.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from clients.goprograms import BUILD_SECONDS, go_program
from conformance.rawapi import API, until
from kubewright.machinery.errors import ConfigError
from kubewright.testing import Cluster
from kubewright_controlplane.ports import free_port
from kubewright_controlplane.real import find_binaries

SOURCE = Path(__file__).with_name("sampleapiserver")
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
GROUP = "wardle.example.com"
NAME = f"v1beta1.{GROUP}"
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("go") is None, reason="Go was not found"),
    pytest.mark.timeout(2 * BUILD_SECONDS + 300),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return go_program(tmp_path_factory, SOURCE)


@pytest.fixture(scope="module")
def etcd() -> Path:
    try:
        return find_binaries("etcd") / "etcd"
    except ConfigError as error:
        pytest.skip(str(error))


@asynccontextmanager
async def running(log: Path, *command: object) -> AsyncIterator[None]:
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(*map(str, command), stdout=output, stderr=output, env=os.environ)
    try:
        yield
        assert process.returncode is None, log.read_text()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest_asyncio.fixture
async def api(program: Path, etcd: Path, cluster: Cluster, namespace: str, tmp_path: Path) -> AsyncIterator[API]:
    """Run the program, and register it."""
    client, peer, port = (free_port() for _ in range(3))
    kubeconfig = cluster.kubeconfig()
    api = API(cluster.config)
    async with AsyncExitStack() as stack:
        flags = (
            f"--data-dir={tmp_path / 'etcd'}",
            f"--listen-client-urls=http://127.0.0.1:{client}",
            f"--advertise-client-urls=http://127.0.0.1:{client}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            "--unsafe-no-fsync",
        )
        await stack.enter_async_context(running(tmp_path / "etcd.log", etcd, *flags))
        delegated = [f"--{each}kubeconfig={kubeconfig}" for each in ("", "authentication-", "authorization-")]
        flags = (
            f"--etcd-servers=http://127.0.0.1:{client}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={tmp_path / 'certificates'}",
            *delegated,
        )
        await stack.enter_async_context(running(tmp_path / "sample-apiserver.log", program, *flags))
        service = {"metadata": {"name": "api"}, "spec": {"type": "ExternalName", "externalName": "localhost"}}
        (await api.post(f"/api/v1/namespaces/{namespace}/services", service)).expect(201)
        spec = {
            "group": GROUP,
            "version": "v1beta1",
            "groupPriorityMinimum": 1000,
            "versionPriority": 15,
            "insecureSkipTLSVerify": True,
            "service": {"namespace": namespace, "name": "api", "port": port},
        }
        (await api.post(API_SERVICES, {"metadata": {"name": NAME}, "spec": spec})).expect(201)
        yield api
        await api.delete(f"{API_SERVICES}/{NAME}")
        await api.close()


async def test_objects_of_a_sample_api_server_are_served(api: API) -> None:
    (await api.post("/api/v1/namespaces", {"metadata": {"name": "wardle"}})).expect(201)
    flunders = f"/apis/{GROUP}/v1beta1/namespaces/wardle/flunders"

    async def is_served() -> bool:
        return (await api.get(flunders)).status == 200

    await until(is_served)
    (condition,) = (await api.get(f"{API_SERVICES}/{NAME}")).json["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("True", "Passed")
    watch = await api.watch(f"{flunders}?watch=1")
    made = (await api.post(flunders, {"metadata": {"name": "one"}, "spec": {}})).expect(201).json
    event = await watch.next()
    assert (event["type"], event["object"]["metadata"]["uid"]) == ("ADDED", made["metadata"]["uid"])
    await watch.close()
    applied = await api.patch(
        f"{flunders}/one?fieldManager=test", {**KIND, "metadata": {"labels": {"a": "b"}}}, "apply"
    )
    assert applied.expect(200).json["metadata"]["labels"] == {"a": "b"}
    answer = await api.get(flunders, **{"impersonate-user": "jane"})
    assert answer.reason == "Forbidden"

    async def is_published() -> bool:
        published = (await api.get("/openapi/v3")).json["paths"].get(f"apis/{GROUP}/v1beta1")
        return published is not None and b"Flunder" in (await api.get(published["serverRelativeURL"])).body

    await until(is_published)
    (await api.delete("/api/v1/namespaces/wardle")).expect(200)

    async def is_gone() -> bool:
        return (await api.get("/api/v1/namespaces/wardle")).status == 404

    await until(is_gone)  # its controller has deleted the objects of the extension server, too
    assert (await api.get(f"{flunders}/one")).status == 404


KIND = {"apiVersion": f"{GROUP}/v1beta1", "kind": "Flunder"}
