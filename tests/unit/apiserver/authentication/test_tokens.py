"""Authentication: service account tokens, certificates and impersonation."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from kubewright.http.message import Peer, Request
from kubewright.machinery.errors import ConfigError
from kubewright.testing import VirtualClock
from kubewright_controlplane.apiserver.authentication.jwt import InvalidToken, SigningKey, Token
from kubewright_controlplane.apiserver.authentication.serviceaccount import ServiceAccountTokens
from kubewright_controlplane.apiserver.options import ServerOptions
from kubewright_controlplane.apiserver.server import APIServer
from unit.apiserver.harness import ADMIN, API

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
POD = {"metadata": {"name": "p"}, "spec": {"serviceAccountName": "op", "containers": [{"name": "c", "image": "i"}]}}


@pytest.fixture
async def account(api: API) -> dict[str, Any]:
    return await api.ok("POST", ACCOUNTS, {"metadata": {"name": "op"}})


async def token_of(api: API, **spec: Any) -> str:
    answer = await api.ok("POST", f"{ACCOUNTS}/op/token", {"spec": spec})
    return str(answer["status"]["token"])


async def who(api: API, token: str, **headers: str) -> dict[str, Any]:
    answer = await api.ok("POST", WHO, {}, token=token, **headers)
    user: dict[str, Any] = answer["status"]["userInfo"]
    return user


@pytest.mark.parametrize(
    "key",
    [
        ec.generate_private_key(ec.SECP256R1()),
        ec.generate_private_key(ec.SECP384R1()),
        rsa.generate_private_key(public_exponent=65537, key_size=2048),
    ],
    ids=["ES256", "ES384", "RS256"],
)
def test_only_the_matching_public_key_verifies_a_token(
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey,
) -> None:
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )  # fmt: skip
    signing = SigningKey.from_pem(pem)
    text = signing.sign({"sub": "me"})
    token = Token.parse(text)
    signing.public.verify(token)
    assert token.claims == {"sub": "me"}
    with pytest.raises(InvalidToken):
        SigningKey.generate().public.verify(token)
    head, _, signature = text.split(".")
    _, other_claims, _ = signing.sign({"sub": "you"}).split(".")
    with pytest.raises(InvalidToken):
        signing.public.verify(Token.parse(f"{head}.{other_claims}.{signature}"))


def test_an_unusable_signing_key_is_rejected_with_a_hint() -> None:
    with pytest.raises(ConfigError, match="unencrypted PEM"):
        SigningKey.from_pem(b"nonsense")


async def test_a_token_authenticates_its_service_account(api: API, account: dict[str, Any]) -> None:
    user = await who(api, await token_of(api))
    assert user["username"] == "system:serviceaccount:default:op"
    assert user["uid"] == account["metadata"]["uid"]
    assert user["groups"] == ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]


async def test_a_token_expires(api: API, account: dict[str, Any], clock: VirtualClock) -> None:
    token = await token_of(api, expirationSeconds=600)
    await clock.advance(timedelta(minutes=9))
    await who(api, token)
    await clock.advance(timedelta(minutes=3))
    assert (await api.rejected(401, "POST", WHO, {}, token=token))["reason"] == "Unauthorized"
    review = await api.ok("POST", REVIEWS, {"spec": {"token": token}})
    assert review["status"]["error"] == "[invalid bearer token, service account token has expired]"


async def test_a_token_is_invalid_after_its_account_is_deleted_or_recreated(api: API, account: dict[str, Any]) -> None:
    token = await token_of(api)
    await api.ok("DELETE", f"{ACCOUNTS}/op")
    await api.rejected(401, "POST", WHO, {}, token=token)
    await api.ok("POST", ACCOUNTS, {"metadata": {"name": "op"}})
    await api.rejected(401, "POST", WHO, {}, token=token)


async def test_a_bound_token_is_invalid_after_its_pod_is_deleted(api: API, account: dict[str, Any]) -> None:
    await api.ok("POST", "/api/v1/namespaces/default/pods", POD)
    token = await token_of(api, boundObjectRef={"apiVersion": "v1", "kind": "Pod", "name": "p"})
    user = await who(api, token)
    assert user["extra"]["authentication.kubernetes.io/pod-name"] == ["p"]
    await api.ok("DELETE", "/api/v1/namespaces/default/pods/p")
    await api.rejected(401, "POST", WHO, {}, token=token)


async def test_a_token_for_other_audiences_is_rejected(api: API, account: dict[str, Any]) -> None:
    token = await token_of(api, audiences=["vault"])
    await api.rejected(401, "POST", WHO, {}, token=token)
    review = await api.ok("POST", REVIEWS, {"spec": {"token": token, "audiences": ["vault", "x"]}})
    assert review["status"]["authenticated"] is True
    assert review["status"]["audiences"] == ["vault"]


async def test_a_forged_token_is_rejected(api: API, account: dict[str, Any]) -> None:
    token = await token_of(api)
    head, claims, signature = token.split(".")
    other = SigningKey.generate().sign(Token.parse(token).claims)
    junk = (
        f"{token}=",
        f"{token}==",
        f"{head}.{claims}.{signature[:4]}!{signature[4:]}",
        f"{head}.{claims}.*{signature}",
    )
    for forged in (f"{head}.{claims}.{signature[:-8]}AAAAAAAA", other, f"{head}.{claims}.", "x", *junk):
        await api.rejected(401, "POST", WHO, {}, token=forged)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"expirationSeconds": 5},
            'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 5: '
            "may not specify a duration less than 10 minutes",
        ),
        (
            {"boundObjectRef": {"kind": "Foo", "name": "x", "apiVersion": "v1"}},
            "cannot bind token to object of type /v1, Kind=Foo",
        ),
    ],
)
async def test_a_rejected_token_request_says_why(
    api: API, account: dict[str, Any], spec: dict[str, Any], message: str
) -> None:
    code = 422 if "invalid" in message else 400
    assert (await api.rejected(code, "POST", f"{ACCOUNTS}/op/token", {"spec": spec}))["message"] == message


async def test_a_certificate_names_the_user_and_the_groups(api: API) -> None:
    peer = Peer("127.0.0.1", "alice", ("dev", "ops"))
    request = Request("POST", WHO, {"content-type": "application/json"}, b"{}", peer)
    answer = await api.server.handle(request)
    body = (await answer.read()).decode()
    assert '"username":"alice"' in body
    assert '"groups":["dev","ops","system:authenticated"]' in body


async def test_a_token_survives_a_restart(tmp_path: Path, clock: VirtualClock) -> None:
    options = ServerOptions(data=tmp_path, clock=clock, tokens={"admin": ADMIN})
    first = APIServer(options)
    await first.start()
    before = API(first, clock)
    await before.ok("POST", ACCOUNTS, {"metadata": {"name": "op"}})
    token = await token_of(before)
    await first.close()
    second = APIServer(options)
    await second.start()
    assert (await who(API(second, clock), token))["username"] == "system:serviceaccount:default:op"
    await second.close()


async def test_a_user_with_permission_can_impersonate(api: API) -> None:
    user = await who(
        api, "admin", impersonate_user="carol", impersonate_group="a, b", impersonate_extra_Scopes="x"
    )  # fmt: skip
    assert user == {"username": "carol", "groups": ["a", "b", "system:authenticated"], "extra": {"scopes": ["x"]}}
    account = await who(api, "admin", impersonate_user="system:serviceaccount:default:op")
    assert account["groups"] == ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]


async def test_impersonation_without_permission_is_rejected(api: API) -> None:
    status = await api.rejected(403, "POST", WHO, {}, token="bob", impersonate_user="carol")
    assert status["message"] == (
        'selfsubjectreviews.authentication.k8s.io is forbidden: User "bob" cannot impersonate-on:user-info:create '
        'resource "selfsubjectreviews" in API group "authentication.k8s.io" at the cluster scope'
    )
    status = await api.rejected(400, "POST", WHO, {}, impersonate_group="a")
    assert status["message"] == (
        'requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"a"}, Extra:map[string][]string(nil)} '
        "without impersonating a user name"
    )


async def grant(api: API, *rules: dict[str, list[str]]) -> None:
    """Give bob this permission in the whole cluster."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    await api.ok("POST", f"{rbac}/clusterroles", {"metadata": {"name": "granted"}, "rules": rules})
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "granted"}
    binding = {"metadata": {"name": "granted"}, "roleRef": ref, "subjects": [{"kind": "User", "name": "bob"}]}
    await api.ok("POST", f"{rbac}/clusterrolebindings", binding)


