"""What a Frigate does for its users."""

from pathlib import Path

from kubewright import Manager
from kubewright.machinery import yaml
from kubewright.models import codec
from kubewright.testing import Cluster, eventually

from fleet.api.v1beta1.frigate import Frigate

SAMPLE = Path(__file__).parents[1] / "config/samples/example_v1beta1_frigate.yaml"


async def test_the_sample_becomes_ready(cluster: Cluster, namespace: str, operator: Manager) -> None:
    assert SAMPLE.is_file(), "run `make manifests`: it writes the sample"
    sample = codec.from_dict(Frigate, yaml.load(SAMPLE.read_text()))
    sample.metadata.namespace = namespace
    name = (await cluster.client.create(sample)).metadata.name

    async def is_ready() -> None:
        found = await cluster.client.get(Frigate, name, namespace=namespace)
        assert [(each.type, each.status) for each in found.status.conditions] == [("Ready", "True")]

    await eventually(is_ready)
