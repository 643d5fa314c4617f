"""The controller of Frigate: makes the cluster match the spec, and reports the state in the status."""

from kubewright import Context, controller, set_condition

from fleet.api.v1beta1.frigate import Frigate


@controller(Frigate)
async def reconcile(ctx: Context[Frigate]) -> None:
    """Make the cluster match `ctx.object`.

    Called when the object or an object that it owns has changed, without saying what changed. State
    what should exist, and `ctx.apply` creates or changes what is missing. List the kinds that you
    create in `owns=[...]` of the decorator: the operator's permissions follow from them.
    """
    obj = ctx.object
    set_condition(
        obj.status.conditions,
        "Ready",
        "True",
        reason="Reconciled",
        message="The cluster matches the spec",
        observed_generation=obj.metadata.generation,
    )
    await ctx.update_status(obj.status)
