"""RBAC rules: `tests/golden/rbac/role.yaml` is what controller-gen 0.19 wrote for the markers next to it."""

from __future__ import annotations

from pathlib import Path

from kubewright.machinery import yaml
from kubewright.models import PolicyRule
from kubewright.models import _rbac as rbac

GOLDEN = Path(__file__).parents[2] / "golden" / "rbac" / "role.yaml"
WRITE = ["get", "list", "watch", "create", "update", "patch", "delete"]


def rule(group: str, resources: list[str], verbs: list[str], names: list[str] | None = None) -> PolicyRule:
    return PolicyRule(api_groups=[group], resources=resources, verbs=verbs, resource_names=names or [])


RULES = [
    rule("my.domain", ["webservers"], WRITE),
    rule("my.domain", ["webservers/status"], ["get", "update", "patch"]),
    rule("my.domain", ["webservers/finalizers"], ["update"]),
    rule("apps", ["deployments"], WRITE),
    rule("", ["services"], WRITE),
    rule("", ["services"], ["get"]),
    rule("events.k8s.io", ["events"], ["create", "patch"]),
    rule("", ["configmaps", "secrets"], ["get", "list"]),
    rule("", ["secrets"], ["get"], names=["b", "a"]),
    rule("batch", ["jobs"], ["*", "get"]),
    PolicyRule(non_resource_urls=["/metrics", "/healthz"], verbs=["get"]),
    PolicyRule(non_resource_urls=["/readyz"], verbs=["get"]),
]


def test_a_role_is_what_controller_gen_writes() -> None:
    assert rbac.cluster_role("manager-role", RULES) == yaml.load(GOLDEN.read_text())


def test_the_order_in_which_rules_are_declared_does_not_matter() -> None:
    assert rbac.merged(reversed(RULES)) == rbac.merged(RULES)


def test_merged_rules_do_not_merge_further() -> None:
    assert rbac.merged(rbac.merged(RULES)) == rbac.merged(RULES)


def test_merging_does_not_modify_the_given_rules() -> None:
    mine = rule("batch", ["jobs", "cronjobs"], ["*", "get"])
    rbac.merged([mine])
    assert mine == rule("batch", ["jobs", "cronjobs"], ["*", "get"])


def test_a_role_can_be_namespaced() -> None:
    role = rbac.role("a", "b", [rule("", ["pods"], ["get"])])
    assert (role["kind"], role["metadata"]) == ("Role", {"name": "a", "namespace": "b"})
