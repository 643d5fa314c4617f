"""The program."""

from datetime import timedelta

from fleet_operator.api.v1.ship import Harbour, Ship
from kubewright import Context, Manager, controller
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import ConfigMap, Service


@controller(Ship, owns=[Deployment, Service], cached=[Harbour])
async def reconcile_ship(ctx: Context[Ship]) -> None:
    """What it does does not matter here, only what it declares."""


@controller(Harbour, owns=[ConfigMap])
async def reconcile_harbour(ctx: Context[Harbour]) -> None:
    """Nor here."""


manager = Manager([reconcile_ship, reconcile_harbour], name="fleet-operator", graceful_timeout=timedelta(seconds=45))
