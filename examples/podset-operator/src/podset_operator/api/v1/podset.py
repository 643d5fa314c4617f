"""The API of PodSet, version v1."""

from typing import Annotated

from kubewright import Condition, CustomResource, Model, PrintColumn, field
from kubewright import markers as m
from kubewright.apis.meta.v1 import Int32, Int64
from kubewright.models import Scale


class PodSetSpec(Model):
    """The desired state of a PodSet."""

    replicas: Annotated[Int32, m.Minimum(0)] = 1
    """The desired number of Pods."""


class PodSetStatus(Model):
    """The observed state of a PodSet."""

    observed_generation: Annotated[Int64, m.Minimum(0)] = 0
    """The generation of the spec that this status describes."""
    replicas: Annotated[Int32, m.Minimum(0)] = 0
    """The number of Pods in phase Pending or Running that are not being deleted."""
    ready_replicas: Annotated[Int32, m.Minimum(0)] = 0
    """The number of these Pods that are ready."""
    pod_names: Annotated[list[str], m.ListType("set")] = []
    """The names of these Pods, in alphabetical order."""
    reserved_pod_names: Annotated[list[str], m.ListType("set")] = []
    """Names of Pods that may or may not exist yet. The operator writes the name of each Pod here before it creates the
    Pod. After a crash or a lost response, it creates the Pods with these names and no others."""
    selector: str = ""
    """The labels of the Pods, for autoscalers."""
    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = []
    """Ready reports whether the desired number of Pods exists and all are ready, and if not, why."""


class PodSet(
    CustomResource,
    group="batch.tutorial.kubebuilder.io",
    version="v1",
    scale=Scale(replicas=".spec.replicas", status_replicas=".status.replicas", selector=".status.selector"),
    columns=[
        PrintColumn("Desired", ".spec.replicas", type="integer"),
        PrintColumn("Current", ".status.replicas", type="integer"),
        PrintColumn("Ready", ".status.readyReplicas", type="integer"),
        PrintColumn("Reason", '.status.conditions[?(@.type=="Ready")].reason', priority=1),
        PrintColumn("Age", ".metadata.creationTimestamp", type="date"),
    ],
    markers=[
        m.XValidation(
            "self.metadata.name.size() <= 63",
            message="the name of a PodSet is a label value of its Pods: use at most 63 characters",
        )
    ],
):
    """PodSet is the Schema for the podsets API."""

    spec: PodSetSpec
    status: PodSetStatus = field(default_factory=PodSetStatus)
