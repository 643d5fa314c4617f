"""Authentication and authorization."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from conformance.rawapi import API, until
from kubewright.client._config import Config

RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1"


async def soon(api: API, target: str, status: int, **headers: str) -> None:
    """Wait until the server answers with `status`: it observes roles and accounts with a delay."""

    async def answers() -> bool:
        return (await api.get(target, **headers)).status == status

    await until(answers)


def as_user(name: str, *groups: str) -> dict[str, str]:
    headers = {"impersonate_user": name}
    return {**headers, "impersonate_group": groups[0]} if groups else headers


@pytest_asyncio.fixture
async def anonymous(kubewright_config: Config) -> AsyncIterator[API]:
    api = API(replace(kubewright_config, client_cert=None, client_key=None, token=None))
    yield api
    await api.close()


@pytest_asyncio.fixture
async def account(api: API, ns: str, kubewright_config: Config) -> AsyncIterator[API]:
    """A ServiceAccount named `robot` without permissions."""
    await api.post(f"{ns}/serviceaccounts", {"metadata": {"name": "robot"}})
    token = (await api.post(f"{ns}/serviceaccounts/robot/token", {"spec": {}})).expect(201).json["status"]["token"]
    robot = API(replace(kubewright_config, client_cert=None, client_key=None, token=token))
    yield robot
    await robot.close()


async def test_no_credentials_are_anonymous(anonymous: API) -> None:
    answer = (await anonymous.get("/api/v1/nodes")).expect(403)
    assert answer.message == (
        'nodes is forbidden: User "system:anonymous" cannot list resource "nodes" in API group "" at the cluster scope'
    )
    assert answer.json["details"] == {"kind": "nodes"}


async def test_bad_credentials_are_rejected(anonymous: API) -> None:
    answer = (await anonymous.get("/api/v1/nodes", authorization="Bearer nonsense")).expect(401)
    assert (answer.reason, answer.message) == ("Unauthorized", "Unauthorized")


async def test_anonymous_users_can_read_health_and_version(anonymous: API) -> None:
    (await anonymous.get("/healthz")).expect(200)
    (await anonymous.get("/version")).expect(200)


async def test_a_denial_names_user_verb_resource_and_namespace(api: API, ns: str) -> None:
    answer = (await api.get(f"{ns}/pods/p", **as_user("bob"))).expect(403)
    namespace = ns.rpartition("/")[2]
    assert answer.message == (
        f'pods "p" is forbidden: User "bob" cannot get resource "pods" in API group "" in the namespace "{namespace}"'
    )


async def test_a_denial_names_the_path(api: API) -> None:
    answer = (await api.get("/metrics", **as_user("bob"))).expect(403)
    assert answer.message == 'forbidden: User "bob" cannot get path "/metrics"'


async def test_a_role_allows_what_it_names_in_its_namespace(api: API, ns: str) -> None:
    rbac = f"{RBAC}/namespaces/{ns.rpartition('/')[2]}"
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]
    (await api.post(f"{rbac}/roles", {"metadata": {"name": "r"}, "rules": rules})).expect(201)
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    (await api.post(f"{rbac}/rolebindings", binding)).expect(201)
    await soon(api, f"{ns}/configmaps", 200, **as_user("ann"))
    (await api.delete(f"{ns}/configmaps/x", **as_user("ann"))).expect(403)
    (await api.get("/api/v1/configmaps", **as_user("ann"))).expect(403)
    (await api.delete(f"{rbac}/rolebindings/b")).expect(200)
    await soon(api, f"{ns}/configmaps", 403, **as_user("ann"))


async def test_subresources_and_names_need_their_own_permissions(api: API, ns: str) -> None:
    rbac = f"{RBAC}/namespaces/{ns.rpartition('/')[2]}"
    rules = [
        {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"], "verbs": ["get"]},
    ]
    await api.post(f"{rbac}/roles", {"metadata": {"name": "r"}, "rules": rules})
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "Group", "name": "team", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    await api.post(f"{rbac}/rolebindings", binding)
    user = as_user("bob", "team")
    await soon(api, f"{ns}/pods/p/status", 404, **user)
    (await api.get(f"{ns}/pods/p", **user)).expect(403)
    (await api.get(f"{ns}/configmaps/mine", **user)).expect(404)
    (await api.get(f"{ns}/configmaps/other", **user)).expect(403)


async def test_impersonation_requires_permission(account: API) -> None:
    answer = (await account.get("/api/v1/nodes", **as_user("bob"))).expect(403)
    assert ":robot" in answer.message
    assert "cannot impersonate" in answer.message


async def test_a_token_authenticates_its_service_account(account: API, ns: str) -> None:
    namespace = ns.rpartition("/")[2]
    review = await account.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    info = review.expect(201).json["status"]["userInfo"]
    assert info["username"] == f"system:serviceaccount:{namespace}:robot"
    assert set(info["groups"]) >= {
        "system:serviceaccounts",
        f"system:serviceaccounts:{namespace}",
        "system:authenticated",
    }


async def test_a_token_has_the_expected_claims(api: API, ns: str) -> None:
    await api.post(f"{ns}/serviceaccounts", {"metadata": {"name": "robot"}})
    body = {"spec": {"audiences": ["me"], "expirationSeconds": 600}}
    answer = (await api.post(f"{ns}/serviceaccounts/robot/token", body)).expect(201).json
    assert answer["spec"]["audiences"] == ["me"]
    payload = answer["status"]["token"].split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert claims["aud"] == ["me"]
    assert claims["exp"] - claims["iat"] == 600
    assert claims["kubernetes.io"]["serviceaccount"]["name"] == "robot"


async def test_a_token_is_invalid_after_its_account_is_deleted(api: API, account: API, ns: str) -> None:
    (await account.get("/api/v1/nodes")).expect(403)
    await api.delete(f"{ns}/serviceaccounts/robot")
    await soon(account, "/api/v1/nodes", 401)


async def review(api: API, kind: str, spec: dict[str, Any], **headers: str) -> Any:
    answer = await api.post(f"{REVIEWS}/{kind}", {"spec": spec}, **headers)
    return answer.expect(201).json["status"]


async def test_access_reviews_answer_what_is_allowed(api: API, ns: str) -> None:
    spec = {"resourceAttributes": {"verb": "create", "resource": "pods", "namespace": "default"}}
    assert (await review(api, "selfsubjectaccessreviews", spec))["allowed"] is True
    assert (await review(api, "selfsubjectaccessreviews", spec, **as_user("bob")))["allowed"] is False
    assert (await review(api, "subjectaccessreviews", {**spec, "user": "bob"}))["allowed"] is False
    masters = {**spec, "user": "bob", "groups": ["system:masters"]}
    assert (await review(api, "subjectaccessreviews", masters))["allowed"] is True


async def test_users_cannot_grant_permissions_that_they_lack(api: API, ns: str) -> None:
    name = f"editor-{secrets.token_hex(4)}"
    rules = [{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["create", "get"]}]
    await api.post(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    await api.post(f"{RBAC}/clusterrolebindings", binding)
    wanted = {"metadata": {"name": "r"}, "rules": [{"apiGroups": ["x"], "resources": ["y"], "verbs": ["z"]}]}
    target = f"{RBAC}/namespaces/{ns.rpartition('/')[2]}/roles"
    await soon(api, f"{target}/nope", 404, **as_user("bob"))
    answer = await api.post(target, wanted, **as_user("bob"))
    await api.delete(f"{RBAC}/clusterrolebindings/{name}")
    await api.delete(f"{RBAC}/clusterroles/{name}")
    answer.expect(403)
    assert (
        'user "bob" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held'
        in (answer.message)
    )
    assert '{APIGroups:["x"], Resources:["y"], Verbs:["z"]}' in answer.message


async def test_the_view_role_reads_and_does_not_write(api: API, ns: str) -> None:
    rbac = f"{RBAC}/namespaces/{ns.rpartition('/')[2]}"
    binding = {
        "metadata": {"name": "viewers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": "vic", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    (await api.post(f"{rbac}/rolebindings", binding)).expect(201)
    await soon(api, f"{ns}/pods", 200, **as_user("vic"))
    (await api.get(f"{ns}/secrets", **as_user("vic"))).expect(403)
    (await api.post(f"{ns}/configmaps", {"metadata": {"name": "a"}}, **as_user("vic"))).expect(403)


@pytest.mark.parametrize("name", ["default", "kube-system"])
async def test_some_namespaces_cannot_be_deleted(api: API, name: str) -> None:
    answer = (await api.delete(f"/api/v1/namespaces/{name}")).expect(403)
    assert "this namespace may not be deleted" in answer.message


async def test_creates_in_a_terminating_namespace_are_rejected(api: API, ns: str) -> None:
    body = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    (await api.post(f"{ns}/configmaps", body)).expect(201)
    (await api.delete(ns)).expect(200)
    answer = (await api.post(f"{ns}/configmaps", {"metadata": {"name": "late"}})).expect(403)
    assert answer.causes[0][0] == "NamespaceTerminating"
    assert "because it is being terminated" in answer.message
    await api.patch(f"{ns}/configmaps/held", {"metadata": {"finalizers": None}})


async def test_the_rules_of_an_aggregated_role_belong_to_its_controller(api: API, ns: str) -> None:
    name = ns.rpartition("/")[2]
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    selector = {"matchLabels": {"part-of": name}}
    whole = {"metadata": {"name": name}, "aggregationRule": {"clusterRoleSelectors": [selector]}}
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    try:
        (await api.post(roles, whole)).expect(201)
        part = {"metadata": {"name": f"{name}-part", "labels": {"part-of": name}}, "rules": [rule]}
        (await api.post(roles, part)).expect(201)

        async def aggregated() -> dict[str, Any] | None:
            found: dict[str, Any] = (await api.get(f"{roles}/{name}")).expect(200).json
            return found if found["rules"] else None

        found = await until(aggregated)
        assert found["rules"] == [rule]
        owners = {
            (each["manager"], each["operation"])
            for each in found["metadata"]["managedFields"]
            if "f:rules" in each["fieldsV1"]
        }
        assert owners == {("clusterrole-aggregation-controller", "Apply")}
    finally:
        for each in (name, f"{name}-part"):
            await api.delete(f"{roles}/{each}")
