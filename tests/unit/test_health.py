"""The health of objects, as `kubectl rollout status` and the conditions of their kind judge it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kubewright import ObjectMeta
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.apis.apps.v1 import DaemonSet, Deployment, StatefulSet
from kubewright.apis.batch.v1 import Job
from kubewright.apis.core.v1 import ConfigMap, Namespace, PersistentVolumeClaim, Pod, Service
from kubewright.client import Unstructured, document_of
from kubewright.health import (
    HealthState,
    health_by_condition,
    health_of,
    is_stuck,
    ready_condition,
    reason_not_reconciled,
)
from kubewright.machinery.json import JSONObject
from kubewright.models import APIResource, Object, codec

READY, PROGRESSING, STALLED, FAILED = HealthState

TEMPLATE: JSONObject = {"spec": {"containers": []}}


def health(kind: type[Object], spec: JSONObject, status: JSONObject, generation: int = 2) -> tuple[HealthState, str]:
    """Return the health of an object with this spec and status."""
    if kind in (Deployment, StatefulSet, DaemonSet, Job):
        spec = {"selector": {}, "template": TEMPLATE, "serviceName": "s", **spec}
    metadata = {"name": "it", "generation": generation}
    found = health_of(codec.from_dict(kind, {"metadata": metadata, "spec": spec, "status": status}))
    return found.state, found.message


def condition(type: str, status: str = "True", **more: Any) -> JSONObject:
    return {"type": type, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z", **more}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"observedGeneration": 1, "updatedReplicas": 3, "replicas": 3, "availableReplicas": 3}, PROGRESSING),
        ({"observedGeneration": 2, "updatedReplicas": 2, "replicas": 3, "availableReplicas": 3}, PROGRESSING),
        ({"observedGeneration": 2, "updatedReplicas": 3, "replicas": 4, "availableReplicas": 3}, PROGRESSING),
        ({"observedGeneration": 2, "updatedReplicas": 3, "replicas": 3, "availableReplicas": 2}, PROGRESSING),
        ({"observedGeneration": 2, "updatedReplicas": 3, "replicas": 3, "availableReplicas": 3}, READY),
        (
            {
                "observedGeneration": 2,
                "conditions": [
                    condition("Progressing", "False", reason="ProgressDeadlineExceeded", message="too slow")
                ],
            },
            STALLED,
        ),
    ],
)
def test_a_deployment_is_judged_as_by_rollout_status(status: JSONObject, expected: HealthState) -> None:
    assert health(Deployment, {"replicas": 3}, status)[0] == expected


def test_a_deployment_says_what_is_missing() -> None:
    status = {"observedGeneration": 2, "updatedReplicas": 3, "replicas": 3, "availableReplicas": 2}
    assert health(Deployment, {"replicas": 3}, status)[1] == "2 of 3 replicas are available"
    assert health(Deployment, {"replicas": 0}, {"observedGeneration": 2})[0] is READY


def test_a_stateful_set_waits_for_its_revision_or_its_partition() -> None:
    ready = {"observedGeneration": 2, "readyReplicas": 3, "currentRevision": "a", "updateRevision": "b"}
    assert health(StatefulSet, {"replicas": 3}, {})[0] is PROGRESSING
    assert health(StatefulSet, {"replicas": 3}, {**ready, "readyReplicas": 2})[1] == "2 of 3 replicas are ready"
    assert health(StatefulSet, {"replicas": 3}, {**ready, "updatedReplicas": 1})[1] == "1 of 3 replicas are updated"
    assert health(StatefulSet, {"replicas": 3}, {**ready, "currentRevision": "b"})[0] is READY
    rolling = {"replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}
    assert health(StatefulSet, rolling, {**ready, "updatedReplicas": 0})[0] is PROGRESSING
    assert health(StatefulSet, rolling, {**ready, "updatedReplicas": 1})[0] is READY
    assert health(StatefulSet, {"replicas": 3, "updateStrategy": {"type": "OnDelete"}}, ready)[0] is READY


def test_a_daemon_set_waits_for_all_its_nodes() -> None:
    status = {"observedGeneration": 2, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 1}
    assert health(DaemonSet, {}, status) == (PROGRESSING, "1 of 2 Pods are available")
    assert health(DaemonSet, {}, {**status, "updatedNumberScheduled": 1})[1] == "1 of 2 Pods are updated"
    assert health(DaemonSet, {}, {**status, "numberAvailable": 2})[0] is READY


def test_jobs_and_pods_can_fail_for_good() -> None:
    assert health(Job, {"completions": 2}, {"succeeded": 1}) == (PROGRESSING, "1 of 2 completions")
    assert health(Job, {}, {"conditions": [condition("Complete")]})[0] is READY
    failure = condition("Failed", reason="BackoffLimitExceeded", message="it crashed")
    assert health(Job, {}, {"conditions": [failure]}) == (FAILED, "BackoffLimitExceeded: it crashed")
    assert health(Pod, {"containers": []}, {"phase": "Failed", "reason": "Evicted"}) == (FAILED, "Evicted")
    assert health(Pod, {"containers": []}, {"phase": "Succeeded"})[0] is READY
    assert health(Pod, {"containers": []}, {"phase": "Running", "conditions": [condition("Ready")]})[0] is READY
    crashing: JSONObject = {
        "name": "main",
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "image": "",
        "imageID": "",
    }
    crashing |= {"ready": False, "restartCount": 3}
    found = health(Pod, {"containers": []}, {"phase": "Running", "containerStatuses": [crashing]})
    assert found == (STALLED, "container main: CrashLoopBackOff")


def test_an_item_of_a_list_is_judged_by_its_kind() -> None:
    document: JSONObject = {"metadata": {"name": "web"}, "spec": {"containers": []}, "status": {"phase": "Failed"}}
    pod = codec.from_dict(Pod, document)  # items of lists have neither apiVersion nor kind
    assert health_of(pod).state is HealthState.FAILED
    assert (document_of(pod)["apiVersion"], document_of(pod)["kind"]) == ("v1", "Pod")


def test_other_built_in_kinds_are_judged_by_their_status() -> None:
    assert health(ConfigMap, {}, {})[0] is READY
    assert health(Namespace, {}, {"phase": "Active"})[0] is READY
    assert health(PersistentVolumeClaim, {}, {"phase": "Pending"})[0] is PROGRESSING
    assert health(PersistentVolumeClaim, {}, {"phase": "Lost"})[0] is FAILED
    assert health(Service, {"clusterIP": "10.0.0.1"}, {})[0] is READY
    balanced = {"clusterIP": "10.0.0.1", "type": "LoadBalancer"}
    assert health(Service, balanced, {})[0] is PROGRESSING
    assert health(Service, balanced, {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}})[0] is READY
    names: JSONObject = {
        "group": "g.example.com",
        "names": {"plural": "as", "kind": "A"},
        "scope": "Namespaced",
        "versions": [],
    }
    assert health(CustomResourceDefinition, names, {"conditions": [condition("Established")]})[0] is READY
    assert health(CustomResourceDefinition, names, {})[0] is PROGRESSING


def test_any_other_kind_is_judged_by_its_conditions() -> None:
    kind = Unstructured.of(APIResource(group="example.com", version="v1", kind="Thing", plural="things"))

    def state(**status: Any) -> HealthState:
        thing = kind(metadata=ObjectMeta(name="it", generation=2))
        thing["status"] = status
        return health_of(thing).state

    assert state() is READY
    assert state(observedGeneration=1) is PROGRESSING
    assert state(conditions=[condition("Ready")]) is READY
    assert state(conditions=[condition("Ready", observedGeneration=1)]) is PROGRESSING
    assert state(conditions=[condition("Ready", "False"), condition("Available")]) is PROGRESSING
    assert state(conditions=[condition("Available")]) is READY
    assert state(conditions=[condition("Ready"), condition("Reconciling")]) is PROGRESSING
    assert state(conditions=[condition("Ready"), condition("Stalled")]) is STALLED
    assert state(conditions=[condition("Degraded", "False"), condition("Interesting", "False")]) is READY
    assert state(conditions="broken") is READY


def test_an_object_that_is_being_deleted_is_not_ready() -> None:
    document = {"metadata": {"name": "it", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert health_of(codec.from_dict(ConfigMap, document)).state is PROGRESSING
    held = widget(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["a.example.com/f"])
    assert health_of(held).message == "it is being deleted; finalizers: a.example.com/f"


WIDGET = Unstructured.of(APIResource("example.com", "v1", "Widget", "widgets"))


def widget(status: object = None, **metadata: Any) -> Unstructured:
    """Return an object of a kind without a rule of its own."""
    made = WIDGET(
        metadata=codec.from_dict(ConfigMap, {"metadata": {"name": "w", "generation": 2, **metadata}}).metadata
    )
    if status is not None:
        made["status"] = status
    return made


def one(type: str, status: str, **more: Any) -> JSONObject:
    return {"conditions": [{"type": type, "status": status, **more}]}


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({"observedGeneration": 1}, "generation 2 is not reconciled yet; the status is of generation 1"),
        (one("Ready", "False", reason="NoNode", message="none fits"), "Ready is False (NoNode: none fits)"),
        (one("Available", "Unknown"), "Available is Unknown"),
        (one("Degraded", "True", reason="Disk"), "Degraded is True (Disk)"),
        (one("Reconciling", "True"), "Reconciling is True"),
        (one("Ready", "True", observedGeneration=1), "Ready is of generation 1, the object has generation 2"),
    ],
)
def test_the_message_quotes_the_condition(status: object, why: str) -> None:
    assert health_of(widget(status)).message == why


def test_one_condition_can_be_judged_alone() -> None:
    document = document_of(widget(one("Synced", "False", reason="Late")))
    assert ready_condition(document) == "Synced"
    assert health_by_condition(document, "Synced").message == "Synced is False (Late)"
    assert health_by_condition(document, "Ready").message == "the status has no condition Ready"


@pytest.mark.parametrize(
    ("status", "declared", "field"),
    [
        (None, ("observedGeneration", "conditions"), "observedGeneration"),
        (one("Ready", "True"), ("observedGeneration",), "observedGeneration"),
        ({"conditions": []}, ("conditions",), "conditions"),
        ({"observedGeneration": 2}, ("observedGeneration", "conditions"), None),
        (one("Ready", "True"), ("conditions",), None),
        (None, (), None),
    ],
)
def test_an_object_without_a_status_is_not_reconciled(
    status: object, declared: tuple[str, ...], field: str | None
) -> None:
    reason = "" if field is None else f"not reconciled yet: status.{field} is not set"
    assert reason_not_reconciled(widget(status), declared) == reason


@pytest.mark.parametrize(
    ("found", "stuck"),
    [
        (widget(one("Ready", "False", lastTransitionTime="2026-01-01T11:58:59Z")), True),
        (widget(one("Ready", "False", lastTransitionTime="2026-01-01T11:59:30Z")), False),
        (widget(one("Ready", "False", lastTransitionTime="yesterday")), False),
        (widget(one("Ready", "False")), False),
        (widget(one("Ready", "True", lastTransitionTime="2026-01-01T11:00:00Z")), False),
        (widget(one("Ready", "Unknown", lastTransitionTime="2026-01-01T11:00:00Z")), False),
        (widget(deletionTimestamp="2026-01-01T11:58:59Z", finalizers=["example.com/f"]), True),
        (widget(deletionTimestamp="2026-01-01T11:59:30Z", finalizers=["example.com/f"]), False),
        (widget(deletionTimestamp="2026-01-01T11:00:00Z"), False),
    ],
)
def test_an_object_is_stuck_after_a_minute_without_success(found: Unstructured, stuck: bool) -> None:
    assert is_stuck(found, datetime(2026, 1, 1, 12, tzinfo=UTC)) is stuck
