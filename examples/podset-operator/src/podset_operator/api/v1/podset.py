"""The API: what a PodSet is, in version v1."""

from typing import Annotated

from kubewright import Condition, CustomResource, Model, PrintColumn, field
from kubewright import markers as m
from kubewright.apis.meta.v1 import Int32, Int64
from kubewright.models import Scale


class PodSetSpec(Model):
    """What a PodSet should be."""

    replicas: Annotated[Int32, m.Minimum(0)] = 1
    """How many Pods there should be."""


class PodSetStatus(Model):
    """What a PodSet is."""

    observed_generation: Annotated[Int64, m.Minimum(0)] = 0
    """The generation of the spec that the rest of the status is about."""
    replicas: Annotated[Int32, m.Minimum(0)] = 0
    """How many Pods there are, in phase Pending or Running and not being deleted."""
    ready_replicas: Annotated[Int32, m.Minimum(0)] = 0
    """How many of them are ready."""
    pod_names: Annotated[list[str], m.ListType("set")] = []
    """The names of these Pods, in alphabetical order."""
    reserved_pod_names: Annotated[list[str], m.ListType("set")] = []
    """Names of Pods of which it is not known yet whether they exist. Each Pod's name is put down here before the Pod is
    created, so that whoever goes on after a crash or a lost answer creates that Pod, and none beside it."""
    selector: str = ""
    """The labels of the Pods, for autoscalers."""
    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = []
    """Ready says whether there are as many Pods as wanted and all are ready, and if not, why."""


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
            message="the name is longer than 63 characters, which is all that a label of its Pods can hold",
        )
    ],
):
    """PodSet is the Schema for the podsets API."""

    spec: PodSetSpec
    status: PodSetStatus = field(default_factory=PodSetStatus)
