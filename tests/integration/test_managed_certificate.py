"""Managers make the certificate of their webhooks themselves, share it, renew it, and make the API server trust it."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from copy import deepcopy
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

from kubewright import ConfigError, CustomResource, Invalid, Manager, Model, ObjectMeta, field
from kubewright.apis.admissionregistration.v1 import (
    ServiceReference,
    ValidatingWebhookConfiguration,
    WebhookClientConfig,
)
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.apis.core.v1 import Secret, Service, ServiceSpec
from kubewright.client import Config, JSONPatch, MergePatch
from kubewright.client._crds import until_established
from kubewright.http.client import HTTPClient
from kubewright.http.message import Request
from kubewright.machinery import fields
from kubewright.machinery.errors import ServiceUnavailable
from kubewright.models import codec, custom_resource_definition
from kubewright.testing import Cluster, eventually
from kubewright.webhooks import (
    AdmissionContext,
    Conversion,
    FieldError,
    ManagedCertificate,
    Spoke,
    WebhookService,
    conversion_strategy,
    defaulter,
    validator,
    webhook_configurations,
)
from kubewright.webhooks._certificates import Certificates
from kubewright.webhooks._keeper import SERVICE

GROUP = "managed.webhooks.example.com"
CRD = f"windows.{GROUP}"
CERT_MANAGER = "cert-manager.io/inject-ca-from"


class WindowSpec(Model):
    width: int | None = None


class Window(CustomResource, group=GROUP, version="v1"):
    spec: WindowSpec = field(default_factory=WindowSpec)


class WindowV1Alpha1(CustomResource, group=GROUP, version="v1alpha1", kind="Window", storage=False):
    spec: WindowSpec = field(default_factory=WindowSpec)


@defaulter(Window)
def set_width(ctx: AdmissionContext[Window]) -> None:
    ctx.object.spec.width = ctx.object.spec.width or 1


@validator(Window)
def check(ctx: AdmissionContext[Window]) -> list[FieldError]:
    width = ctx.object.spec.width or 0
    return [fields.invalid("spec.width", width, "must be at most 10")] if width > 10 else []


CONVERSION = Conversion(
    Window,
    Spoke(
        WindowV1Alpha1,
        convert_to=lambda old: Window(spec=old.spec),
        convert_from=lambda new: WindowV1Alpha1(spec=new.spec),
    ),
)
WEBHOOKS = [set_width, check, CONVERSION]


class Deployment:
    """The objects of an operator in a cluster, and replicas of it in this process."""

    def __init__(self, cluster: Cluster, namespace: str, account: Config) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.namespace = namespace
        self.prefix = f"{namespace}-"
        self.certificate = ManagedCertificate(prefix=self.prefix)
        self.names = self.certificate.objects(WEBHOOKS)
        self.server_name = f"{self.names.service}.{namespace}.svc"
        self.hosts = (self.server_name, f"{self.server_name}.cluster.local")
        self._account = account

    def manager(self) -> Manager:
        """Return a replica, with only the permissions that it declares."""
        return Manager(
            webhooks=WEBHOOKS,
            name="windows",
            config=self._account,
            health_address="127.0.0.1:0",
            webhook_port=0,
            webhook_certificate=self.certificate,
        )

    async def install(
        self, mutating_port: int, validating_port: int, annotations: Mapping[str, str] | None = None
    ) -> None:
        """Create the Service, the CRD and the configurations: without a CA, as manifests have them.

        `annotations` are those of the validating configuration.
        """
        spec = ServiceSpec(type="ExternalName", external_name="localhost")
        await self.client.create(
            Service(metadata=ObjectMeta(name=self.names.service, namespace=self.namespace), spec=spec)
        )
        address = WebhookService(self.names.service, self.namespace, mutating_port)
        crd = codec.from_dict(CustomResourceDefinition, custom_resource_definition(Window, WindowV1Alpha1))
        crd.spec.conversion = conversion_strategy(address=address)
        await self.client.apply(crd)
        await until_established(self.client, CRD)
        mutating, validating = webhook_configurations(WEBHOOKS, address=address, prefix=self.prefix)
        (entry,) = validating.webhooks
        assert entry.client_config.service is not None
        entry.client_config.service.port = validating_port
        other = deepcopy(entry)
        other.name, other.rules = "other.example.com", []
        other.client_config = WebhookClientConfig(
            service=ServiceReference(name="other", namespace=self.namespace, path="/other")
        )
        validating.webhooks = [other, entry]
        validating.metadata.annotations = dict(annotations or {})
        for each in (mutating, validating):
            await self.client.create(each)

    async def remove(self) -> None:
        for kind, name in (
            (ValidatingWebhookConfiguration, self.names.validating_configuration),
            (type(webhook_configurations([set_width], address=WebhookService())[0]), self.names.mutating_configuration),
            (CustomResourceDefinition, CRD),
        ):
            if await self.client.get_or_none(kind, name) is not None:
                await self.client.delete(kind, name)
                await self.client.wait_until_gone(kind, name)

    async def secret(self) -> Secret:
        return await self.client.get(Secret, self.names.secret, namespace=self.namespace)

    async def store(self, data: dict[str, bytes], service: str | None = None) -> None:
        """Create the Secret, as made by an earlier run."""
        metadata = ObjectMeta(name=self.names.secret, namespace=self.namespace)
        metadata.annotations = {SERVICE: self.names.service if service is None else service}
        await self.client.create(Secret(metadata=metadata, type="kubernetes.io/tls", data=data))

    async def validating(self) -> ValidatingWebhookConfiguration:
        return await self.client.get(ValidatingWebhookConfiguration, self.names.validating_configuration)

    async def bundle(self) -> bytes:
        return (await self.validating()).webhooks[1].client_config.ca_bundle or b""

    async def write(self, width: int = 1) -> Window:
        """Write an object, so that the API server calls all replicas."""
        metadata = ObjectMeta(generate_name="window-", namespace=self.namespace)
        return await self.client.create(Window(metadata=metadata, spec=WindowSpec(width=width)), dry_run=True)

    async def shake_hands(self, manager: Manager) -> bytes:
        """Connect as an API server that trusts what the configuration says; return the server's certificate."""
        context = ssl.create_default_context(cadata=(await self.bundle()).decode())
        _, writer = await asyncio.open_connection(
            "127.0.0.1", manager.webhook_port, ssl=context, server_hostname=self.server_name
        )
        try:
            found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            return found
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


