"""The version of ships that went before."""

from kubewright import CustomResource, Model, field


class ShipSpec(Model):
    """What a ship should be."""

    crew: int = 1
    home: str
    rig: str = "sloop"


class ShipStatus(Model):
    """What a ship is."""

    aboard: int = 0


class Ship(
    CustomResource,
    group="fleet.example.com",
    version="v1beta1",
    short_names=["sh"],
    storage=False,
    deprecated=True,
):
    """A ship, as it was."""

    spec: ShipSpec
    status: ShipStatus = field(default_factory=ShipStatus)
