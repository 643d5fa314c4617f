"""What a WebServer does for its users."""

from pathlib import Path

from kubewright import Manager
from kubewright.machinery import yaml
from kubewright.models import codec
from kubewright.testing import Cluster, eventually

from webserver_operator.api.v1.webserver import WebServer

SAMPLE = Path(__file__).parents[1] / "config/samples/my_v1_webserver.yaml"


async def test_the_sample_becomes_ready(cluster: Cluster, namespace: str, operator: Manager) -> None:
    assert SAMPLE.is_file(), "run `make manifests`: it writes the sample"
    sample = codec.from_dict(WebServer, yaml.load(SAMPLE.read_text()))
    sample.metadata.namespace = namespace
    name = (await cluster.client.create(sample)).metadata.name

    async def is_ready() -> None:
        found = await cluster.client.get(WebServer, name, namespace=namespace)
        assert [(each.type, each.status) for each in found.status.conditions] == [("Ready", "True")]

    await eventually(is_ready)
