"""Ships, which are in a namespace, and harbours, which are not."""

from typing import Annotated

from kubewright import CustomResource, Enum, Minimum, MinLength, Model, PrintColumn, Scale, field


class ShipSpec(Model):
    """What a ship should be."""

    crew: Annotated[int, Minimum(1)] = 1
    """How many sail her. `{{ .Values }}` is no template here."""
    home: Annotated[str, MinLength(1)]
    """The name of her harbour."""
    rig: Annotated[str, Enum("sloop", "brig")] = "sloop"


class ShipStatus(Model):
    """What a ship is."""

    aboard: int = 0
    """How many are on board."""


class Ship(
    CustomResource,
    group="fleet.example.com",
    version="v1",
    short_names=["sh"],
    columns=[PrintColumn("Crew", ".spec.crew", "integer")],
    scale=Scale(replicas=".spec.crew", status_replicas=".status.aboard"),
):
    """A ship."""

    spec: ShipSpec
    status: ShipStatus = field(default_factory=ShipStatus)


class Harbour(CustomResource, group="fleet.example.com", version="v1", namespaced=False):
    """Where ships are at home."""
