"""The interface between the kubelet and a runtime: accepted Pods, and their progress."""

from __future__ import annotations

from typing import Protocol

from kubewright.apis.core.v1 import Node, Pod
from kubewright.controllers import Context, Request, Result
from kubewright.machinery.errors import NotFound


class PodRuntime(Protocol):
    """Runs Pods, or simulates them.

    Guarantees
        `sync` is only called for a Pod that `accepts` has just accepted.
        `sync` is called again when the Pod, its node or an object that the Pod refers to has changed.
        `forget` is called after the Pod was deleted. It may be called for names that the runtime does not know.
    """

    async def accepts(self, ctx: Context[Pod]) -> bool:
        """Return whether this runtime runs the Pod."""
        ...

    async def sync(self, ctx: Context[Pod], node: Node) -> Result | None:
        """Bring the Pod closer to its spec, and report its status."""
        ...

    def forget(self, name: Request) -> None:
        """Free the resources of the Pod of this name, which no longer exists."""
        ...


async def confirm_terminated(ctx: Context[Pod]) -> bool:
    """Confirm that the containers of a deleted Pod have ended, by a delete without grace. Finalizers still hold it.

    Returns False if the Pod was confirmed before, or no longer exists.
    """
    pod = ctx.object
    if pod.metadata.deletion_grace_period_seconds == 0 and pod.metadata.finalizers:
        return False
    try:
        await ctx.client.delete(pod, grace_period=0)
    except NotFound:
        return False
    return True
