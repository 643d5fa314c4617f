"""A controller of Deployment, a kind that is not this operator's own."""

from kubewright import Context, controller
from kubewright.apis.apps.v1 import Deployment


@controller(Deployment, name="apps-deployment")
async def reconcile(ctx: Context[Deployment]) -> None:
    """Bring the cluster in line with `ctx.object`.

    Called when the object has changed, and never told what changed. Kinds that it creates go into
    `owns=[...]` of the decorator; the operator's rights follow from there.
    """
    ctx.log.debug("Nothing to do yet", version=ctx.object.metadata.resource_version)
