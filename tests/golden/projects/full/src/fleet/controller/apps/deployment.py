"""A controller of Deployment, a kind of Kubernetes or of another project."""

from kubewright import Context, controller
from kubewright.apis.apps.v1 import Deployment


@controller(Deployment, name="apps-deployment")
async def reconcile(ctx: Context[Deployment]) -> None:
    """Make the cluster match `ctx.object`.

    Called when the object has changed, without saying what changed. List the kinds that you create
    in `owns=[...]` of the decorator: the operator's permissions follow from them.
    """
    ctx.log.debug("Object reconciled", version=ctx.object.metadata.resource_version)
