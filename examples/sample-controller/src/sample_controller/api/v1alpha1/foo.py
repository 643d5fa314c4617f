"""The API of the controller: what a Foo is."""

from typing import Annotated

from kubewright import Condition, CustomResource, Model, PrintColumn, field
from kubewright import markers as m
from kubewright.apis.meta.v1 import Int32


class FooSpec(Model):
    """What is asked for."""

    deployment_name: Annotated[
        str,
        m.MinLength(1),
        m.MaxLength(253),
        m.Pattern(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"),
    ]
    """Name of the Deployment. When it changes, there is a new one, and the one of the old name goes."""
    replicas: Annotated[Int32 | None, m.Minimum(1), m.Maximum(10)] = None
    """How many Pods the Deployment is to have. Left out, it is nobody's business here: an autoscaler may set it."""


class FooStatus(Model):
    """What there is."""

    available_replicas: Int32 = 0
    """How many Pods of the Deployment are available"""
    observed_generation: int | None = None
    """The generation of the spec that the rest of the status is about"""
    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = []
    """`Synced` says whether the Deployment is as the spec says, and why not"""


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
        m.XValidation("self.metadata.name.size() <= 63", message="the name of a Foo is a label of its Pods: 63 at most")
    ],
    annotations={"api-approved.kubernetes.io": "unapproved, an example; *.k8s.io is a group of Kubernetes' own"},
):
    """Foo is a specification for a Foo resource"""

    spec: FooSpec
    status: FooStatus = field(default_factory=FooStatus)
