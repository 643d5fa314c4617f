"""Metrics over HTTPS: permissions and certificates."""

from __future__ import annotations

import builtins
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import trustme

from kubewright.apis.authentication.v1 import TokenRequest, TokenRequestSpec
from kubewright.apis.core.v1 import ServiceAccount
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.apis.rbac.v1 import ClusterRole, ClusterRoleBinding, RoleRef, Subject
from kubewright.client import Client
from kubewright.client._transport import HandlerTransport
from kubewright.http.client import HTTPClient
from kubewright.http.message import Peer, Request, Response
from kubewright.machinery.errors import ConfigError, ConnectionFailed
from kubewright.manager import Certificate, Manager, SelfSigned
from kubewright.manager._serving import REFUSED_FOR
from kubewright.models import PolicyRule
from kubewright.testing import VirtualClock
from kubewright_controlplane.apiserver.server import APIServer

ADMIN = Peer(common_name="admin", organizations=("system:masters",))
OPERATOR = Peer(common_name="operator")
FREE = "127.0.0.1:0"


class API:
    """An API server in this process."""

    def __init__(self) -> None:
        self.server = APIServer()
        self.admin = Client(transport=HandlerTransport(self.server.handle, peer=ADMIN))
        self.reviews: list[str] = []
        self.down = False

    def as_user(self, peer: Peer) -> HandlerTransport:
        async def handle(request: Request) -> Response:
            if request.path.endswith("reviews") and "self" not in request.path:
                self.reviews.append(request.path.rpartition("/")[2])
                if self.down:
                    raise ConnectionFailed("connection refused")
            return await self.server.handle(request)

        return HandlerTransport(handle, peer=peer)

    async def grant(self, kind: str, user: str, rules: list[PolicyRule]) -> None:
        await self.admin.apply(ClusterRole(metadata=ObjectMeta(name=user), rules=rules))
        group = "" if kind == "ServiceAccount" else "rbac.authorization.k8s.io"
        subject = Subject(kind=kind, name=user, namespace="default" if kind == "ServiceAccount" else None)
        if group:
            subject.api_group = group
        role = RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name=user)
        await self.admin.apply(ClusterRoleBinding(metadata=ObjectMeta(name=user), role_ref=role, subjects=[subject]))

    async def token_of(self, account: str) -> str:
        await self.admin.create(ServiceAccount(metadata=ObjectMeta(name=account, namespace="default")))
        request = TokenRequest(spec=TokenRequestSpec(audiences=[], expiration_seconds=3600))
        tokens = self.admin.subresource(ServiceAccount, account, "token", namespace="default")
        answer = await tokens.create(request)
        assert answer is not None
        return answer.status.token


@pytest_asyncio.fixture
async def api() -> AsyncIterator[API]:
    api = API()
    await api.server.start()
    yield api
    await api.server.close()


@asynccontextmanager
async def serving(api: API, peer: Peer = OPERATOR, **options: Any) -> AsyncIterator[Manager]:
    chosen: dict[str, Any] = {"metrics_secure": SelfSigned()} | options
    manager = Manager(name="operator", transport=api.as_user(peer), health_address="0", metrics_address=FREE, **chosen)
    if peer is OPERATOR:
        await api.grant("User", "operator", manager.rbac_rules() + manager.metrics_auth_rules())
    async with manager:
        yield manager


def trusting_all() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def get(manager: Manager, token: str = "", context: ssl.SSLContext | None = None) -> tuple[int, str]:
    client = HTTPClient(f"https://localhost:{manager.metrics_port}", ssl=context or trusting_all())
    headers = {"authorization": f"Bearer {token}"} if token else {}
    response = await client.send(Request("GET", "/metrics", headers))
    text = (await response.read()).decode()
    await client.close()
    return response.status, text


async def test_only_authorized_users_get_metrics(api: API) -> None:
    reader, stranger = await api.token_of("prometheus"), await api.token_of("stranger")
    async with serving(api) as manager:
        await api.grant("ServiceAccount", "prometheus", manager.metrics_reader_rules())
        status, text = await get(manager, reader)
        assert status == 200
        assert "rest_client_requests" in text
        assert await get(manager) == (401, "Unauthorized: send a token, Authorization: Bearer ...\n")
        assert await get(manager, "made-up") == (401, "Unauthorized: the API server does not know this token\n")
        assert await get(manager, stranger) == (
            403,
            "Forbidden: system:serviceaccount:default:stranger may not get /metrics; "
            "bind the metrics reader role to it\n",
        )


