"""What the webhooks of Frigate do for its users."""

from pathlib import Path

from kubewright import Manager
from kubewright.machinery import yaml
from kubewright.models import codec
from kubewright.testing import Cluster, review

from fleet.api.ship.v1beta1.frigate import Frigate
from fleet.webhook.ship.frigate_v1beta1 import set_defaults, validate

SAMPLE = Path(__file__).parents[1] / "config/samples/ship_v1beta1_frigate.yaml"


def sample(namespace: str) -> Frigate:
    """Return the sample; tests change it."""
    assert SAMPLE.is_file(), "run `make manifests`: it writes the sample"
    obj = codec.from_dict(Frigate, yaml.load(SAMPLE.read_text()))
    obj.metadata.namespace = namespace
    return obj


async def test_defaults_do_not_change_when_they_are_set_again() -> None:
    once = await review(set_defaults, create=sample("default"))
    again = await review(set_defaults, create=once.object)
    assert again.allowed, again.message
    assert again.patch == []


async def test_the_api_server_stores_the_defaults(cluster: Cluster, namespace: str, operator: Manager) -> None:
    stored = await cluster.client.create(sample(namespace))
    again = await review(set_defaults, create=stored)
    assert again.patch == []


async def test_the_sample_is_valid() -> None:
    result = await review(validate, create=sample("default"))
    assert result.allowed, result.message


async def test_an_update_without_a_change_is_valid() -> None:
    result = await review(validate, update=sample("default"), old=sample("default"))
    assert result.allowed, result.message


async def test_the_api_server_accepts_the_sample(cluster: Cluster, namespace: str, operator: Manager) -> None:
    checked = await cluster.client.create(sample(namespace), dry_run=True)
    assert checked.metadata.uid
