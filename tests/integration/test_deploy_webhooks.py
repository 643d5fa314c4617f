"""Operators with webhooks are deployed, inspected and undeployed by the command line."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from integration.command import NO_SERVERS, BackgroundCommand
from integration.deployed import Deployed
from integration.deployed_webhooks import WebhookProject
from kubewright import Invalid, ObjectMeta
from kubewright.apis.admissionregistration.v1 import (
    MutatingWebhookConfiguration,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
)
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import Secret, Service
from kubewright.client._patch import MergePatch
from kubewright.testing import Cluster
from kubewright.webhooks._certificates import Certificates
from kubewright_cli.deployment.conversions import conversion_of, service_of, url_of

CONFIGURATIONS = (MutatingWebhookConfiguration, ValidatingWebhookConfiguration)
REGISTERED = (*CONFIGURATIONS, ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicy)
"""What a local run of the project registers."""


class WithWebhooks(Deployed):
    project: WebhookProject

    @property
    def service(self) -> tuple[str, str]:
        return self.project.namespace, f"{self.project.name}-webhook-service"

    async def conversion(self) -> tuple[tuple[str, str], str]:
        """Return the Service and the URL that convert."""
        found = conversion_of(await self.client.get(CustomResourceDefinition, self.project.crd))
        return service_of(found), url_of(found)

    async def policies(self) -> set[str]:
        """Return the names of the policies."""
        found = await self.client.list(ValidatingAdmissionPolicy)
        return {each.metadata.name for each in found if each.metadata.name.startswith(self.project.name)}

    async def findings(self) -> dict[str, str]:
        """Return what doctor says, by the subject."""
        found: dict[str, str] = {}
        for each in (await self.document("doctor"))["findings"]:
            found[each["subject"]] = f"{found.get(each['subject'], '')}{each['problem']}; {each['remedy']}\n"
        return found

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[BackgroundCommand]:
        """Run the operator next to the deployed one, until it converts."""
        process, _ = await self._started("run", *NO_SERVERS, "--leader-elect", when="Webhooks registered")
        try:
            yield process
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGINT)
                await process.stdout.read()
                await process.wait()


@pytest_asyncio.fixture
async def deployed(cluster: Cluster, tmp_path: Path) -> AsyncIterator[WithWebhooks]:
    found = WithWebhooks(WebhookProject(tmp_path), cluster)
    yield found
    status, said = await found.run("undeploy", "--yes", "--timeout=20")
    assert status == 0, said


@pytest.mark.usefixtures("processes")
async def test_webhooks_work_from_deploy_to_undeploy(deployed: WithWebhooks, namespace: str) -> None:
    project, client = deployed.project, deployed.client
    project.write(stored="v1alpha1")
    await deployed.good("deploy")
    assert (await project.make(client, namespace, "one")).spec.size == 3
    with pytest.raises(Invalid, match=r"spec\.size: Invalid value: 12: must be at most 10"):
        await project.make(client, namespace, "big", size=12)
    assert await project.sizes(client, namespace) == ({"one": 3}, {"one": 3})
    assert await deployed.policies() == {f"{project.name}-of-v1alpha1"}
    assert "Nothing is wrong." in await deployed.good("doctor")

    await move_port(deployed)
    found = await deployed.findings()
    assert 'failed calling webhook "mgizmo-v1.kb.io"' in found["webhooks of Gizmo"]
    assert "whether the API server reaches the Pods" in found["webhooks of Gizmo"]
    assert "conversion webhook for" in found[f"crd/{project.crd}"]

    project.write(stored="v1")
    said = await deployed.good("deploy")
    assert f"{project.crd}: objects may be stored in v1alpha1; run `kubewright migrate`" in said
    assert await deployed.policies() == {f"{project.name}-of-v1"}
    said = await deployed.good("deploy", "--migrate")
    assert f"{project.crd}: 1 object written in v1 by this command, v1alpha1 removed" in said

    async with deployed.running():
        assert (await deployed.conversion())[1].startswith("https://127.0.0.1:")
        await deployed.good("install")
        await deployed.good("deploy")
        assert (await deployed.conversion())[1].startswith("https://127.0.0.1:")
        assert await project.sizes(client, namespace) == ({"one": 3}, {"one": 3})
    assert await deployed.conversion() == (deployed.service, "")
    assert "Warning" not in await deployed.good("install")
    assert await deployed.conversion() == (deployed.service, "")
    assert "Nothing is wrong." in await deployed.good("doctor")
    await deployed.good("status")

    async with used_all_the_time(deployed, namespace):
        await deployed.good("undeploy", "--keep-crds")
    assert await deployed.conversion() == (("", ""), "")
    new, old = await project.sizes(client, namespace)
    assert new["one"] == 3
    assert await deployed.policies() == set()
    assert set(new) == set(old)


async def move_port(deployed: WithWebhooks) -> None:
    """Let the Service call a port of the Pods that nothing listens on."""
    namespace, name = deployed.service
    service = await deployed.client.get(Service, name, namespace=namespace)
    service.spec.ports[0].target_port = 1
    await deployed.client.update(service)


@asynccontextmanager
async def used_all_the_time(deployed: WithWebhooks, namespace: str) -> AsyncGenerator[None]:
    """Read in both versions, and write, while the block runs. Fails if a request fails."""
    project, client = deployed.project, deployed.client
    ended = asyncio.Event()

    async def use() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            await project.sizes(client, namespace)
            await project.make(client, namespace, f"number-{number}", size=1)
            await asyncio.sleep(0.05)

    using = asyncio.create_task(use())
    try:
        yield
    finally:
        ended.set()
        await using


@pytest.mark.usefixtures("processes")
async def test_a_manager_that_reads_another_version_ends_before_its_conversion(
    deployed: WithWebhooks, namespace: str
) -> None:
    project, client = deployed.project, deployed.client
    project.write(stored="v1alpha1")
    await deployed.good("deploy")
    await project.make(client, namespace, "one")
    said = await deployed.good("undeploy", "--keep-crds")
    assert said.index("deployment.apps/") < said.index(f"{project.crd} configured")
    assert (await project.sizes(client, namespace))[1] == {"one": 3}


async def test_webhooks_that_do_not_answer_are_found_and_undeployed(deployed: WithWebhooks, namespace: str) -> None:
    project, client = deployed.project, deployed.client
    project.write(stored="v1alpha1")
    said = await deployed.good("install")
    assert "Gizmo: until `kubewright run` or `kubewright deploy` converts its objects, a write through one" in said
    assert await deployed.conversion() == (("", ""), "")
    old = project.old()
    await client.create(old(metadata=ObjectMeta(name="one", namespace=namespace)))
    project.write(stored="v1", hangs=True)
    await deployed.good("deploy", "--no-wait")
    assert await deployed.conversion() == (deployed.service, "")

    found = await deployed.findings()
    secret = f"secret/{project.name}-webhook-server-cert"
    assert "does not exist in namespace" in found[secret]
    assert "the manager makes it: see `kubewright logs`" in found[secret]
    if deployed.table is not None:  # elsewhere, Pods are simulated and ready
        assert "has no ready endpoint" in found[f"service/{deployed.service[1]}"]
    status = await deployed.failed("status")
    assert f"Gizmo.{project.group} cannot be read: " in status
    assert "does not exist in namespace" in status

    await make_secret(deployed, host="elsewhere.svc", age=timedelta(days=400))
    await set_ca(deployed, Certificates.made(["x"], datetime.now(UTC)).bundle)
    await client.patch(MutatingWebhookConfiguration, MergePatch({"webhooks": []}), name=project.mutating)
    found = await deployed.findings()
    assert f"its certificate is not for {deployed.service[1]}.{project.namespace}.svc" in found[secret]
    assert "its certificate expired on" in found[secret]
    assert "caBundle is empty" in found[f"validatingwebhookconfiguration/{project.validating}"]
    assert "caBundle is not the CA of the webhooks' certificate" in found[f"crd/{project.crd}"]
    assert "Webhook CA not injected" in found[f"crd/{project.crd}"]
    assert "differs from the program's" in found[f"mutatingwebhookconfiguration/{project.mutating}"]

    name = f"{project.name}-controller-manager"
    await client.patch(Deployment, MergePatch({"spec": {"replicas": 0}}), name=name, namespace=project.namespace)
    await client.delete(Service, deployed.service[1], namespace=project.namespace)
    found = await deployed.findings()
    assert f"scale deployment {name} --namespace {project.namespace} --replicas=1" in found["deployment"]
    for each in (f"validatingwebhookconfiguration/{project.validating}", f"crd/{project.crd}"):
        assert f"Service {'/'.join(deployed.service)}, which does not exist" in found[each]

    said = await deployed.good("undeploy", "--keep-crds")
    assert f"{project.crd} configured" in said
    assert await deployed.conversion() == (("", ""), "")
    assert list(await client.list(old, namespace=namespace))


async def make_secret(deployed: WithWebhooks, *, host: str, age: timedelta) -> None:
    """Store a certificate as the manager does."""
    made = Certificates.made([host], datetime.now(UTC) - age)
    metadata = ObjectMeta(name=f"{deployed.project.name}-webhook-server-cert", namespace=deployed.project.namespace)
    await deployed.client.create(Secret(metadata=metadata, type="kubernetes.io/tls", data=made.data))


async def set_ca(deployed: WithWebhooks, bundle: bytes) -> None:
    crd = await deployed.client.get(CustomResourceDefinition, deployed.project.crd)
    assert crd.spec.conversion is not None
    assert crd.spec.conversion.webhook is not None
    assert crd.spec.conversion.webhook.client_config is not None
    crd.spec.conversion.webhook.client_config.ca_bundle = bundle
    await deployed.client.update(crd)


async def test_what_a_killed_local_run_left_is_found_and_replaced(deployed: WithWebhooks, namespace: str) -> None:
    project, client = deployed.project, deployed.client
    await deployed.good("install")
    async with deployed.running() as process:
        await project.make(client, namespace, "one")
        assert "policies gizmos.local-*" not in await deployed.findings()
        process.kill()
        await process.wait()
    found = await deployed.findings()
    left = found["policies gizmos.local-*"]
    assert f"were left by `kubewright run` (process {process.pid}), which has ended, and are still enforced" in left
    local = "validatingwebhookconfiguration/gizmos.local-validating-webhook-configuration"
    assert "was left by `kubewright run`, which no longer answers at https://127.0.0.1:" in found[local]
    assert f"kubectl delete {local.replace('/', ' ')}" in found[local]
    assert "its objects are converted by `kubewright run` at https://127.0.0.1:" in found[f"crd/{project.crd}"]
    await deployed.good("deploy", "--no-wait")
    assert await deployed.conversion() == (deployed.service, "")
    command = left.partition("`kubectl delete ")[2].partition("`")[0]
    for kind in REGISTERED:
        for each in await client.list(kind):
            if each.metadata.name.startswith("gizmos.local-"):
                assert kind in CONFIGURATIONS or f"{kind.__api__.kind.lower()}/{each.metadata.name}" in command.split()
                await client.delete(each)