async def test_impersonation_applies_to_every_request(api: API) -> None:
    await grant(api, {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": ["carol"]})
    assert (await who(api, "bob", impersonate_user="carol"))["username"] == "carol"
    await api.rejected(403, "POST", WHO, {}, token="bob", impersonate_user="dave")
    await api.rejected(403, "POST", WHO, {}, token="bob", impersonate_user="carol", impersonate_group="a")


async def test_constrained_impersonation_allows_only_what_it_names(api: API) -> None:
    group = ["authentication.k8s.io"]
    await grant(
        api,
        {"apiGroups": group, "resources": ["users"], "verbs": ["impersonate:user-info"], "resourceNames": ["carol"]},
        {"apiGroups": group, "resources": ["selfsubjectreviews"], "verbs": ["impersonate-on:user-info:create"]},
    )
    assert (await who(api, "bob", impersonate_user="carol"))["username"] == "carol"
    pods = await api.rejected(403, "GET", "/api/v1/pods", token="bob", impersonate_user="carol")
    assert 'User "bob" cannot impersonate-on:user-info:list resource "pods"' in pods["message"]
    dave = await api.rejected(403, "POST", WHO, {}, token="bob", impersonate_user="dave")
    assert dave["message"].startswith('users.authentication.k8s.io "dave" is forbidden: ')
    account = await api.rejected(403, "POST", WHO, {}, token="bob", impersonate_user="system:serviceaccount:a:b")
    assert "impersonate-on:serviceaccount:create" in account["message"]


async def test_constrained_impersonation_never_allows_system_masters(api: API) -> None:
    anything = {"apiGroups": ["*"], "resources": ["*"]}
    await grant(api, {**anything, "verbs": ["impersonate:user-info", "impersonate-on:user-info:create"]})
    asked = {"impersonate_user": "carol", "impersonate_group": "system:masters"}
    refused = await api.rejected(403, "POST", WHO, {}, token="bob", **asked)
    assert refused["message"].endswith("impersonating the system:masters group is not allowed")


async def test_an_impersonated_node_has_the_groups_of_nodes(api: API) -> None:
    anything = {"apiGroups": ["*"], "resources": ["*"]}
    await grant(api, {**anything, "verbs": ["impersonate:arbitrary-node", "impersonate-on:arbitrary-node:create"]})
    user = await who(api, "bob", impersonate_user="system:node:n1")
    assert user["groups"] == ["system:nodes", "system:authenticated"]


def test_the_audiences_of_a_token_are_compared_once_each() -> None:
    account = {"metadata": {"namespace": "default", "name": "op", "uid": "1"}}
    key = SigningKey.generate()
    tokens = ServiceAccountTokens(key, "https://issuer", lambda *_: account, VirtualClock().now)
    audiences = [f"audience-{number}" for number in range(2000)]
    compared = 0

    class Counted(str):
        """A text that counts comparisons."""

        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    found = tokens.authenticate(tokens.mint(account, audiences, 600), [Counted(each) for each in audiences])
    assert found is not None
    assert len(found[1]) == len(audiences)
    assert compared <= 2 * len(audiences)
