"""What the webhooks of Pod do for its users."""

from kubewright.apis.core.v1 import Pod
from kubewright.models import codec
from kubewright.testing import review

from fleet.webhook.core.pod_v1 import validate


def example() -> Pod:
    """Return a Pod with as few fields as possible; tests change it."""
    return codec.from_dict(
        Pod,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "example", "namespace": "default"},
        },
    )


async def test_an_example_is_valid() -> None:
    result = await review(validate, create=example())
    assert result.allowed, result.message


async def test_an_update_without_a_change_is_valid() -> None:
    result = await review(validate, update=example(), old=example())
    assert result.allowed, result.message
