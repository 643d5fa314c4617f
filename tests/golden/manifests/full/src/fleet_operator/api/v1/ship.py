"""Ships, which are in a namespace, and harbours, which are not."""

from typing import Annotated

from kubewright import CustomResource, Model, PrintColumn, field
from kubewright import markers as m
from kubewright.models import Scale


class ShipSpec(Model):
    """What a ship should be."""

    crew: Annotated[int, m.Minimum(1)] = 1
    """How many sail her. `{{ .Values }}` is no template here."""
    home: Annotated[str, m.MinLength(1)]
    """The name of her harbour."""
    rig: Annotated[str, m.Enum("sloop", "brig")] = "sloop"


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
