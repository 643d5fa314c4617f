"""The kind Cruiser."""

from pathlib import Path

from kubewright.machinery import yaml
from kubewright.models import codec
from kubewright.testing import Cluster

from fleet import api
from fleet.api.ship.v1.cruiser import Cruiser

SAMPLE = Path(__file__).parents[1] / "config/samples/ship_v1_cruiser.yaml"


async def test_the_sample_is_accepted(cluster: Cluster, namespace: str) -> None:
    await cluster.install(api)
    assert SAMPLE.is_file(), "run `make manifests`: it writes the sample"
    sample = codec.from_dict(Cruiser, yaml.load(SAMPLE.read_text()))
    created = await cluster.client.create(sample, field_validation="Strict")
    assert created.spec == sample.spec
