"""The end of a pod that is being deleted, as its kubelet tells of it."""

from __future__ import annotations

from kubewright.apis.core.v1 import Pod
from kubewright.controllers import Context
from kubewright.machinery.errors import NotFound


async def confirm_ended(ctx: Context[Pod]) -> bool:
    """Confirm that the containers have stopped, by a delete without grace. Finalizers may still hold the pod.

    False when there was nothing to confirm: it has been, or the pod is gone.
    """
    pod = ctx.object
    if pod.metadata.deletion_grace_period_seconds == 0 and pod.metadata.finalizers:
        return False
    try:
        await ctx.client.delete(pod, grace_period=0)
    except NotFound:
        return False
    return True