@pytest_asyncio.fixture
async def deployment(cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Deployment]:
    monkeypatch.setenv("KUBEWRIGHT_BIND_HOST", "127.0.0.1")
    declared = Manager(webhooks=WEBHOOKS, webhook_certificate=ManagedCertificate(prefix=f"{namespace}-"))
    rules = [*declared.rbac_rules(), *declared.webhook_certificate_rules()]
    async with cluster.service_account(rules, namespace=namespace) as account:
        deployment = Deployment(cluster, namespace, account)
        yield deployment
        await deployment.remove()


async def readiness(manager: Manager) -> str:
    client = HTTPClient(f"http://127.0.0.1:{manager.health_port}")
    try:
        return (await (await client.send(Request("GET", "/readyz/webhooks"))).read()).decode()
    finally:
        await client.close()


async def ready(*managers: Manager) -> None:
    async def check_all() -> None:
        assert [await readiness(each) for each in managers] == ["ok"] * len(managers)

    await eventually(check_all)


@asynccontextmanager
async def under_load(deployment: Deployment, *managers: Manager) -> AsyncGenerator[None]:
    """Write objects and connect all the time. Fails if anything of that fails."""
    done = 0

    async def load() -> None:
        nonlocal done
        while True:
            with suppress(ServiceUnavailable):  # of a real API server while it takes over a changed CRD
                await deployment.write()
            for each in managers:
                await deployment.shake_hands(each)
            done += 1
            await asyncio.sleep(0.02)  # the other tests need the processor, too

    task = asyncio.create_task(load())

    async def more() -> None:
        assert done > expected or task.done()

    expected = 1
    try:
        await eventually(more)
        yield
        expected = done + 5
        await eventually(more)
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_replicas_that_start_at_once_share_a_certificate_that_the_api_server_trusts(
    deployment: Deployment,
) -> None:
    async with deployment.manager() as one, deployment.manager() as two:
        assert "does not exist; apply the manifests" in await readiness(one)
        await deployment.install(one.webhook_port, two.webhook_port)
        await ready(one, two)
        created = await deployment.write()
        assert created.spec.width == 1
        with pytest.raises(Invalid):
            await deployment.write(11)
        assert await deployment.shake_hands(one) == await deployment.shake_hands(two)
        secret = await deployment.secret()
        assert secret.type == "kubernetes.io/tls"
        assert sorted(secret.data) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]
        crd = await deployment.client.get(CustomResourceDefinition, CRD)
        assert crd.spec.conversion is not None
        assert crd.spec.conversion.webhook is not None
        assert crd.spec.conversion.webhook.client_config is not None
        assert crd.spec.conversion.webhook.client_config.ca_bundle == secret.data["ca.crt"]

    async with deployment.manager() as third:
        await ready(third)
        assert (await deployment.secret()).data == secret.data


