"""The conversion of Frigate between its versions. v1beta1 is the hub: each other version converts to it and from it.

The functions only compute: they are called for every object that is read or written in another version than the stored
one. A client that reads and writes an object in a version that lacks a field keeps the field: its value is stored in an
annotation.
"""

from kubewright.webhooks import Conversion, Spoke

from fleet.api.ship.v1 import frigate as v1
from fleet.api.ship.v1beta1 import frigate as v1beta1


def v1_to_v1beta1(old: v1.Frigate) -> v1beta1.Frigate:
    """Return a Frigate of v1 in version v1beta1. Its metadata stays the same."""
    return v1beta1.Frigate(
        spec=v1beta1.FrigateSpec(
            foo=old.spec.foo,
        ),
        status=v1beta1.FrigateStatus(
            conditions=old.status.conditions,
        ),
    )


def v1beta1_to_v1(old: v1beta1.Frigate) -> v1.Frigate:
    """Return a Frigate of v1beta1 in version v1. Its metadata stays the same."""
    return v1.Frigate(
        spec=v1.FrigateSpec(
            foo=old.spec.foo,
        ),
        status=v1.FrigateStatus(
            conditions=old.status.conditions,
        ),
    )


conversion = Conversion(
    v1beta1.Frigate,
    Spoke(v1.Frigate, convert_to=v1_to_v1beta1, convert_from=v1beta1_to_v1),
)
