"""Which Pods of a DaemonSet are created and deleted next."""

from __future__ import annotations

from typing import Any

from kubewright.apis.apps.v1 import DaemonSet
from kubewright.apis.core.v1 import Node, Pod
from kubewright_controlplane.controllers.daemonset import placing
from kubewright_controlplane.controllers.daemonset.rollout import Plan, Step
from kubewright_controlplane.controllers.history import REVISION_HASH

from .objects import NOW, ago, daemon_set, node, pod

NODES = [node("a"), node("b"), node("c")]


def daemon(name: str, revision: str = "new", **fields: Any) -> Pod:
    age = fields.pop("age", 1)
    meta = {"labels": {"app": "web", REVISION_HASH: revision}, "creationTimestamp": ago(age)}
    return pod(name, meta=meta, **({"ready": 60} | fields))


def step(of: DaemonSet, by_node: dict[str, list[Pod]], nodes: list[Node] = NODES) -> Step:
    return Plan(of, nodes, "new", NOW).next(by_node)


def names(found: list[Pod]) -> list[str]:
    return [each.metadata.name for each in found]


def test_every_node_gets_a_pod() -> None:
    assert step(daemon_set(), {"b": [daemon("p")]}).create == ["a", "c"]


def test_a_pod_on_a_deleted_node_is_deleted() -> None:
    by_node = {each: [daemon(each)] for each in ("a", "b", "c", "gone")}
    assert names(step(daemon_set(), by_node).delete) == ["gone"]


def test_a_failed_pod_is_deleted_and_replaced() -> None:
    by_node = {"a": [daemon("p", ready=None, status={"phase": "Failed"})]}
    assert names(step(daemon_set(), by_node, [node("a")]).delete) == ["p"]


def test_no_schedule_keeps_new_pods_off_and_no_execute_ends_old_ones() -> None:
    closed = node("a", taints=[{"key": "k", "effect": "NoSchedule"}])
    assert not step(daemon_set(), {}, [closed]).create
    assert not step(daemon_set(), {"a": [daemon("p")]}, [closed]).delete
    evicting = node("a", taints=[{"key": "k", "effect": "NoExecute"}])
    assert names(step(daemon_set(), {"a": [daemon("p")]}, [evicting]).delete) == ["p"]


def test_daemons_run_on_nodes_that_are_not_ready_or_cordoned() -> None:
    taints = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
    taints += [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]
    assert step(daemon_set(), {}, [node("a", taints=taints)]).create == ["a"]


def test_an_update_replaces_one_pod_at_a_time() -> None:
    by_node = {each: [daemon(each, "old")] for each in ("a", "b", "c")}
    assert len(step(daemon_set(), by_node).delete) == 1
    by_node["a"] = [daemon("a", "new", ready=None)]
    assert not step(daemon_set(), by_node).delete


def test_an_old_pod_that_is_not_available_is_replaced_at_once() -> None:
    by_node = {"a": [daemon("a", "old", ready=None)], "b": [daemon("b", "old")], "c": [daemon("c", "old")]}
    assert names(step(daemon_set(), by_node).delete) == ["a"]


def test_with_surge_a_second_pod_starts_before_the_first_is_deleted() -> None:
    surging = daemon_set(
        updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    )
    old = {each: [daemon(each, "old", age=9)] for each in ("a", "b", "c")}
    first = step(surging, old)
    assert (first.create, first.delete) == (["a"], [])
    coming = {**old, "a": [*old["a"], daemon("a2", ready=None)]}
    assert step(surging, coming) == Step()
    there = {**old, "a": [*old["a"], daemon("a2")]}
    assert names(step(surging, there).delete) == ["a"]


def test_on_delete_leaves_old_pods_alone() -> None:
    by_node = {"a": [daemon("a", "old")]}
    assert step(daemon_set(updateStrategy={"type": "OnDelete"}), by_node, [node("a")]) == Step()


def test_a_pod_is_restricted_to_its_node() -> None:
    made = placing.build_pod(daemon_set(), "hash", "a")
    assert placing.node_of(made) == "a"
    assert made.metadata.labels[REVISION_HASH] == "hash"
    assert placing.node_of(pod(nodeName="b")) == "b"
