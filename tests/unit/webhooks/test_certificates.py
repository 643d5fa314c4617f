"""When the CA and the certificate of a server are replaced, over the years, by replicas that may die at any moment."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address

import pytest
import pytest_asyncio
from cryptography import x509

from kubewright import ConfigError, ObjectMeta
from kubewright.apis.admissionregistration.v1 import ValidatingWebhookConfiguration
from kubewright.apis.core.v1 import Secret
from kubewright.client import Client, MergePatch
from kubewright.client._transport import HandlerTransport
from kubewright.http.message import Peer, Request, Response
from kubewright.testing import SystemClock, VirtualTimeLoop
from kubewright.webhooks import (
    AdmissionContext,
    ManagedCertificate,
    ServerCertificate,
    WebhookObjects,
    WebhookService,
    validator,
    webhook_configurations,
    webhook_objects,
)
from kubewright.webhooks._certificates import Certificates
from kubewright_controlplane.apiserver.server import APIServer

from .served import WebServer
from .versions import conversion

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOSTS = ("web.shop.svc", "web.shop.svc.cluster.local", "10.0.0.1")
DAY = timedelta(days=1)


def parsed(pem: bytes) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(pem)


# ---- the steps of a rotation


def test_a_new_certificate_tolerates_clocks_that_are_an_hour_behind() -> None:
    made = Certificates.made(HOSTS, NOW)
    (ca,), (server,) = parsed(made.bundle), parsed(made.certificate)
    assert ca.not_valid_before_utc == server.not_valid_before_utc == NOW - timedelta(hours=1)
    assert (ca.not_valid_after_utc, server.not_valid_after_utc) == (NOW + 3650 * DAY, NOW + 365 * DAY)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {each.value for each in names} == {*HOSTS[:2], IPv4Address(HOSTS[2])}
    assert Certificates.read(made.data) == made


def test_nothing_is_replaced_until_90_days_before_its_end() -> None:
    made = Certificates.made(HOSTS, NOW)
    assert made.advanced(HOSTS, NOW + 274 * DAY, trusted=True) == made
    renewed = made.advanced(HOSTS, NOW + 275 * DAY, trusted=False)
    assert renewed.bundle == made.bundle
    assert parsed(renewed.certificate)[0].not_valid_after_utc == NOW + 640 * DAY


def test_other_hosts_get_another_certificate_of_the_same_ca() -> None:
    made = Certificates.made(HOSTS, NOW)
    changed = made.advanced(HOSTS[:1], NOW, trusted=False)
    assert changed.bundle == made.bundle
    assert changed.certificate != made.certificate


def test_a_new_ca_signs_only_when_clients_trust_it_and_the_old_one_stays_for_a_day() -> None:
    made = Certificates.made(HOSTS, NOW).advanced(HOSTS, NOW + 3500 * DAY, trusted=True)
    at = NOW + 3560 * DAY
    first = made.advanced(HOSTS, at, trusted=False)
    assert first.bundle.endswith(made.bundle)
    assert (first.certificate, first.key) == (made.certificate, made.key)
    assert Certificates.read(first.data) == first
    assert first.advanced(HOSTS, at + DAY, trusted=False) == first
    second = first.advanced(HOSTS, at + DAY, trusted=True)
    assert second.bundle == first.bundle
    parsed(second.certificate)[0].verify_directly_issued_by(parsed(second.bundle)[0])
    assert second.advanced(HOSTS, at + 1.9 * DAY, trusted=True) == second
    third = second.advanced(HOSTS, at + 2 * DAY, trusted=True)
    assert len(parsed(third.bundle)) == 1
    assert third.certificate == second.certificate


def test_a_certificate_does_not_expire_because_clients_do_not_trust_the_new_ca() -> None:
    made = Certificates.made(HOSTS, NOW).renewed(HOSTS, NOW)
    assert made.advanced(HOSTS, NOW + 363 * DAY, trusted=False) == made
    assert made.advanced(HOSTS, NOW + 364 * DAY, trusted=False) != made


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ca.key": b""}, "ca.key missing"),
        ({"tls.crt": b"x"}, "tls.crt is not PEM of a certificate"),
        ({"tls.key": b"x"}, "tls.key is not PEM of a key"),
        ({"tls.key": Certificates.made(HOSTS, NOW).key}, "tls.key is not the key of tls.crt"),
        ({"ca.crt": Certificates.made(HOSTS, NOW).bundle}, "ca.key is not the key of ca.crt"),
    ],
)
def test_data_that_does_not_belong_together_is_rejected(changes: dict[str, bytes], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Certificates.read(Certificates.made(HOSTS, NOW).data | changes)


def test_hosts_are_a_list() -> None:
    with pytest.raises(ConfigError, match=r"hosts='a.example.com': write a list"):
        ManagedCertificate(hosts="a.example.com")


# ---- what the manifests need


def test_the_names_of_the_objects_follow_from_the_webhooks() -> None:
    assert webhook_objects([conversion(), check], prefix="shop-") == WebhookObjects(
        service="shop-webhook-service",
        secret="shop-webhook-server-cert",
        mutating_configuration="",
        validating_configuration="shop-validating-webhook-configuration",
        definitions=(conversion().hub.__api__.gvr.qualified_resource,),
        mutating=(),
        validating=(check.name,),
        paths=(check.path, "/convert"),
    )


def test_the_rules_name_the_objects() -> None:
    certificate = ManagedCertificate(prefix="shop-")
    (rule,) = certificate.rbac_rules([check])
    assert (rule.resources, rule.resource_names, rule.verbs) == (
        ["validatingwebhookconfigurations"],
        ["shop-validating-webhook-configuration"],
        ["get", "list", "watch", "patch"],
    )
    create, others = certificate.namespace_rules()
    assert (create.resource_names, create.verbs) == ([], ["create"])
    assert (others.resource_names, others.verbs) == (["shop-webhook-server-cert"], ["get", "list", "watch", "update"])


# ---- replicas over the years


@validator(WebServer)
def check(ctx: AdmissionContext[WebServer]) -> None: ...


class Calendar(SystemClock):
    """The time of day of all replicas, which jumps while their timers run in virtual time."""

    def __init__(self) -> None:
        self.today = NOW

    def now(self) -> datetime:
        return self.today


class Installation:
    """An API server, the configuration of a webhook, and replicas."""

    def __init__(self, server: APIServer) -> None:
        self.calendar = Calendar()
        self.server = server
        self.admin = self.client(server.handle)
        self.certificate = ManagedCertificate()
        self.names = self.certificate.objects([check])
        self.replicas: list[ServerCertificate] = []

    def client(self, handle: Callable[[Request], Awaitable[Response]]) -> Client:
        peer = Peer(common_name="admin", organizations=("system:masters",))
        return Client(transport=HandlerTransport(handle, peer=peer), clock=self.calendar)

    async def install(self) -> None:
        address = WebhookService(self.names.service, "default")
        for each in webhook_configurations([check], address=address):
            await self.admin.create(each)

    async def replica(self, stack: AsyncExitStack, client: Client | None = None) -> ServerCertificate:
        provided = self.certificate.provide(client or self.admin, [check], "default")
        return await stack.enter_async_context(provided)

    async def secret(self) -> Secret:
        return await self.admin.get(Secret, self.names.secret, namespace="default")

    async def bundle(self) -> bytes:
        name = self.names.validating_configuration
        configuration = await self.admin.get(ValidatingWebhookConfiguration, name)
        return configuration.webhooks[0].client_config.ca_bundle or b""

    async def look(self) -> None:
        """Make all replicas look at the Secret."""
        patch = MergePatch({"metadata": {"labels": {"today": f"{self.calendar.today:%Y-%m-%d}"}}})
        await self.admin.patch(Secret, patch, name=self.names.secret, namespace="default")

    async def assert_trusted(self, *replicas: ServerCertificate) -> None:
        authorities = parsed(await self.bundle())
        for each in replicas:
            served = certificate_of(each)
            issuers = [ca for ca in authorities if is_issued_by(served, ca)]
            assert issuers, "the API server does not know the CA"
            ends = {"ca": issuers[0].not_valid_after_utc, "server": served.not_valid_after_utc}
            assert each.expirations() == ends
            for valid in (served, issuers[0]):
                assert valid.not_valid_before_utc <= self.calendar.today < valid.not_valid_after_utc


def is_issued_by(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(ca)
    except Exception:  # noqa: BLE001 - each failure means that it is not
        return False
    return True


def certificate_of(server: ServerCertificate) -> x509.Certificate:
    """Return the certificate that a new connection gets."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (context.wrap_bio(back, there), server.context.wrap_bio(there, back, server_side=True))
    for _ in range(3):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    der = sides[0].getpeercert(binary_form=True)
    assert der is not None
    return x509.load_der_x509_certificate(der)


