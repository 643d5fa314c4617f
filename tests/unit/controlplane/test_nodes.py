"""The nodes that the scheduler accepts for a Pod, and the status of simulated Pods."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest

from kubewright.apis.core.v1 import Node, Pod, PodStatus, ResourceRequirements
from kubewright.controllers import Request
from kubewright_controlplane.common.network import PodAddresses
from kubewright_controlplane.common.podresources import requests_of
from kubewright_controlplane.kubelet.simulated import ANNOTATION, Outcome, outcome_of
from kubewright_controlplane.kubelet.status import status_of
from kubewright_controlplane.scheduler.cluster import NodeInfo, Placement
from kubewright_controlplane.scheduler.filters import Filter, View
from kubewright_controlplane.scheduler.podinfo import PodInfo
from kubewright_controlplane.scheduler.volumes import VolumeCheck

from .objects import NOW, node, pod


def refusal(asking: Pod, offered: Node) -> str | None:
    """Return why the Pod cannot run on the node."""
    info = NodeInfo(offered.metadata.name)
    info.node, info.allocatable = offered, {"pods": 10}
    found = Filter(asking, PodInfo.of(asking), View([info], [], [], {}), VolumeCheck(cast("Any", None))).refusal(info)
    return found.reasons[0] if found is not None else None


def wants(**term: Any) -> Pod:
    required = {"nodeSelectorTerms": [term]}
    return pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})


def test_a_node_selector_has_to_match_as_a_whole() -> None:
    asking = pod(nodeSelector={"disk": "ssd", "zone": "a"})
    assert refusal(asking, node(labels={"disk": "ssd"})) == "node(s) didn't match Pod's node affinity/selector"
    assert refusal(asking, node(labels={"disk": "ssd", "zone": "a"})) is None


@pytest.mark.parametrize(
    ("operator", "values", "matches"),
    [
        ("In", ["4", "8"], True),
        ("In", ["2"], False),
        ("NotIn", ["2"], True),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
        ("Gt", ["3"], True),
        ("Lt", ["3"], False),
        ("Gt", ["many"], False),
    ],
)
def test_required_affinity_is_respected(operator: str, values: list[str], matches: bool) -> None:
    asking = wants(matchExpressions=[{"key": "cores", "operator": operator, "values": values}])
    assert (refusal(asking, node(labels={"cores": "4"})) is None) is matches


def test_affinity_can_name_the_node() -> None:
    asking = wants(matchFields=[{"key": "metadata.name", "operator": "In", "values": ["n"]}])
    assert refusal(asking, node("n")) is None
    assert refusal(asking, node("m")) is not None


def test_a_taint_excludes_pods_without_a_toleration() -> None:
    tainted = node(taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    assert refusal(pod(), tainted) == "node(s) had untolerated taint(s)"
    assert refusal(pod(tolerations=[{"key": "k", "operator": "Equal", "value": "v"}]), tainted) is None
    assert refusal(pod(tolerations=[{"key": "k", "value": "other"}]), tainted) is not None
    assert refusal(pod(tolerations=[{"operator": "Exists"}]), tainted) is None
    soft = node(taints=[{"key": "k", "effect": "PreferNoSchedule"}])
    assert refusal(pod(), soft) is None


def test_a_cordoned_node_accepts_no_pods() -> None:
    assert refusal(pod(), node(unschedulable=True)) == "node(s) were unschedulable"


def test_pods_are_counted_on_their_nodes() -> None:
    placement = Placement()
    for each in (pod("a", nodeName="n"), pod("b", nodeName="n"), pod("c")):
        placement.see(each)
    n, m = placement.node("n"), placement.node("m")
    assert (len(n.pods), len(m.pods)) == (2, 0)
    assert placement.see(pod("a", nodeName="n", status={"phase": "Succeeded"}))
    assert len(n.pods) == 1
    waiting = PodInfo.of(pod("c", nodeName="m"))
    placement.assume(waiting)
    placement.see(pod("c"))  # an event from before the binding
    assert len(m.pods) == 1
    assert placement.forget(waiting.key)
    assert not m.pods


def test_init_containers_raise_the_requests_of_a_pod() -> None:
    def container(cpu: str, **more: Any) -> dict[str, Any]:
        return {"name": f"c{cpu}", "image": "i", "resources": {"requests": {"cpu": cpu}}, **more}

    inits = [container("100m", restartPolicy="Always"), container("2"), container("300m")]
    asking = pod(containers=[container("1"), container("500m")], initContainers=inits, overhead={"cpu": "10m"})
    assert requests_of(asking) == {"cpu": 2110}


def test_a_pod_keeps_its_address_until_it_is_deleted() -> None:
    addresses = PodAddresses()
    addresses.seed([pod("a", status={"phase": "Running", "podIP": "10.244.0.1"})])
    kept, fresh = Request("d", "a"), Request("d", "b")
    assert addresses.of(kept, "10.244.0.1") == "10.244.0.1"
    first = addresses.of(fresh, None)
    assert first != "10.244.0.1"
    assert addresses.of(fresh, None) == first
    addresses.release(fresh)
    assert addresses.of(Request("d", "c"), None) not in ("10.244.0.1", first)


def test_pods_on_the_host_network_use_no_pod_address() -> None:
    addresses = PodAddresses()
    addresses.seed([pod("host", hostNetwork=True, status={"phase": "Running", "podIP": "10.0.0.1"})])
    assert addresses.of(Request("d", "host"), None).startswith("10.244.")


def test_pods_of_a_job_succeed_and_others_run() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
    assert outcome_of(pod(meta={"ownerReferences": [owner]})) is Outcome.SUCCEEDED
    assert outcome_of(pod()) is Outcome.RUNNING


@pytest.mark.parametrize("requested", list(Outcome))
def test_the_annotation_decides_the_outcome_of_a_pod(requested: Outcome) -> None:
    assert outcome_of(pod(meta={"annotations": {ANNOTATION: requested.value}})) is requested


def test_a_finished_pod_stays_finished() -> None:
    over = pod(meta={"annotations": {ANNOTATION: "Running"}}, status={"phase": "Failed"})
    assert outcome_of(over) is Outcome.FAILED


def report(found: Pod, outcome: Outcome = Outcome.RUNNING) -> PodStatus:
    return status_of(found, outcome, "10.0.0.1", "10.244.0.1", NOW)


def ready(status: PodStatus) -> tuple[str, str | None]:
    return next((each.status, each.reason) for each in status.conditions if each.type == "Ready")


@pytest.mark.parametrize(
    ("outcome", "phase", "readiness", "address"),
    [
        (Outcome.PENDING, "Pending", ("False", "ContainersNotReady"), None),
        (Outcome.NOT_READY, "Running", ("False", "ContainersNotReady"), "10.244.0.1"),
        (Outcome.RUNNING, "Running", ("True", None), "10.244.0.1"),
        (Outcome.SUCCEEDED, "Succeeded", ("False", "PodCompleted"), "10.244.0.1"),
        (Outcome.FAILED, "Failed", ("False", "PodFailed"), "10.244.0.1"),
    ],
)
def test_the_status_reports_the_outcome(
    outcome: Outcome, phase: str, readiness: tuple[str, str | None], address: str | None
) -> None:
    status = report(pod(), outcome)
    assert (status.phase, ready(status), status.pod_ip) == (phase, readiness, address)


def test_a_failed_container_has_an_exit_code() -> None:
    [container] = report(pod(), Outcome.FAILED).container_statuses
    assert container.state is not None
    assert container.state.terminated is not None
    assert container.state.terminated.exit_code == 1


def test_a_readiness_gate_keeps_a_pod_unready() -> None:
    gated = pod(readinessGates=[{"conditionType": "example.com/gate"}])
    assert ready(report(gated)) == ("False", "ReadinessGatesNotReady")
    gated.status.conditions = pod(
        status={"conditions": [{"type": "example.com/gate", "status": "True"}]}
    ).status.conditions
    assert ready(report(gated)) == ("True", None)


def test_init_containers_have_ended_but_sidecars_run() -> None:
    inits = [{"name": "once", "image": "i"}, {"name": "beside", "image": "i", "restartPolicy": "Always"}]
    once, beside = report(pod(initContainers=inits)).init_container_statuses
    assert once.state is not None
    assert once.state.terminated is not None
    assert beside.state is not None
    assert beside.state.running is not None
    assert (once.ready, beside.ready) == (True, True)


def test_a_second_report_of_the_same_status_changes_nothing() -> None:
    found = pod()
    found.status = report(found)
    assert status_of(found, Outcome.RUNNING, "10.0.0.1", "10.244.0.1", NOW + timedelta(hours=1)) == found.status


@pytest.mark.parametrize(("policy", "restarts"), [("NotRequired", 0), ("RestartContainer", 1)])
def test_a_resized_container_reports_its_resources(policy: str, restarts: int) -> None:
    resizes = [{"resourceName": "memory", "restartPolicy": policy}]
    found = pod(containers=[{"name": "c", "image": "i", "resizePolicy": resizes}])
    for memory in ("8Mi", "16Mi"):
        found.spec.containers[0].resources = ResourceRequirements(requests={"memory": memory})
        found.status = report(found)
    [status] = found.status.container_statuses
    assert status.resources == found.spec.containers[0].resources
    assert (status.allocated_resources, status.restart_count) == ({"memory": "16Mi"}, restarts)
    assert report(found) == found.status


def test_a_container_whose_image_changed_was_restarted() -> None:
    found = pod()
    found.status = report(found)
    found.spec.containers[0].image = "nginx:2"
    [container] = report(found).container_statuses
    assert (container.image, container.restart_count) == ("nginx:2", 1)