async def test_only_own_entries_are_written_and_repaired(deployment: Deployment) -> None:
    async with deployment.manager() as manager:
        await deployment.install(manager.webhook_port, manager.webhook_port)
        await ready(manager)
        trusted = await deployment.bundle()
        assert (await deployment.validating()).webhooks[0].client_config.ca_bundle is None

        configuration = await deployment.validating()
        configuration.webhooks.reverse()  # own, other
        configuration.webhooks[0].client_config.ca_bundle = None
        await deployment.client.update(configuration)

        async def repaired() -> None:
            own, other = (await deployment.validating()).webhooks
            assert own.client_config.ca_bundle == trusted
            assert other.client_config.ca_bundle is None

        await eventually(repaired)


async def test_a_server_certificate_is_renewed_without_a_failed_request(deployment: Deployment) -> None:
    async with deployment.manager() as one, deployment.manager() as two:
        await deployment.install(one.webhook_port, two.webhook_port)
        await ready(one, two)
        secret = await deployment.secret()
        earlier = datetime.now(UTC) - timedelta(days=300)
        old = Certificates.read(secret.data).advanced(deployment.hosts[:1], earlier, trusted=True)
        assert old.certificate != secret.data["tls.crt"]
        async with under_load(deployment, one, two):
            await deployment.client.patch(secret, JSONPatch(_replacing(old)))
            await eventually(lambda: _renewed(deployment, old))
            renewed = (await deployment.secret()).data
            await eventually(lambda: _serve(deployment, renewed["tls.crt"], one, two))
        assert renewed["ca.crt"] == old.bundle


def _replacing(certificates: Certificates) -> list[dict[str, str]]:
    data = {key: base64.b64encode(value).decode() for key, value in certificates.data.items()}
    return [{"op": "replace", "path": f"/data/{key}", "value": value} for key, value in data.items()]


async def _renewed(deployment: Deployment, old: Certificates) -> None:
    assert (await deployment.secret()).data["tls.crt"] != old.certificate


async def _serve(deployment: Deployment, pem: bytes, *managers: Manager) -> None:
    served = {await deployment.shake_hands(each) for each in managers}
    assert served == {ssl.PEM_cert_to_DER_cert(pem.decode())}


async def test_a_ca_is_renewed_without_a_failed_request(deployment: Deployment) -> None:
    now = datetime.now(UTC)
    made = Certificates.made(deployment.hosts, now - timedelta(days=3590))
    old = made.advanced(deployment.hosts, now - timedelta(days=31), trusted=True)
    await deployment.store(old.data)
    async with deployment.manager() as one, deployment.manager() as two:
        await deployment.install(one.webhook_port, two.webhook_port)
        await ready(one, two)
        async with under_load(deployment, one, two):
            await eventually(lambda: _renewed(deployment, old))
            data = (await deployment.secret()).data
            await eventually(lambda: _serve(deployment, data["tls.crt"], one, two))
        assert data["ca.crt"].endswith(old.bundle), "both are trusted"
        assert data["ca.crt"] != old.bundle
        assert await deployment.bundle() == data["ca.crt"]


async def test_a_deleted_secret_is_made_again_with_a_new_ca_and_without_a_failed_request(
    deployment: Deployment,
) -> None:
    async with deployment.manager() as one, deployment.manager() as two:
        await deployment.install(one.webhook_port, two.webhook_port)
        await ready(one, two)
        before = await deployment.secret()
        async with under_load(deployment, one, two):
            await deployment.client.delete(before)

            async def replaced() -> None:
                data = (await deployment.secret()).data
                assert data["ca.crt"] != before.data["ca.crt"]
                assert data["tls.crt"] != before.data["tls.crt"]
                await _serve(deployment, data["tls.crt"], one, two)

            await eventually(replaced)


