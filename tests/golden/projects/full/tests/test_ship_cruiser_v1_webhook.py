"""What the webhooks of Cruiser do for its users."""

from pathlib import Path

from kubewright import Manager
from kubewright.machinery import yaml
from kubewright.models import codec
from kubewright.testing import Cluster, review

from fleet.api.ship.v1.cruiser import Cruiser
from fleet.webhook.ship.cruiser_v1 import validate

SAMPLE = Path(__file__).parents[1] / "config/samples/ship_v1_cruiser.yaml"


def sample(namespace: str) -> Cruiser:
    """Return the sample; tests change it."""
    assert SAMPLE.is_file(), "run `make manifests`: it writes the sample"
    obj = codec.from_dict(Cruiser, yaml.load(SAMPLE.read_text()))
    obj.metadata.name = f"sample-in-{namespace}"
    return obj


async def test_the_sample_is_valid() -> None:
    result = await review(validate, create=sample("default"))
    assert result.allowed, result.message


async def test_an_update_without_a_change_is_valid() -> None:
    result = await review(validate, update=sample("default"), old=sample("default"))
    assert result.allowed, result.message


async def test_the_api_server_accepts_the_sample(cluster: Cluster, namespace: str, operator: Manager) -> None:
    checked = await cluster.client.create(sample(namespace), dry_run=True)
    assert checked.metadata.uid
