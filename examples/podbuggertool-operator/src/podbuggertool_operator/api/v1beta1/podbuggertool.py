"""The API: what a Podbuggertool is, in version v1beta1."""

from typing import Annotated, Final, Literal

from kubewright import Condition, CustomResource, Model, PrintColumn, field
from kubewright import markers as m
from kubewright.apis.meta.v1 import Int32, Int64

LISTED: Final = 100
"""Pods that a list of the status names at most: an object has to fit into etcd, however many Pods there are."""
EARLIER: Final = 10

DOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
NAME: Final = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
LABEL: Final = rf"^({DOMAIN}/)?{NAME}=({NAME})?$"
IMAGE: Final = r"^([^ /@]+/)*[a-z0-9]+([._-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?(@[^ /@]+)?$"

Reason = Literal["Adding", "NotReady", "TimedOut", "NameTaken", "Refused"]


class PodbuggertoolSpec(Model):
    """Which tool goes into which Pods."""

    label: Annotated[
        str,
        m.MaxLength(381),
        m.XValidation(f"self.matches('{LABEL}')", message="must be one label, key=value, as app=payment"),
    ]
    """The Pods of this namespace that get the tool: those with this label, `key=value`, as `app=payment`"""
    image: Annotated[
        str,
        m.MaxLength(500),
        m.XValidation(
            f"self.matches('{IMAGE}')", message="must be an image, as busybox or registry.example.com/tool:1.2"
        ),
    ]
    """The image of the tool, as `busybox`. Pods that have it keep it when this changes: ephemeral containers cannot be
    changed or removed"""


class PendingPod(Model):
    """A Pod that matches and has not got the tool."""

    name: str
    reason: Reason
    """`Adding`: it is next. `NotReady`: it is waited for. `TimedOut`: it was waited for in vain, and gets the tool
    should it become Ready. `NameTaken`: another container has the name. `Refused`: the API server does not let it"""
    message: str


class PodbuggertoolStatus(Model):
    """Where the tool is."""

    observed_generation: Int64 = 0
    """The generation of the spec that the rest is about"""
    installed: bool = False
    """Every Pod that matches has the tool, and there is one"""
    container: str = ""
    """Name of the tool's container: `kubectl exec -it <pod> -c <container> -- sh`"""
    installed_pods: Int32 = 0
    """How many Pods that match have the tool"""
    pending_pods: Int32 = 0
    """How many Pods that match have not"""
    pods: Annotated[list[str], m.ListType("atomic"), m.MaxItems(LISTED)] = []
    """The Pods that have the tool; the first hundred by name"""
    pending: Annotated[list[PendingPod], m.ListType("map"), m.ListMapKey("name"), m.MaxItems(LISTED)] = []
    """The Pods that have not, and why; the hundred with the most serious reasons"""
    spec: PodbuggertoolSpec | None = None
    """The spec that is at work. Written down before the first Pod is touched for it"""
    earlier: Annotated[list[PodbuggertoolSpec], m.ListType("atomic"), m.MaxItems(EARLIER)] = []
    """Specs that were at work before; the last ten. What was added for them stays as long as its Pod"""
    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = []
    """`Installed` says whether every Pod that matches has the tool, and why not"""


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
