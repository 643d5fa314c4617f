"""The controller of Octopus: brings about what its spec asks for, and says how it stands."""

from kubewright import Context, controller, set_condition

from fleet.api.sea_creatures.v1alpha1.octopus import Octopus


@controller(Octopus, name="sea-creatures-octopus")
async def reconcile(ctx: Context[Octopus]) -> None:
    """Bring the cluster in line with `ctx.object`.

    Called when the object, or what it owns, has changed, and never told what changed: state what
    should be, and `ctx.apply` does what is missing. Kinds that it creates go into `owns=[...]` of
    the decorator; the operator's rights follow from there.
    """
    obj = ctx.object
    set_condition(
        obj.status.conditions,
        "Ready",
        "True",
        reason="Reconciled",
        message="All is as the spec asks for",
        observed_generation=obj.metadata.generation,
    )
    await ctx.update_status(obj.status)