@pytest_asyncio.fixture
async def installation() -> AsyncIterator[Installation]:
    server = APIServer()
    await server.start()
    installation = Installation(server)
    await installation.install()
    yield installation
    await server.close()


async def advance(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    await loop.advance(seconds)


async def test_no_replica_ever_serves_a_certificate_that_is_not_trusted(installation: Installation) -> None:
    certificates, authorities = set[bytes](), set[bytes]()
    async with AsyncExitStack() as stack:
        replicas = [await installation.replica(stack), await installation.replica(stack)]
        await advance(15)
        for _ in range(12 * 365 // 80):
            installation.calendar.today += 80 * DAY
            await installation.look()
            for _ in range(4):
                await advance(5)
                await installation.assert_trusted(*replicas)
            data = (await installation.secret()).data
            assert len(parsed(data["ca.crt"])) <= 2
            certificates.add(data["tls.crt"])
            authorities.add(data["ca.crt"].partition(b"-----END")[0])
        for each in replicas:
            each.check()
    assert len(authorities) == 2
    assert len(certificates) > 10


async def test_a_replica_may_be_killed_after_any_write(installation: Installation) -> None:
    """Each replica dies after a number of writes; the next one finishes what it left, and the CA changes in between."""
    allowed, died = 1, True
    while died:
        died = False
        left = allowed

        async def dying(request: Request) -> Response:
            nonlocal left, died
            if left == 0:
                died = True
                await asyncio.Event().wait()
            left -= request.method != "GET"
            return await installation.server.handle(request)

        async with AsyncExitStack() as victim, AsyncExitStack() as survivor:
            starting = asyncio.create_task(installation.replica(victim, installation.client(dying)))
            await advance(20)
            starting.cancel()
            await victim.aclose()
            replica = await installation.replica(survivor)
            await advance(30)
            replica.check()
            await installation.assert_trusted(replica)
        installation.calendar.today += 3600 * DAY  # both are due
        secret = await installation.secret()
        if allowed % 2:
            await installation.admin.delete(secret)
        allowed += 1
    assert allowed > 3


async def test_a_secret_of_another_program_does_not_stop_a_running_replica(installation: Installation) -> None:
    async with AsyncExitStack() as stack:
        replica = await installation.replica(stack)
        await advance(15)
        before = certificate_of(replica)
        await installation.admin.delete(await installation.secret())
        metadata = ObjectMeta(name=installation.names.secret, namespace="default")
        await installation.admin.create(Secret(metadata=metadata, data={"mine": b"1"}))
        await advance(120)
        assert certificate_of(replica) == before
        assert (await installation.secret()).data == {"mine": b"1"}
