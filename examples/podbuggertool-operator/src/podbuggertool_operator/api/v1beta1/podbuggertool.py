"""The API of Podbuggertool, version v1beta1."""

from typing import Annotated, Final, Literal

from kubewright import Condition, CustomResource, Model, PrintColumn, field
from kubewright import markers as m
from kubewright.apis.meta.v1 import Int32, Int64

LISTED: Final = 100
"""Maximum length of the lists in the status. An object must fit into etcd, whatever the number of Pods."""
EARLIER: Final = 10
"""Maximum number of previous specs in the status."""

DOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
NAME: Final = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
LABEL: Final = rf"^({DOMAIN}/)?{NAME}=({NAME})?$"
IMAGE: Final = r"^([^ /@]+/)*[a-z0-9]+([._-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?(@[^ /@]+)?$"

Reason = Literal["Adding", "NotReady", "TimedOut", "NameTaken", "Refused"]


class PodbuggertoolSpec(Model):
    """The tool, and the Pods that get it."""

    label: Annotated[
        str,
        m.MaxLength(381),
        m.XValidation(f"self.matches('{LABEL}')", message="must be one label as key=value, such as app=payment"),
    ]
    """A label as `key=value`, such as `app=payment`. The Pods of this namespace that have it get the tool"""
    image: Annotated[
        str,
        m.MaxLength(500),
        m.XValidation(
            f"self.matches('{IMAGE}')", message="must be an image, such as busybox or registry.example.com/tool:1.2"
        ),
    ]
    """The image of the tool, such as `busybox`. If it changes, Pods keep the old container as well: ephemeral containers
    cannot be changed or removed"""


class PendingPod(Model):
    """A matching Pod without the tool."""

    name: str
    reason: Reason
    """`Adding`: the Pod gets the tool next. `NotReady`: the operator waits until the Pod is Ready. `TimedOut`: the Pod
    was not Ready in time, and still gets the tool if it becomes Ready. `NameTaken`: another container has the name.
    `Refused`: the API server rejected the change"""
    message: str


class PodbuggertoolStatus(Model):
    """The observed state of a Podbuggertool."""

    observed_generation: Int64 = 0
    """The generation of the spec that this status describes"""
    installed: bool = False
    """Whether there are matching Pods and all of them have the tool"""
    container: str = ""
    """Name of the tool's container: `kubectl exec -it <pod> -c <container> -- sh`"""
    installed_pods: Int32 = 0
    """The number of matching Pods with the tool"""
    pending_pods: Int32 = 0
    """The number of matching Pods without the tool"""
    pods: Annotated[list[str], m.ListType("atomic"), m.MaxItems(LISTED)] = []
    """The Pods with the tool; the first hundred by name"""
    pending: Annotated[list[PendingPod], m.ListType("map"), m.ListMapKey("name"), m.MaxItems(LISTED)] = []
    """The Pods without the tool, and why; the hundred with the most serious reasons"""
    spec: PodbuggertoolSpec | None = None
    """The current spec, recorded before the first Pod is changed"""
    earlier: Annotated[list[PodbuggertoolSpec], m.ListType("atomic"), m.MaxItems(EARLIER)] = []
    """The last ten previous specs. Their containers stay as long as their Pods"""
    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = []
    """`Installed` reports whether every matching Pod has the tool, and if not, why"""


class Podbuggertool(
    CustomResource,
    group="ualter.com",
    version="v1beta1",
    short_names=["pbt"],
    columns=[
        PrintColumn("Label", ".spec.label"),
        PrintColumn("Image", ".spec.image"),
        PrintColumn("Installed", ".status.installed", type="boolean"),
        PrintColumn("Pods", ".status.installedPods", type="integer"),
        PrintColumn("Pending", ".status.pendingPods", type="integer"),
        PrintColumn("Reason", '.status.conditions[?(@.type=="Installed")].reason', priority=1),
        PrintColumn("Age", ".metadata.creationTimestamp", type="date"),
    ],
):
    """Podbuggertool adds a tool to the Pods that have a label, as an ephemeral container of each."""

    spec: PodbuggertoolSpec
    status: PodbuggertoolStatus = field(default_factory=PodbuggertoolStatus)
