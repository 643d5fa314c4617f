"""What a Pod is to a tool: whether it can have it, has it, or why not. Looks at objects and asks nobody.

It is not remembered who added a container: one with the tool's name and image is the tool, whoever put it there. So
there is nothing that a crash could lose, and no second one to add after it.
"""

import re
from datetime import datetime, timedelta
from typing import Final

from kubewright.apis.core.v1 import Pod

from podbuggertool_operator.api.v1beta1.podbuggertool import PendingPod, Podbuggertool

WAIT: Final = timedelta(seconds=120)
"""For how long a Pod that is not Ready is waited for."""

MAX_NAME: Final = 63
MIRROR: Final = "kubernetes.io/config.mirror"


def container_name(image: str) -> str:
    """`ephemeral-` and the last part of the image's name, without tag and digest, as far as a container's name goes.

    `docker.io/library/busybox:1.36@sha256:...` is `ephemeral-busybox`.
    """
    last = image.partition("@")[0].rpartition("/")[2].partition(":")[0]
    return f"ephemeral-{re.sub('[^a-z0-9]+', '-', last)}"[:MAX_NAME].rstrip("-")


def can_have(pod: Pod, tool: Podbuggertool) -> bool:
    """Whether `pod` matches and lives. Pods that end get nothing, nor static ones, which their node alone changes."""
    key, _, value = tool.spec.label.partition("=")
    ends = pod.metadata.deletion_timestamp is not None or pod.status.phase in ("Succeeded", "Failed")
    return pod.metadata.labels.get(key) == value and not ends and MIRROR not in pod.metadata.annotations


def has(pod: Pod, tool: Podbuggertool) -> bool:
    wanted = (container_name(tool.spec.image), tool.spec.image)
    return any((each.name, each.image) == wanted for each in pod.spec.ephemeral_containers)


def why_not(pod: Pod, tool: Podbuggertool, now: datetime) -> PendingPod:
    """What keeps a Pod that has not got the tool from it: `Adding` for nothing."""
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
    late = f"it was not Ready within {WAIT.seconds} s; it gets the tool when it is"
    return PendingPod(name=pod.metadata.name, reason="TimedOut", message=late)


def facts(pod: Pod) -> object:
    """What a tool asks of a Pod, to be compared. Not its containers: a Pod is written several times for each that is
    added, and none of that asks for more.
    """
    return pod.metadata.labels, pod.metadata.deletion_timestamp, pod.status.phase, is_ready(pod)


def is_ready(pod: Pod) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)


def waited_since(pod: Pod, tool: Podbuggertool) -> datetime:
    """When the wait for a Pod that is not Ready began: with the Pod, when it was last Ready, or with the tool, whichever
    came last. All three are in the objects: a restart does not begin it again.
    """
    times = [pod.metadata.creation_timestamp, tool.metadata.creation_timestamp]
    times += [each.last_transition_time for each in pod.status.conditions if each.type == "Ready"]
    return max(time for time in times if time is not None)
