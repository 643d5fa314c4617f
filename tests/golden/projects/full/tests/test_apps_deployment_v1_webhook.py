"""What the webhooks of Deployment do for its users."""

from kubewright.apis.apps.v1 import Deployment
from kubewright.models import codec
from kubewright.testing import review

from fleet.webhook.apps.deployment_v1 import set_defaults


def example() -> Deployment:
    """Return a Deployment with as few fields as possible; tests change it."""
    return codec.from_dict(
        Deployment,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "example", "namespace": "default"},
            "spec": {"selector": {}, "template": {}},
        },
    )


async def test_defaults_do_not_change_when_they_are_set_again() -> None:
    once = await review(set_defaults, create=example())
    again = await review(set_defaults, create=once.object)
    assert again.allowed, again.message
    assert again.patch == []
