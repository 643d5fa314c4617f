"""The state of a Pod, and the order in which Pods are deleted."""

from __future__ import annotations

from datetime import timedelta

from kubewright_controlplane.common import pods

from .objects import NOW, ago, pod


def order(*found: object) -> list[str]:
    return [each.metadata.name for each in pods.in_order_of_deletion(found, NOW)]  # type: ignore[arg-type]


def test_a_pod_without_a_node_is_deleted_before_a_pending_one() -> None:
    assert order(pod("placed", nodeName="n"), pod("unplaced")) == ["unplaced", "placed"]


def test_an_unready_pod_is_deleted_before_a_ready_one() -> None:
    running = pod("running", nodeName="n", status={"phase": "Running"})
    assert order(pod("ready", ready=9, nodeName="n"), running) == ["running", "ready"]


def test_the_cost_of_deletion_decides_between_ready_pods() -> None:
    dear = pod("dear", ready=1, nodeName="n", meta={"annotations": {pods.DELETION_COST: "10"}})
    cheap = pod("cheap", ready=9, nodeName="n", meta={"annotations": {pods.DELETION_COST: "-10"}})
    odd = pod("odd", ready=9, nodeName="n", meta={"annotations": {pods.DELETION_COST: "much"}})
    assert order(dear, odd, cheap) == ["cheap", "odd", "dear"]


def test_pods_on_crowded_nodes_are_deleted_first() -> None:
    crowd = [pod(f"crowd-{number}", ready=50, nodeName="full") for number in range(2)]
    assert order(pod("alone", ready=1, nodeName="empty"), *crowd)[-1] == "alone"


def test_the_pod_that_became_ready_last_is_deleted_first() -> None:
    assert order(pod("old", ready=90, nodeName="a"), pod("new", ready=9, nodeName="b")) == ["new", "old"]


def test_the_pod_with_more_restarts_is_deleted_first() -> None:
    steady, shaky = pod("steady", nodeName="a"), pod("shaky", nodeName="b")
    for each, count in ((steady, 0), (shaky, 3)):
        status = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": count}
        each.status = pod(status={"phase": "Pending", "containerStatuses": [status]}).status
    assert order(steady, shaky) == ["shaky", "steady"]


def test_a_pod_is_available_after_it_was_ready_long_enough() -> None:
    found = pod(ready=5)
    assert pods.is_available(found, 5, NOW)
    assert not pods.is_available(found, 6, NOW)
    assert pods.available_at(found, 6) == NOW + timedelta(seconds=1)
    assert not pods.is_available(pod(), 0, NOW)


def test_finished_and_deleted_pods_are_not_active() -> None:
    assert pods.is_active(pod())
    assert not pods.is_active(pod(status={"phase": "Failed"}))
    assert not pods.is_active(pod(deleting=True))
    assert pods.is_terminating(pod(deleting=True))
    assert not pods.is_terminating(pod(deleting=True, status={"phase": "Succeeded"}))


def test_the_newest_pod_is_deleted_first_if_all_else_is_equal() -> None:
    old = pod("old", meta={"creationTimestamp": ago(9)})
    new = pod("new", meta={"creationTimestamp": ago(1)})
    assert order(old, new) == ["new", "old"]
