"""An operator for tests: it creates a ConfigMap for each part of a Gizmo."""

import asyncio
from datetime import timedelta

from kubewright import Context, CustomResource, Manager, Model, controller
from kubewright.apis.core.v1 import ConfigMap
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.machinery.errors import TerminalError
from kubewright.manager import LeaderElection

FINALIZER = "gizmos.kubewright.test/parts"


class GizmoSpec(Model):
    parts: int = 1
    """The desired number of ConfigMaps."""
    color: str = "red"
    """The data of each ConfigMap."""
    slow: bool = False
    """Whether a reconcile waits for a second after each write."""


class GizmoStatus(Model):
    parts: int = 0
    """The current number of ConfigMaps."""
    cleaned_up: bool = False
    """Whether the finalizer has done its work."""


class Gizmo(CustomResource, group="kubewright.test", version="v1"):
    """Gizmo is a kind for tests."""

    spec: GizmoSpec
    status: GizmoStatus | None = None


def part(gizmo: Gizmo, number: int) -> ConfigMap:
    name = f"{gizmo.metadata.name}-{number}"
    return ConfigMap(metadata=ObjectMeta(name=name), data={"color": gizmo.spec.color})


@controller(Gizmo, owns=[ConfigMap], workers=2)
async def reconcile(ctx: Context[Gizmo]) -> None:
    gizmo = ctx.object
    if gizmo.spec.parts < 0:
        raise TerminalError(f"spec.parts must not be negative, got {gizmo.spec.parts}")
    for number in range(gizmo.spec.parts):
        await ctx.apply(part(gizmo, number))
        if gizmo.spec.slow:
            ctx.log.info("Half done")
            await asyncio.sleep(1)
    for owned in await ctx.list(ConfigMap, owned=True):
        if int(owned.metadata.name.rpartition("-")[2]) >= gizmo.spec.parts:
            await ctx.delete(owned)
    await ctx.update_status(GizmoStatus(parts=gizmo.spec.parts))


ELECTION = LeaderElection(
    lease_duration=timedelta(seconds=8), renew_deadline=timedelta(seconds=6), retry_period=timedelta(seconds=0.5)
)

if __name__ == "__main__":
    Manager([reconcile], name="gizmo-operator", leader_election=ELECTION).main()
