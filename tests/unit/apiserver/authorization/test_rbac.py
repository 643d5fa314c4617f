"""RBAC through requests, with the messages of kube-apiserver 1.36."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from unit.apiserver.harness import API, MERGE

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = f"{RBAC}/namespaces/default/roles"
BINDINGS = f"{RBAC}/namespaces/default/rolebindings"
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
BOB = [{"kind": "User", "name": "bob"}]


def rule(*verbs: str, resources: tuple[str, ...], groups: tuple[str, ...] = ("",), **rest: Any) -> dict[str, Any]:
    return {"verbs": verbs, "apiGroups": groups, "resources": resources, **rest}


async def grant(api: API, *rules: dict[str, Any], name: str = "r") -> None:
    await api.ok("POST", ROLES, {"metadata": {"name": name}, "rules": rules})
    reference = {"kind": "Role", "name": name}
    await api.ok("POST", BINDINGS, {"metadata": {"name": name}, "roleRef": reference, "subjects": BOB})


async def allowed(api: API, **attributes: str) -> bool:
    body = {"spec": {"user": "bob", "resourceAttributes": {"namespace": "default", **attributes}}}
    review = await api.ok("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return bool(review["status"]["allowed"])


async def test_without_a_rule_nothing_is_allowed(api: API) -> None:
    status = await api.rejected(403, "GET", PODS, token="bob")
    assert status["message"] == (
        'pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "default"'
    )
    cluster_wide = await api.rejected(403, "GET", "/api/v1/pods", token="bob")
    assert cluster_wide["message"].endswith('in API group "" at the cluster scope')
    path = await api.rejected(403, "GET", "/metrics", token="bob")
    assert path["message"] == 'forbidden: User "bob" cannot get path "/metrics"'


async def test_a_rule_applies_from_its_commit_to_its_deletion(api: API) -> None:
    await grant(api, rule("list", resources=("pods",)))
    await api.ok("GET", PODS, token="bob")
    await api.ok("PATCH", f"{ROLES}/r", {"rules": [rule("list", resources=("secrets",))]}, content_type=MERGE)
    await api.rejected(403, "GET", PODS, token="bob")
    await api.ok("GET", "/api/v1/namespaces/default/secrets", token="bob")
    await api.ok("DELETE", f"{BINDINGS}/r")
    await api.rejected(403, "GET", "/api/v1/namespaces/default/secrets", token="bob")


@pytest.mark.parametrize(
    ("granted", "asked", "expected"),
    [
        (rule("get", resources=("pods",)), {"verb": "get", "resource": "pods"}, True),
        (rule("get", resources=("pods",)), {"verb": "get", "resource": "pods", "subresource": "log"}, False),
        (rule("get", resources=("pods/log",)), {"verb": "get", "resource": "pods", "subresource": "log"}, True),
        (rule("get", resources=("pods/log",)), {"verb": "get", "resource": "pods"}, False),
        (
            rule("update", resources=("*/scale",), groups=("apps",)),
            {"verb": "update", "resource": "deployments", "subresource": "scale", "group": "apps"},
            True,
        ),
        (rule("*", resources=("*",), groups=("*",)), {"verb": "eat", "resource": "cakes", "group": "a.b"}, True),
        (rule("get", resources=("*",)), {"verb": "get", "resource": "cakes", "group": "a.b"}, False),
        (
            rule("get", resources=("configmaps",), resourceNames=("only",)),
            {"verb": "get", "resource": "configmaps", "name": "only"},
            True,
        ),
        (
            rule("get", resources=("configmaps",), resourceNames=("only",)),
            {"verb": "get", "resource": "configmaps", "name": "other"},
            False,
        ),
        (
            rule("list", resources=("configmaps",), resourceNames=("only",)),
            {"verb": "list", "resource": "configmaps"},
            False,
        ),
    ],
)
async def test_a_rule_allows_only_what_it_names(
    api: API, granted: dict[str, Any], asked: dict[str, str], expected: bool
) -> None:
    await grant(api, granted)
    assert await allowed(api, **asked) is expected


async def test_permission_for_one_name_allows_listing_it_by_field_selector(api: API) -> None:
    await grant(api, rule("list", resources=("configmaps",), resourceNames=("only",)))
    listed = "/api/v1/namespaces/default/configmaps"
    await api.ok("GET", f"{listed}?fieldSelector=metadata.name%3Donly", token="bob")
    for query in ("", "?fieldSelector=metadata.name%3Dother", "?fieldSelector=metadata.name%21%3Donly"):
        await api.rejected(403, "GET", f"{listed}{query}", token="bob")


async def test_names_of_several_rules_add_up(api: API) -> None:
    await grant(api, rule("get", resources=("configmaps",), resourceNames=("a",)), name="first")
    await grant(api, rule("get", resources=("configmaps",), resourceNames=("b",)), name="second")
    assert await allowed(api, verb="get", resource="configmaps", name="a")
    assert await allowed(api, verb="get", resource="configmaps", name="b")
    assert not await allowed(api, verb="get", resource="configmaps", name="c")


async def test_a_path_is_allowed_by_exact_match_or_prefix(api: API) -> None:
    role = {"metadata": {"name": "paths"}, "rules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics", "/debug/*"]}]}
    await api.ok("POST", f"{RBAC}/clusterroles", role)
    binding = {"metadata": {"name": "paths"}, "roleRef": {"kind": "ClusterRole", "name": "paths"}, "subjects": BOB}
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding)
    assert (await api("GET", "/metrics", token="bob")).status == 200
    assert (await api("GET", "/debug/x", token="bob")).status == 404
    assert (await api("GET", "/other", token="bob")).status == 403


async def test_a_denial_names_bound_roles_that_are_missing(api: API) -> None:
    binding = {"metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "gone"}, "subjects": BOB}
    await api.ok("POST", BINDINGS, binding)
    status = await api.rejected(403, "GET", PODS, token="bob")
    assert status["message"].endswith(': RBAC: role.rbac.authorization.k8s.io "gone" not found')


async def test_a_review_names_the_binding_that_allows(api: API) -> None:
    await grant(api, rule("get", resources=("pods",)))
    body = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}}
    response = await api("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body, token="bob")
    assert response.status == 201
    assert b'RBAC: allowed by RoleBinding \\"r/default\\" of Role \\"r\\" to User \\"bob\\"' in await response.read()


async def test_users_cannot_grant_permissions_that_they_lack(api: API) -> None:
    own = rule("create", "update", resources=("roles", "rolebindings"), groups=("rbac.authorization.k8s.io",))
    await grant(api, own, rule("get", resources=("pods",)))
    wanted = {
        "metadata": {"name": "more"},
        "rules": [
            rule("get", "delete", resources=("pods", "secrets")),
            rule("get", resources=("configmaps",), resourceNames=("a",)),
        ],
    }
    status = await api.rejected(403, "POST", ROLES, wanted, token="bob")
    assert status["message"] == (
        'roles.rbac.authorization.k8s.io "more" is forbidden: user "bob" (groups=["system:authenticated"]) '
        "is attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["configmaps"], ResourceNames:["a"], Verbs:["get"]}\n'
        '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete"]}'
    )
    await api.ok(
        "POST", ROLES, {"metadata": {"name": "same"}, "rules": [rule("get", resources=("pods",))]}, token="bob"
    )
    admin = {"metadata": {"name": "x"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}, "subjects": BOB}
    await api.rejected(403, "POST", BINDINGS, admin, token="bob")


async def test_escalate_and_bind_are_separate_permissions(api: API) -> None:
    group = ("rbac.authorization.k8s.io",)
    await grant(
        api,
        rule("create", "escalate", resources=("roles",), groups=group),
        rule("create", resources=("rolebindings",), groups=group),
        rule("bind", resources=("clusterroles",), groups=group, resourceNames=("view",)),
    )
    everything = {"metadata": {"name": "all"}, "rules": [rule("*", resources=("*",), groups=("*",))]}
    await api.ok("POST", ROLES, everything, token="bob")
    for role, code in (("view", 201), ("edit", 403)):
        reference = {"kind": "ClusterRole", "name": role}
        binding = {"metadata": {"name": role}, "roleRef": reference, "subjects": BOB}
        assert (await api("POST", BINDINGS, binding, token="bob")).status == code


async def test_an_aggregated_cluster_role_has_the_rules_of_others(api: API) -> None:
    labels = {"matchLabels": {"gather": "yes"}}
    gatherer = {"metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": [labels]}}
    await api.ok("POST", f"{RBAC}/clusterroles", gatherer)
    part = {"metadata": {"name": "p", "labels": {"gather": "yes"}}, "rules": [rule("get", resources=("pods",))]}
    await api.ok("POST", f"{RBAC}/clusterroles", part)
    assert len((await api.ok("GET", f"{RBAC}/clusterroles/all"))["rules"]) == 1
    await api.ok("DELETE", f"{RBAC}/clusterroles/p")
    assert not (await api.ok("GET", f"{RBAC}/clusterroles/all"))["rules"]


async def test_the_view_role_of_a_new_cluster_allows_reading(api: API) -> None:
    reference = {"kind": "ClusterRole", "name": "view"}
    await api.ok("POST", BINDINGS, {"metadata": {"name": "v"}, "roleRef": reference, "subjects": BOB})
    await api.ok("GET", PODS, token="bob")
    await api.rejected(403, "GET", "/api/v1/namespaces/default/secrets", token="bob")


async def test_the_role_of_a_binding_is_immutable(api: API) -> None:
    await grant(api, rule("get", resources=("pods",)))
    change = {"roleRef": {"name": "other"}}
    status = await api.rejected(422, "PATCH", f"{BINDINGS}/r", change, content_type=MERGE)
    assert status["details"]["causes"][0]["field"] == "roleRef"
    assert status["message"].endswith(": cannot change roleRef")


async def test_put_creates_a_missing_role(api: API) -> None:
    role = {"metadata": {"name": "new"}, "rules": [rule("get", resources=("pods",))]}
    assert (await api("PUT", f"{ROLES}/new", role)).status == 201


async def test_a_rules_review_lists_the_rules_of_the_user(api: API) -> None:
    await grant(api, rule("get", resources=("pods",)))
    body = {"spec": {"namespace": "default"}}
    review = await api.ok("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", body, token="bob")
    assert {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]} in review["status"]["resourceRules"]


async def test_a_rule_with_very_many_combinations_is_not_compared(api: API) -> None:
    await grant(api, rule("create", resources=("roles",), groups=("rbac.authorization.k8s.io",)))
    names = [tuple(f"{letter}{number}" for number in range(500)) for letter in "gvrn"]
    many = rule(*names[0], groups=names[1], resources=names[2], resourceNames=names[3])
    for rules, why in (
        ([many], "the rules have too many combinations of verbs, groups, resources and names to compare them"),
        ([rule("get", resources=names[2])] * 3, "is attempting to grant RBAC permissions not currently held"),
    ):
        denied = await api.rejected(403, "POST", ROLES, {"metadata": {"name": "x"}, "rules": rules}, token="bob")
        assert why in denied["message"]


async def test_a_rule_may_name_very_many_objects(api: API) -> None:
    names = [f"n{number}" for number in range(5000)]
    await grant(api, rule("get", "create", resources=("pods", "roles"), groups=("*",), resourceNames=names))
    await grant(api, rule("create", resources=("roles",), groups=("*",)), name="s")
    assert await allowed(api, verb="get", resource="pods", name="n4999")
    assert not await allowed(api, verb="get", resource="pods", name="n5000")
    copies = [rule("get", resources=("pods",), resourceNames=names)]
    await api.ok("POST", ROLES, {"metadata": {"name": "x"}, "rules": copies}, token="bob")
    copies[0]["resourceNames"] = [*names, "m"]
    denied = await api.rejected(403, "POST", ROLES, {"metadata": {"name": "y"}, "rules": copies}, token="bob")
    assert denied["message"].endswith(
        'not currently held:\n{APIGroups:[""], Resources:["pods"], ResourceNames:["m"], Verbs:["get"]}'
    )


async def test_long_names_are_not_kept(api: API) -> None:
    await allowed(api, resource="pods", verb="get")
    tracemalloc.start()
    try:
        review = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        for number in range(20):
            long = f"{number}{'x' * 100_000}"
            asked = {"verb": "get", "resource": "pods", "namespace": "default"}
            for user in ({"user": long}, {"user": "a", "groups": [long]}):
                await api.ok("POST", review, {"spec": {**user, "resourceAttributes": asked}})
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000
