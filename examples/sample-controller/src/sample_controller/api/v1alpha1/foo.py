"""The API of the controller: the kind Foo."""

from typing import Annotated

from kubewright import Condition, CustomResource, Model, PrintColumn, field
from kubewright import markers as m
from kubewright.apis.meta.v1 import Int32


class FooSpec(Model):
    """The desired state of a Foo."""

    deployment_name: Annotated[
        str,
        m.MinLength(1),
        m.MaxLength(253),
        m.Pattern(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"),
    ]
    """Name of the Deployment. If it changes, a new Deployment is created and the old one is deleted."""
    replicas: Annotated[Int32 | None, m.Minimum(1), m.Maximum(10)] = None
    """The number of Pods of the Deployment. If not set, the controller does not manage it, so an autoscaler can."""


class FooStatus(Model):
    """The observed state of a Foo."""

    available_replicas: Int32 = 0
    """The number of available Pods of the Deployment"""
    observed_generation: int | None = None
    """The generation of the spec that this status describes"""
    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = []
    """`Synced` reports whether the Deployment matches the spec, and if not, why"""


class Foo(
    CustomResource,
    group="samplecontroller.k8s.io",
    version="v1alpha1",
    columns=[
        PrintColumn("Deployment", ".spec.deploymentName"),
        PrintColumn("Replicas", ".spec.replicas", type="integer"),
        PrintColumn("Available", ".status.availableReplicas", type="integer"),
        PrintColumn("Synced", '.status.conditions[?(@.type=="Synced")].status'),
        PrintColumn("Age", ".metadata.creationTimestamp", type="date"),
    ],
    markers=[
        m.XValidation(
            "self.metadata.name.size() <= 63",
            message="the name of a Foo is a label value of its Pods: use at most 63 characters",
        )
    ],
    annotations={"api-approved.kubernetes.io": "unapproved, an example; *.k8s.io groups belong to Kubernetes"},
):
    """Foo is a specification for a Foo resource"""

    spec: FooSpec
    status: FooStatus = field(default_factory=FooStatus)
