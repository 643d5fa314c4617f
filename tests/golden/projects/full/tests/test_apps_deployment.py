"""What the controller of Deployment does for its users."""

from kubewright import Manager
from kubewright.apis.apps.v1 import Deployment
from kubewright.testing import Cluster, eventually


async def test_the_controller_sees_every_object(cluster: Cluster, operator: Manager) -> None:
    """Replace this test: create a Deployment, and wait for what the controller makes of it."""
    await operator.wait_ready()

    async def sees_all() -> None:
        seen = {each.metadata.uid for each in await operator.client.list(Deployment)}
        assert seen == {each.metadata.uid for each in await cluster.client.list(Deployment)}

    await eventually(sees_all)
