"""The kind Frigate in version v1."""

from pathlib import Path

from kubewright import Manager
from kubewright.machinery import yaml
from kubewright.models import codec
from kubewright.testing import Cluster

from fleet.api.ship.v1.frigate import Frigate as FrigateV1
from fleet.api.ship.v1beta1.frigate import Frigate as FrigateV1beta1

SAMPLE = Path(__file__).parents[1] / "config/samples/ship_v1_frigate.yaml"


async def test_v1_can_be_read_as_v1beta1(cluster: Cluster, namespace: str, operator: Manager) -> None:
    assert SAMPLE.is_file(), "run `make manifests`: it writes the sample"
    sample = codec.from_dict(FrigateV1, yaml.load(SAMPLE.read_text()))
    sample.metadata.namespace = namespace
    created = await cluster.client.create(sample)
    name = created.metadata.name
    found = await cluster.client.get(FrigateV1beta1, name, namespace=namespace)
    assert found.metadata.uid == created.metadata.uid