async def test_answers_are_cached_for_a_short_time(api: API, clock: VirtualClock) -> None:
    reader = await api.token_of("prometheus")
    async with serving(api, clock=clock) as manager:
        assert (await get(manager, reader))[0] == 403
        await api.grant("ServiceAccount", "prometheus", manager.metrics_reader_rules())
        assert (await get(manager, reader))[0] == 403
        await clock.advance(REFUSED_FOR)
        asked = len(api.reviews)
        for _ in range(5):
            assert (await get(manager, reader))[0] == 200
        assert api.reviews[asked:] == ["tokenreviews", "subjectaccessreviews"]
        await clock.advance(timedelta(minutes=1))
        assert (await get(manager, reader))[0] == 200
        assert len(api.reviews) == asked + 4


async def test_metrics_are_not_shown_when_the_api_server_does_not_answer(api: API) -> None:
    reader = await api.token_of("prometheus")
    async with serving(api, ADMIN) as manager:
        api.down = True
        assert await get(manager, reader) == (500, "Authentication failed: the API server could not be asked\n")


async def test_a_missing_permission_for_access_reviews_is_reported_at_the_start(
    api: API, caplog: pytest.LogCaptureFixture
) -> None:
    manager = Manager(
        name="operator",
        transport=api.as_user(OPERATOR),
        health_address="0",
        metrics_address=FREE,
        metrics_secure=SelfSigned(),
    )
    await api.grant("User", "operator", manager.rbac_rules())
    async with manager:
        (line,) = [each for each in caplog.records if each.msg == "Permissions missing"]
    assert line.__dict__["fields"]["error"].startswith(
        "RBAC: not allowed to create tokenreviews.authentication.k8s.io, create "
        "subjectaccessreviews.authorization.k8s.io: apply the role"
    )


def written(folder: Path, authority: trustme.CA) -> Certificate:
    issued = authority.issue_cert("localhost")
    found = Certificate(folder / "tls.crt", folder / "tls.key")
    issued.private_key_pem.write_to_path(found.key)
    issued.cert_chain_pems[0].write_to_path(found.certificate)
    return found


async def test_a_renewed_certificate_is_used_for_new_connections(api: API, tmp_path: Path) -> None:
    reader = await api.token_of("prometheus")
    old, new = trustme.CA(), trustme.CA()
    trusting_old, trusting_new = ssl.create_default_context(), ssl.create_default_context()
    old.configure_trust(trusting_old)
    new.configure_trust(trusting_new)
    async with serving(api, metrics_secure=written(tmp_path, old)) as manager:
        await api.grant("ServiceAccount", "prometheus", manager.metrics_reader_rules())
        assert (await get(manager, reader, trusting_old))[0] == 200
        with pytest.raises(ConnectionFailed):
            await get(manager, reader, trusting_new)
        written(tmp_path, new)
        status, text = await get(manager, reader, trusting_new)
        assert status == 200
        assert "certwatcher_read_certificate_total 2.0" in text


async def test_an_invalid_renewal_leaves_the_previous_certificate_in_use(api: API, tmp_path: Path) -> None:
    reader = await api.token_of("prometheus")
    authority = trustme.CA()
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    certificate = written(tmp_path, authority)
    async with serving(api, metrics_secure=certificate) as manager:
        await api.grant("ServiceAccount", "prometheus", manager.metrics_reader_rules())
        certificate.key.write_text("half a key")
        assert (await get(manager, reader, trusting))[0] == 200


async def test_missing_certificate_files_fail_the_start(api: API, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tls.crt with key .*No such file.*--metrics-cert-path"):
        async with serving(api, metrics_secure=Certificate(tmp_path / "tls.crt", tmp_path / "tls.key")):
            pytest.fail("it started")


async def test_a_self_signed_certificate_without_cryptography_is_an_error_with_advice(
    api: API, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(
        ConfigError, match=r"--metrics-cert-path, or install the package .*: pip install 'kubewright\[tls\]'"
    ):
        async with serving(api, ADMIN):
            pytest.fail("it started")
