"""The kind Harbor."""

from pathlib import Path

from kubewright.machinery import yaml
from kubewright.models import codec
from kubewright.testing import Cluster

from fleet import api
from fleet.api.v1.harbor import Harbor

SAMPLE = Path(__file__).parents[1] / "config/samples/example_v1_harbor.yaml"


async def test_the_sample_is_accepted(cluster: Cluster, namespace: str) -> None:
    await cluster.install(api)
    assert SAMPLE.is_file(), "run `make manifests`: it writes the sample"
    sample = codec.from_dict(Harbor, yaml.load(SAMPLE.read_text()))
    created = await cluster.client.create(sample, field_validation="Strict")
    assert created.spec == sample.spec