@pytest.mark.parametrize(
    ("service", "data", "reason"),
    [
        ("", None, "was not made by a manager, and is left as it is"),
        ("another", None, "is for Service another, and is left as it is"),
        (
            None,
            {"tls.crt": b"garbage", "tls.key": b"garbage"},
            "no usable certificates: ca.crt, ca.key missing; del",
        ),
        (None, dict.fromkeys(("ca.crt", "ca.key", "tls.crt", "tls.key"), b"x"), "ca.crt is not PEM of a certificate"),
    ],
)
async def test_a_secret_that_cannot_be_used_is_an_error_and_stays_as_it_is(
    deployment: Deployment, service: str | None, data: dict[str, bytes] | None, reason: str
) -> None:
    if data is None:
        data = Certificates.made(["other.example.com"], datetime.now(UTC)).data
    await deployment.store(data, service)
    before = await deployment.secret()
    with pytest.raises(ConfigError, match=reason):
        await deployment.manager().run()
    assert await deployment.secret() == before


async def test_an_empty_secret_of_the_manifests_is_filled(deployment: Deployment) -> None:
    metadata = ObjectMeta(name=deployment.names.secret, namespace=deployment.namespace)
    await deployment.client.create(Secret(metadata=metadata))
    async with deployment.manager() as manager:
        await deployment.install(manager.webhook_port, manager.webhook_port)
        await ready(manager)
        await deployment.write()


async def test_what_cert_manager_fills_is_not_written(deployment: Deployment) -> None:
    async with deployment.manager() as manager:
        await deployment.install(manager.webhook_port, manager.webhook_port, {CERT_MANAGER: "shop/serving-cert"})

        async def reported() -> None:
            assert "cert-manager, which writes another CA than this manager has" in await readiness(manager)

        await eventually(reported)
        assert await deployment.bundle() == b""
        await deployment.client.patch(
            ValidatingWebhookConfiguration,
            MergePatch({"metadata": {"annotations": {CERT_MANAGER: None}}}),
            name=deployment.names.validating_configuration,
        )
        await ready(manager)
        assert await deployment.bundle() == (await deployment.secret()).data["ca.crt"]


async def test_a_replica_that_was_ready_stays_ready(deployment: Deployment) -> None:
    async with deployment.manager() as manager:
        await deployment.install(manager.webhook_port, manager.webhook_port)
        await ready(manager)
        await deployment.client.delete(await deployment.validating())
        secret = await deployment.secret()
        await deployment.client.delete(secret)

        async def renewed() -> None:
            assert (await deployment.secret()).data["ca.crt"] != secret.data["ca.crt"]

        await eventually(renewed)
        assert await readiness(manager) == "ok"
        await deployment.write(11)


async def test_a_local_run_leaves_a_deployed_operator_as_it_was(deployment: Deployment) -> None:
    async with deployment.manager() as deployed:
        await deployment.install(deployed.webhook_port, deployed.webhook_port)
        await ready(deployed)
        async with Manager(webhooks=[CONVERSION], name="windows", config=deployment.cluster.config):
            assert "url" in await _conversion(deployment)
            async with deployment.manager() as replica:
                await ready(deployed, replica)
                await deployment.write()
        assert "service" in await _conversion(deployment)
        async with deployment.manager() as replica:
            await ready(replica)


async def _conversion(deployment: Deployment) -> dict[str, object]:
    crd = codec.to_dict(await deployment.client.get(CustomResourceDefinition, CRD))
    found: dict[str, object] = crd["spec"]["conversion"]["webhook"]["clientConfig"]
    return found


async def test_without_permissions_the_start_names_the_role(deployment: Deployment, cluster: Cluster) -> None:
    async with cluster.service_account([], namespace=deployment.namespace) as account:
        manager = deployment.manager().replace(config=account)
        with pytest.raises(ConfigError, match=r"cannot be used: .*Manager.webhook_certificate_rules describes"):
            await manager.run()
