"""Every served version of Frigate can be read and written as every other one."""

from pathlib import Path

import pytest
from kubewright import CustomResource, Manager
from kubewright.machinery import yaml
from kubewright.models import codec
from kubewright.testing import Cluster, check_round_trips

from fleet.webhook.ship.frigate_conversion import conversion

SAMPLES = Path(__file__).parents[1] / "config" / "samples"
SERVED = [kind for kind in conversion.kinds if kind.__served_as__.served]


def sample(kind: type[CustomResource], namespace: str) -> CustomResource:
    """Return the sample of a version."""
    path = SAMPLES / f"ship_{kind.__api__.version}_frigate.yaml"
    assert path.is_file(), "run `make manifests`: it writes the samples"
    obj = codec.from_dict(kind, yaml.load(path.read_text()))
    obj.metadata.namespace = namespace
    return obj


def test_conversions_lose_nothing() -> None:
    check_round_trips(conversion)


@pytest.mark.parametrize("kind", SERVED, ids=lambda kind: str(kind.__api__.version))
async def test_an_object_of_one_version_can_be_read_in_each(
    kind: type[CustomResource], cluster: Cluster, namespace: str, operator: Manager
) -> None:
    created = await cluster.client.create(sample(kind, namespace))
    for other in SERVED:
        read = await cluster.client.get(other, created.metadata.name, namespace=namespace)
        back = read if other is kind else conversion.convert(read, kind)
        assert codec.to_dict(back)["spec"] == codec.to_dict(created)["spec"]
