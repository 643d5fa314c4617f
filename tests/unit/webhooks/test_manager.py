"""A manager serves its webhooks over HTTPS, from before its caches to the end of the last review."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import trustme

from kubewright import ConfigError, Context, Forbidden, LeaderElection, Manager, NotFound, ObjectMeta, controller
from kubewright.apis.core.v1 import ConfigMap, Secret
from kubewright.client import Client
from kubewright.client._transport import HandlerTransport
from kubewright.http.client import HTTPClient
from kubewright.http.message import Peer, Request, Response
from kubewright.machinery.errors import ConnectionFailed
from kubewright.manager import Certificate
from kubewright.manager._program import run_program
from kubewright.models import PolicyRule
from kubewright.testing import eventually
from kubewright.webhooks import AdmissionContext, ManagedCertificate, ServerCertificate, Webhook, validator
from kubewright_controlplane.apiserver.server import APIServer

from .served import WebServer, asked, webserver
from .versions import conversion

ADMIN = Peer(common_name="admin", organizations=("system:masters",))


@validator(WebServer)
def allow(ctx: AdmissionContext[WebServer]) -> None: ...


class API:
    """An API server in this process, and a certificate for webhooks."""

    def __init__(self, folder: Path) -> None:
        self.server = APIServer()
        self.admin = Client(transport=HandlerTransport(self.server.handle, peer=ADMIN))
        self.authority = trustme.CA()
        self.trusting = ssl.create_default_context()
        self.authority.configure_trust(self.trusting)
        self.certificate = Certificate(folder / "tls.crt", folder / "tls.key")
        self.renew()
        self.held = asyncio.Event()
        """Set unless lists are held up."""
        self.held.set()
        self.paths: list[str] = []

    def renew(self) -> None:
        issued = self.authority.issue_cert("localhost")
        issued.private_key_pem.write_to_path(self.certificate.key)
        issued.cert_chain_pems[0].write_to_path(self.certificate.certificate)

    async def handle(self, request: Request) -> Response:
        if request.method == "GET" and request.path.startswith("/api/v1/"):
            self.paths.append(request.path)
        if request.path.endswith("/configmaps"):
            await self.held.wait()
        return await self.server.handle(request)

    def manager(self, *webhooks: Webhook, **options: Any) -> Manager:
        options = {"webhook_port": 0, "webhook_certificate": self.certificate, "name": "test"} | options
        transport = HandlerTransport(self.handle, peer=ADMIN)
        return Manager(webhooks=webhooks, transport=transport, health_address="127.0.0.1:0", **options)

    async def post(self, port: int, path: str, body: object, timeout: str = "10s") -> tuple[int, Any]:
        client = HTTPClient(f"https://localhost:{port}", ssl=self.trusting)
        try:
            headers = {"content-type": "application/json"}
            request = Request("POST", f"{path}?timeout={timeout}", headers, json.dumps(body).encode())
            response = await client.send(request)
            text = await response.read()
            return response.status, json.loads(text) if response.status == 200 else text.decode()
        finally:
            await client.close()

    async def review(self, port: int, path: str = allow.path, **spec: object) -> Any:
        body = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": asked(webserver(**spec))}
        status, answer = await self.post(port, path, body)
        assert status == 200, answer
        return answer["response"]


@pytest_asyncio.fixture
async def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[API]:
    monkeypatch.setenv("KUBEWRIGHT_BIND_HOST", "127.0.0.1")
    api = API(tmp_path)
    await api.server.start()
    yield api
    await api.server.close()


async def readiness(manager: Manager, check: str = "") -> tuple[int, str]:
    client = HTTPClient(f"http://127.0.0.1:{manager.health_port}")
    response = await client.send(Request("GET", f"/readyz{check}"))
    found = response.status, (await response.read()).decode()
    await client.close()
    return found


async def until(condition: Callable[[], bool]) -> None:
    async def check() -> None:
        assert condition()

    await eventually(check)


async def test_reviews_are_served_over_https(api: API) -> None:
    async with api.manager(allow) as manager:
        assert (await api.review(manager.webhook_port))["allowed"]
        assert await readiness(manager, "/webhooks") == (200, "ok")
    assert manager.webhook_port == 0


async def test_a_renewed_certificate_is_used_for_new_connections(api: API) -> None:
    async with api.manager(allow) as manager:
        assert (await api.review(manager.webhook_port))["allowed"]
        api.authority = trustme.CA()
        api.renew()
        with pytest.raises(ConnectionFailed):
            await api.review(manager.webhook_port)
        api.authority.configure_trust(api.trusting)
        assert (await api.review(manager.webhook_port))["allowed"]
        assert manager.metrics.certificates_read == 2


async def test_only_clients_with_a_certificate_of_the_client_ca_may_call(api: API, tmp_path: Path) -> None:
    clients = trustme.CA()
    ca = tmp_path / "clients.crt"
    clients.cert_pem.write_to_path(ca)
    async with api.manager(allow, webhook_client_ca=ca) as manager:
        for renewed in (False, True):
            if renewed:
                api.renew()
            with pytest.raises(ConnectionFailed):
                await api.review(manager.webhook_port)
            for authority, is_accepted in ((trustme.CA(), False), (clients, True)):
                client = ssl.create_default_context()
                api.authority.configure_trust(client)
                authority.issue_cert("api-server").configure_cert(client)
                api.trusting, before = client, api.trusting
                if is_accepted:
                    assert (await api.review(manager.webhook_port))["allowed"]
                else:
                    with pytest.raises(ConnectionFailed):
                        await api.review(manager.webhook_port)
                api.trusting = before


async def test_a_client_ca_that_cannot_be_read_is_named_with_its_flag(api: API, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere: .*webhook_client_ca, --webhook-client-ca-name"):
        await api.manager(allow, webhook_client_ca=tmp_path / "nowhere").run()


async def test_without_a_certificate_the_start_fails(api: API) -> None:
    with pytest.raises(ConfigError, match="the webhooks have no certificate: give the Manager webhook_certificate=Man"):
        await api.manager(allow, webhook_certificate=None).run()


async def test_files_that_cannot_be_read_are_named_with_their_flags(api: API) -> None:
    api.certificate.key.unlink()
    with pytest.raises(ConfigError, match=r"tls\.crt with key .*--webhook-cert-path, --webhook-cert-name"):
        await api.manager(allow).run()


async def test_a_port_that_is_in_use_is_named_with_its_flag(api: API) -> None:
    async with api.manager(allow) as manager:
        port = manager.webhook_port
        with pytest.raises(
            ConfigError, match=rf"webhook_port {port} \(--webhook-port\): 127\.0\.0\.1:{port} is in use"
        ):
            await api.manager(allow, webhook_port=port).run()


@pytest.mark.parametrize("port", [-1, None])
async def test_the_server_can_be_off(api: API, port: int | None) -> None:
    async with api.manager(allow, conversion(), webhook_port=port, webhook_certificate=None) as manager:
        assert manager.webhook_port == 0
        assert (await readiness(manager))[0] == 200


async def test_a_replica_that_does_not_lead_serves_webhooks(api: API) -> None:
    election = LeaderElection(namespace="default")
    async with (
        api.manager(allow, leader_election=election) as leader,
        api.manager(allow, leader_election=election) as standby,
    ):
        assert (leader.metrics.leading, standby.metrics.leading) == (True, False)
        assert (await api.review(standby.webhook_port))["allowed"]


async def test_a_provider_of_certificates_is_open_while_the_manager_runs(api: API) -> None:
    class Provider:
        def __init__(self) -> None:
            self.open = False

        @asynccontextmanager
        async def _provided(self, client: Client) -> AsyncGenerator[ServerCertificate]:
            await client.create(Secret(metadata=ObjectMeta(name="ca", namespace="default")))
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(api.certificate.certificate, api.certificate.key)
            self.open = True
            yield ServerCertificate(context)
            self.open = False

        def provide(
            self, client: Client, webhooks: Any, namespace: str
        ) -> AbstractAsyncContextManager[ServerCertificate]:
            assert (webhooks, namespace) == ((allow,), "default")
            return self._provided(client)

        def rbac_rules(self, webhooks: Any) -> list[PolicyRule]:
            return []

        def namespace_rules(self) -> list[PolicyRule]:
            return []

    provider = Provider()
    async with api.manager(allow, webhook_certificate=provider) as manager:
        assert provider.open
        assert (await api.review(manager.webhook_port))["allowed"]
    assert not provider.open


# ---- start and stop


@controller(ConfigMap)
async def look(ctx: Context[ConfigMap]) -> None: ...


async def test_conversions_are_served_and_ready_before_the_caches_are_complete(api: API) -> None:
    api.held.clear()
    manager = api.manager(conversion(), controllers=[look])
    running = asyncio.create_task(manager.run())
    await until(lambda: bool(manager.webhook_port))
    request = {"uid": "1", "desiredAPIVersion": "shop.example.com/v1", "objects": []}
    body = {"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "request": request}
    status, answer = await api.post(manager.webhook_port, "/convert", body)
    assert (status, answer["response"]["result"]) == (200, {"status": "Success"})
    assert (await readiness(manager))[0] == 200
    api.held.set()
    await manager.wait_ready()
    manager.stop()
    await running


async def test_a_manager_with_reviews_only_is_ready_when_the_caches_are_complete(api: API) -> None:
    api.held.clear()
    manager = api.manager(allow, controllers=[look])
    running = asyncio.create_task(manager.run())
    await until(lambda: bool(manager.webhook_port))
    assert (await readiness(manager))[0] == 500
    review = asyncio.create_task(api.review(manager.webhook_port))
    api.held.set()
    assert (await review)["allowed"]
    assert (await readiness(manager))[0] == 200
    manager.stop()
    await running


async def test_a_review_that_runs_at_the_stop_finishes(api: API) -> None:
    started, release = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def lifespan(manager: Manager) -> AsyncGenerator[list[str]]:
        words = ["open"]
        yield words
        words.clear()

    @validator(WebServer)
    async def slow(ctx: AdmissionContext[WebServer]) -> None:
        started.set()
        await release.wait()
        assert ctx.resource(list) == ["open"]

    async with api.manager(slow, lifespan=lifespan) as manager:
        review = asyncio.create_task(api.review(manager.webhook_port))
        await started.wait()
        manager.stop()
        await until(lambda: not manager.webhook_port)
        release.set()
        assert (await review)["allowed"]


# ---- what functions may use


@asynccontextmanager
async def words(manager: Manager) -> AsyncGenerator[list[str]]:
    yield ["a", "b"]


async def test_a_function_reads_objects_and_resources(api: API) -> None:
    @validator(WebServer, cached=[ConfigMap])
    async def check(ctx: AdmissionContext[WebServer]) -> None:
        limits = await ctx.get(ConfigMap, "limits", namespace="default")
        secret = await ctx.get_or_none(Secret, "absent", namespace="default")
        listed = await ctx.list(Secret, namespace="default")
        assert (secret, len(listed), ctx.resource(list)) == (None, 0, ["a", "b"])
        if ctx.object.spec.replicas > int(limits.data["replicas"]):
            raise Forbidden(f"at most {limits.data['replicas']} replicas")

    metadata = ObjectMeta(name="limits", namespace="default")
    await api.admin.create(ConfigMap(metadata=metadata, data={"replicas": "3"}))
    async with api.manager(check, lifespan=words) as manager:
        assert (await api.review(manager.webhook_port, replicas=3))["allowed"]
        denied = await api.review(manager.webhook_port, replicas=4)
        assert denied["status"]["message"] == "at most 3 replicas"
        reads = [path for path in api.paths if not path.endswith("/configmaps")]
    assert not [path for path in reads if "/configmaps/" in path], "the cache has them"
    assert reads.count("/api/v1/namespaces/default/secrets/absent") == 2
    assert "/api/v1/secrets" not in reads, "no cache was started"


async def test_objects_of_a_namespace_without_a_cache_are_read_from_the_server(api: API) -> None:
    @validator(WebServer, cached=[ConfigMap])
    async def check(ctx: AdmissionContext[WebServer]) -> None:
        assert (await ctx.get(ConfigMap, "limits", namespace="default")).data == {"a": "b"}
        assert len(await ctx.list(ConfigMap, namespace="default")) == 1

    await api.admin.create(ConfigMap(metadata=ObjectMeta(name="limits", namespace="default"), data={"a": "b"}))
    async with api.manager(check, namespaces=["kube-public"]) as manager:
        assert (await api.review(manager.webhook_port))["allowed"]


async def test_a_start_that_fails_does_not_wait_for_reviews(api: API) -> None:
    @asynccontextmanager
    async def lifespan(manager: Manager) -> AsyncGenerator[None]:
        await until(lambda: manager.metrics.webhooks[allow.path].in_flight == 1)
        raise ConfigError("no database")
        yield

    manager = api.manager(allow, lifespan=lifespan)
    running = asyncio.create_task(manager.run())
    await until(lambda: bool(manager.webhook_port))
    review = asyncio.create_task(api.review(manager.webhook_port))
    with pytest.raises(ConfigError, match="no database"):
        await asyncio.wait_for(running, 5)
    with pytest.raises(ConnectionFailed):
        await review


async def test_a_missing_object_denies_with_its_status(api: API) -> None:
    @validator(WebServer)
    async def check(ctx: AdmissionContext[WebServer]) -> None:
        await ctx.get(ConfigMap, "absent", namespace="default")

    async with api.manager(check) as manager:
        denied = await api.review(manager.webhook_port)
    assert denied["status"]["reason"] == NotFound.reason


async def test_a_write_without_a_declaration_is_reported(api: API, caplog: pytest.LogCaptureFixture) -> None:
    @validator(WebServer, side_effects="NoneOnDryRun")
    async def record(ctx: AdmissionContext[WebServer]) -> None:
        await ctx.client.create(ConfigMap(metadata=ObjectMeta(generate_name="seen-", namespace="default")))

    async with api.manager(record) as manager:
        for _ in range(2):
            assert (await api.review(manager.webhook_port))["allowed"]
    (line,) = [each for each in caplog.records if each.msg == "Undeclared resource written"]
    assert line.__dict__["fields"]["resource"] == "configmaps"


async def test_a_copy_of_a_manager_has_its_webhooks(api: API) -> None:
    copy = api.manager(allow).replace(transport=HandlerTransport(api.handle, peer=ADMIN))
    async with copy:
        assert (await api.review(copy.webhook_port))["allowed"]


def test_the_flags_are_those_of_kubebuilder(api: API, capsys: pytest.CaptureFixture[str]) -> None:
    manager = api.manager(allow, webhook_port=None, webhook_certificate=None)
    off = ["--health-probe-bind-address=0", "--metrics-bind-address=nowhere"]
    files = ["--webhook-cert-path=/certs", "--webhook-cert-name=a.crt", "--webhook-cert-key=a.key"]
    with pytest.raises(SystemExit):
        run_program(manager, [*off, *files])
    assert manager.options.webhook_port == 9443
    assert manager.options.webhook_certificate == Certificate(Path("/certs/a.crt"), Path("/certs/a.key"))
    with pytest.raises(SystemExit):
        run_program(manager, [*off, *files, "--webhook-client-ca-name=ca.crt"])
    assert manager.options.webhook_client_ca == Path("/certs/ca.crt")
    with pytest.raises(SystemExit):
        run_program(manager, [*off, "--webhook-port=-1"])
    assert manager.options.webhook_port == -1
    with pytest.raises(SystemExit):
        run_program(manager, ["--help"])
    assert "--webhook-port PORT" in capsys.readouterr().out


def test_a_client_ca_without_a_folder_is_an_error(api: API, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_program(api.manager(allow), ["--health-probe-bind-address=0", "--webhook-client-ca-name=ca.crt"])
    assert "is the name of a file in the folder of --webhook-cert-path; add that flag" in capsys.readouterr().err


def test_a_flag_names_the_objects_of_a_certificate_that_the_manager_makes(
    api: API, capsys: pytest.CaptureFixture[str]
) -> None:
    manager = api.manager(allow, webhook_certificate=ManagedCertificate(prefix="shop-", hosts=["a.example.com"]))
    off = ["--health-probe-bind-address=0", "--metrics-bind-address=nowhere"]
    with pytest.raises(SystemExit):
        run_program(manager, [*off, "--webhook-name-prefix=release-"])
    assert manager.options.webhook_certificate == ManagedCertificate(prefix="release-", hosts=["a.example.com"])
    with pytest.raises(SystemExit):
        run_program(api.manager(allow), [*off, "--webhook-name-prefix=release-"])
    assert "give the Manager webhook_certificate=ManagedCertificate(), or omit the flag" in capsys.readouterr().err


async def test_metrics_have_controller_runtimes_names(api: API) -> None:
    async with api.manager(allow, conversion(), metrics_address="127.0.0.1:0") as manager:
        await api.review(manager.webhook_port)
        client = HTTPClient(f"http://127.0.0.1:{manager.metrics_port}")
        text = (await (await client.send(Request("GET", "/metrics"))).read()).decode()
        await client.close()
    path = 'webhook="/validate-my-domain-v1-webserver"'
    for line in (
        f'controller_runtime_webhook_requests_total{{code="200",{path}}} 1.0',
        f"controller_runtime_webhook_requests_in_flight{{{path}}} 0.0",
        f'controller_runtime_webhook_latency_seconds_bucket{{le="+Inf",{path}}} 1.0',
        "controller_runtime_webhook_panics_total 0.0",
        "controller_runtime_conversion_webhook_panics_total 0.0",
    ):
        assert (
            line in text
            or line.replace(f'code="200",{path}', f'{path},code="200"') in text
            or (line.replace(f'le="+Inf",{path}', f'{path},le="+Inf"') in text)
        ), line
