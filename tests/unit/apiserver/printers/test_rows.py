"""The table rows of `kubectl get`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubewright.machinery.gvk import GroupVersionResource
from kubewright_controlplane.apiserver import catalog, printers
from kubewright_controlplane.apiserver.printers.ages import human_duration

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PODS = GroupVersionResource("", "v1", "pods")
LISTABLE = [
    facts.resource for gv in catalog.group_versions() for facts in catalog.resources(gv) if "list" in facts.verbs
]


def row(gvr: GroupVersionResource, obj: dict[str, Any]) -> dict[str, object]:
    printer = printers.printer(gvr)
    assert printer is not None
    metadata = {"name": "x", "creationTimestamp": "2025-12-31T23:59:00Z"} | obj.get("metadata", {})
    return dict(
        zip([each.name for each in printer.columns], printer.cells(obj | {"metadata": metadata}, NOW), strict=True)
    )


@pytest.mark.parametrize("gvr", LISTABLE, ids=str)
def test_an_empty_object_has_a_cell_for_each_column(gvr: GroupVersionResource) -> None:
    assert "x" in [str(cell) for cell in row(gvr, {}).values()]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (0, "0s"), (119, "119s"), (120, "2m"), (330, "5m30s"), (599, "9m59s"), (600, "10m"),
        (10799, "179m"), (10800, "3h"), (11400, "3h10m"), (28800, "8h"), (172799, "47h"), (172800, "2d"),
        (183600, "2d3h"), (691200, "8d"), (63072000, "2y"), (63936000, "2y10d"), (283824000, "9y"),
    ],
)  # fmt: skip
def test_ages_get_less_precise_with_time(seconds: int, text: str) -> None:
    assert human_duration(seconds) == text


def running(name: str = "c", *, ready: bool = True, restarts: int = 0) -> dict[str, Any]:
    return {"name": name, "ready": ready, "restartCount": restarts, "state": {"running": {}}}


def waiting(reason: str) -> dict[str, Any]:
    return {"name": "c", "state": {"waiting": {"reason": reason}}}


def terminated(**how: object) -> dict[str, Any]:
    return {"name": "c", "state": {"terminated": {"exitCode": 0, **how}}}


DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
SIDECAR = {"name": "s", "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("ready", "state", "status", "rest"),
    [
        ("0/1", "Pending", {"phase": "Pending"}, {}),
        ("1/1", "Running", {"phase": "Running", "containerStatuses": [running()]}, {}),
        ("0/1", "ImagePullBackOff", {"phase": "Pending", "containerStatuses": [waiting("ImagePullBackOff")]}, {}),
        ("0/1", "Completed", {"phase": "Succeeded", "containerStatuses": [terminated(reason="Completed")]}, {}),
        ("0/1", "ExitCode:3", {"phase": "Failed", "containerStatuses": [terminated(exitCode=3)]}, {}),
        ("0/1", "Signal:9", {"phase": "Failed", "containerStatuses": [terminated(exitCode=137, signal=9)]}, {}),
        ("0/1", "Evicted", {"phase": "Failed", "reason": "Evicted"}, {}),
        ("0/1", "Terminating", {"phase": "Running"}, {"metadata": DELETED}),
        ("0/1", "Unknown", {"phase": "Running", "reason": "NodeLost"}, {"metadata": DELETED}),
        (
            "0/1",
            "SchedulingGated",
            {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]},
            {},
        ),
        (
            "0/1",
            "Init:0/2",
            {"phase": "Pending", "initContainerStatuses": [running("i")]},
            {"init": [{"name": "i"}, {"name": "j"}]},
        ),
        (
            "0/1",
            "Init:Error",
            {"initContainerStatuses": [terminated(exitCode=1, reason="Error")]},
            {"init": [{"name": "c"}]},
        ),
        (
            "2/2",
            "Running",
            {
                "phase": "Running",
                "initContainerStatuses": [running("s") | {"started": True}],
                "containerStatuses": [running()],
            },
            {"init": [SIDECAR]},
        ),
    ],
)
def test_the_status_column_of_a_pod_is_one_word(
    ready: str, state: str, status: dict[str, Any], rest: dict[str, Any]
) -> None:
    spec = {"containers": [{"name": "c"}], "initContainers": rest.get("init", [])}
    shown = row(PODS, {"spec": spec, "status": status, "metadata": rest.get("metadata", {})})
    assert (shown["Ready"], shown["Status"]) == (ready, state)


def test_restarts_include_the_time_of_the_last_one() -> None:
    ended = (NOW - timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = running(restarts=3) | {"lastState": {"terminated": {"finishedAt": ended}}}
    shown = row(PODS, {"spec": {"containers": [{}]}, "status": {"phase": "Running", "containerStatuses": [status]}})
    assert shown["Restarts"] == "3 (5m ago)"


def test_a_service_shows_its_addresses() -> None:
    services = GroupVersionResource("", "v1", "services")
    spec = {
        "type": "NodePort",
        "clusterIPs": ["10.96.0.7"],
        "ports": [{"port": 80, "nodePort": 30010, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}],
        "selector": {"b": "2", "a": "1"},
    }
    shown = row(services, {"spec": spec})
    assert (shown["Cluster-IP"], shown["External-IP"]) == ("10.96.0.7", "<none>")
    assert (shown["Port(s)"], shown["Selector"]) == ("80:30010/TCP,53/UDP", "a=1,b=2")
    balanced = row(services, {"spec": spec | {"type": "LoadBalancer"}})
    assert balanced["External-IP"] == "<pending>"


def test_a_deployment_shows_ready_of_desired() -> None:
    template = {"spec": {"containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:2"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    status = {"readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2}
    shown = row(GroupVersionResource("apps", "v1", "deployments"), {"spec": spec, "status": status})
    assert list(shown.values()) == ["x", "2/3", 1, 2, "60s", "a,b", "x:1,y:2", "app=web"]


def test_a_node_shows_readiness_roles_and_schedulability() -> None:
    metadata = {"labels": {"node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "worker"}}
    status = {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.36.1"}}
    obj = {"metadata": metadata, "spec": {"unschedulable": True}, "status": status}
    shown = row(GroupVersionResource("", "v1", "nodes"), obj)
    assert (shown["Status"], shown["Roles"]) == ("Ready,SchedulingDisabled", "control-plane,worker")
    assert (shown["Version"], shown["Internal-IP"]) == ("v1.36.1", "<none>")
