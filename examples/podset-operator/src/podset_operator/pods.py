"""The Pods of a PodSet: their template, which of them count, and the order of deletion."""

from collections.abc import Iterable
from datetime import UTC, datetime

from kubewright import ObjectMeta
from kubewright.apis.core.v1 import Container, Pod, PodSpec

from podset_operator.api.v1.podset import PodSet


def labels_for(podset: PodSet) -> dict[str, str]:
    return {"app": podset.metadata.name, "version": "v0.1"}


def name_prefix(podset: PodSet) -> str:
    return f"{podset.metadata.name}-pod-"


def pod_for(podset: PodSet, name: str) -> Pod:
    container = Container(name="busybox", image="busybox", command=["sleep", "3600"])
    return Pod(
        metadata=ObjectMeta(
            generate_name=name_prefix(podset),
            name=name,
            namespace=podset.metadata.namespace,
            labels=labels_for(podset),
        ),
        spec=PodSpec(containers=[container]),
    )


def is_live(pod: Pod) -> bool:
    """Return whether the Pod counts: it has not ended and is not being deleted."""
    return pod.metadata.deletion_timestamp is None and pod.status.phase in ("Pending", "Running")


def ready_since(pod: Pod) -> datetime | None:
    """Return when the Pod became ready; None if it is not ready."""
    for condition in pod.status.conditions:
        if condition.type == "Ready" and condition.status == "True":
            return condition.last_transition_time or pod.metadata.creation_timestamp
    return None


def in_order_of_deletion(pods: Iterable[Pod]) -> list[Pod]:
    """Sort Pods: unscheduled ones come first, then those not running, those not ready, and the youngest."""

    def rank(pod: Pod) -> tuple[bool, bool, bool, float, float, str]:
        ready = ready_since(pod)
        return (
            bool(pod.spec.node_name),
            pod.status.phase == "Running",
            ready is not None,
            -_seconds(ready),
            -_seconds(pod.metadata.creation_timestamp),
            pod.metadata.name,
        )

    return sorted(pods, key=rank)


def _seconds(time: datetime | None) -> float:
    return (time or datetime.max.replace(tzinfo=UTC)).timestamp()
