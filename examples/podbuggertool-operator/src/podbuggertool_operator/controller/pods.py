"""The state of a Pod for a tool: it has the tool, can get it, or why not. Without any requests.

A container with the name and image of the tool is the tool, no matter which client added it. So no record of additions can be lost in a
crash, and the tool is not added twice.
"""

import re
from datetime import datetime, timedelta
from typing import Final

from kubewright.apis.core.v1 import Pod

from podbuggertool_operator.api.v1beta1.podbuggertool import PendingPod, Podbuggertool

WAIT: Final = timedelta(seconds=120)
"""How long a Pod may take to become Ready before a timeout is reported."""

MAX_NAME: Final = 63
MIRROR: Final = "kubernetes.io/config.mirror"


def container_name(image: str) -> str:
    """Return `ephemeral-` and the last part of the image name, without tag and digest, as a valid container name.

    `docker.io/library/busybox:1.36@sha256:...` is `ephemeral-busybox`.
    """
    last = image.partition("@")[0].rpartition("/")[2].partition(":")[0]
    return f"ephemeral-{re.sub('[^a-z0-9]+', '-', last)}"[:MAX_NAME].rstrip("-")


def can_have(pod: Pod, tool: Podbuggertool) -> bool:
    """Return whether `pod` matches and is live. Static Pods are excluded: only their node can change them."""
    key, _, value = tool.spec.label.partition("=")
    ends = pod.metadata.deletion_timestamp is not None or pod.status.phase in ("Succeeded", "Failed")
    return pod.metadata.labels.get(key) == value and not ends and MIRROR not in pod.metadata.annotations


def has(pod: Pod, tool: Podbuggertool) -> bool:
    wanted = (container_name(tool.spec.image), tool.spec.image)
    return any((each.name, each.image) == wanted for each in pod.spec.ephemeral_containers)


def why_not(pod: Pod, tool: Podbuggertool, now: datetime) -> PendingPod:
    """Return why a Pod does not have the tool; `Adding` if it can get it now."""
    name = container_name(tool.spec.image)
    images = {each.name: each.image for each in (*pod.spec.containers, *pod.spec.init_containers)}
    images |= {each.name: each.image for each in pod.spec.ephemeral_containers}
    if name in images:
        taken = f"its container {name} has the image {images[name]}, and cannot be changed"
        return PendingPod(name=pod.metadata.name, reason="NameTaken", message=taken)
    if is_ready(pod):
        return PendingPod(name=pod.metadata.name, reason="Adding", message="it is Ready")
    if now < waited_since(pod, tool) + WAIT:
        return PendingPod(name=pod.metadata.name, reason="NotReady", message="it is not Ready yet")
    late = f"it was not Ready within {WAIT.seconds} s; it gets the tool when it becomes Ready"
    return PendingPod(name=pod.metadata.name, reason="TimedOut", message=late)


def facts(pod: Pod) -> object:
    """Return what a tool depends on. Containers are left out: the writes that follow an addition need no reconcile."""
    return pod.metadata.labels, pod.metadata.deletion_timestamp, pod.status.phase, is_ready(pod)


def is_ready(pod: Pod) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)


def waited_since(pod: Pod, tool: Podbuggertool) -> datetime:
    """Return when the wait for a Pod that is not Ready began: the latest of three times.

    These are the creation of the Pod, the creation of the tool, and the last time the Pod was Ready. All are stored in
    the objects, so a restart does not restart the wait.
    """
    times = [pod.metadata.creation_timestamp, tool.metadata.creation_timestamp]
    times += [each.last_transition_time for each in pod.status.conditions if each.type == "Ready"]
    return max(time for time in times if time is not None)
