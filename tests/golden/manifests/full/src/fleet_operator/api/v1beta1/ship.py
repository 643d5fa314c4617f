"""The version of ships that went before."""

from kubewright import CustomResource, Model


class ShipSpec(Model):
    """What a ship should be."""

    crew: int = 1


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
