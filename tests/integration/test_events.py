"""Events on a control plane: recurring events are one object."""

from kubewright.apis.core.v1 import ConfigMap
from kubewright.apis.events.v1 import Event
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.controllers import Context, controller
from kubewright.manager import Manager
from kubewright.testing import Cluster, eventually


async def test_recurring_events_become_one_event_with_a_series(cluster: Cluster, namespace: str) -> None:
    @controller(ConfigMap)
    async def tell(ctx: Context[ConfigMap]) -> None:
        if ctx.request.name == "web":
            ctx.events.warning(ctx.object, "PortTaken", "node port 30010 is taken")

    manager = Manager([tell], config=cluster.config, namespaces=namespace, health_address="0", metrics_address="0")

    async def events() -> list[Event]:
        found = await cluster.client.list(Event, namespace=namespace)
        return [each for each in found if each.reason == "PortTaken"]

    async def there() -> Event:
        found = await events()
        assert len(found) == 1
        return found[0]

    async def counted() -> Event:
        event = await there()
        assert event.series is not None
        return event

    async with manager:
        web = await cluster.client.create(ConfigMap(metadata=ObjectMeta(name="web", namespace=namespace)))
        first = await eventually(there)
        assert first.series is None
        assert (first.regarding.name, first.regarding.uid) == ("web", web.metadata.uid)
        web.data = {"changed": "yes"}
        await cluster.client.update(web)
        again = await eventually(counted)
    assert again.metadata.uid == first.metadata.uid
    assert again.series is not None
    assert again.series.count == 2
