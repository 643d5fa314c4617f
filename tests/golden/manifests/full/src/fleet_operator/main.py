"""The program."""

from datetime import timedelta

from fleet_operator.api.v1.ship import Harbour, Ship, ShipSpec
from fleet_operator.api.v1beta1 import ship as v1beta1
from kubewright import Context, Manager, controller
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import ConfigMap, Pod, Service
from kubewright.policies import Binding, ValidatingPolicy, Validation
from kubewright.webhooks import AdmissionContext, Conversion, Spoke, defaulter, validator


@controller(Ship, owns=[Deployment, Service], cached=[Harbour])
async def reconcile_ship(ctx: Context[Ship]) -> None:
    """What it does does not matter here, only what it declares."""


@controller(Harbour, owns=[ConfigMap])
async def reconcile_harbour(ctx: Context[Harbour]) -> None:
    """Nor here."""


@defaulter(Ship)
def set_defaults(ctx: AdmissionContext[Ship]) -> None:
    """Nor here."""


@validator(Ship, match_conditions={"manned": "object.spec.crew > 1"})
def check_ship(ctx: AdmissionContext[Ship]) -> None:
    """Nor here."""


@validator(Pod, service_port=8443)
def check_pod(ctx: AdmissionContext[Pod]) -> None:
    """Nor here."""


def to_v1(old: v1beta1.Ship) -> Ship:
    """Nor here."""
    return Ship(spec=ShipSpec(home=old.spec.home))


def from_v1(new: Ship) -> v1beta1.Ship:
    """Nor here."""
    return v1beta1.Ship(spec=v1beta1.ShipSpec(home=new.spec.home))


renamed = ValidatingPolicy(
    "ship-homes",
    Ship,
    operations=["UPDATE"],
    validations=[Validation("object.spec.home == oldObject.spec.home", message="a ship keeps its home")],
    bindings=[Binding(actions=["Warn", "Audit"])],
)
conversion = Conversion(Ship, Spoke(v1beta1.Ship, convert_to=to_v1, convert_from=from_v1))
manager = Manager(
    [reconcile_ship, reconcile_harbour],
    name="fleet-operator",
    graceful_timeout=timedelta(seconds=45),
    webhooks=[set_defaults, check_ship, check_pod, conversion],
    policies=[renamed],
)
