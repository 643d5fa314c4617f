"""The metrics of a running manager, as Prometheus scrapes them."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from kubewright import Context, LeaderElection, Manager, controller
from kubewright.apis.core.v1 import ConfigMap
from kubewright.http.client import HTTPClient
from kubewright.http.message import Request
from kubewright.testing import Cluster, eventually


@controller(ConfigMap)
async def look(ctx: Context[ConfigMap]) -> None: ...


async def scraped(cluster: Cluster, namespace: str) -> dict[str, set[str]]:
    """Return the names of a running manager's metrics, with their labels."""
    manager = Manager(
        [look],
        config=cluster.config,
        namespaces=namespace,
        health_address="0",
        metrics_address="127.0.0.1:0",
        leader_election=LeaderElection(),
    )
    async with manager:

        async def looked() -> None:
            assert sum(manager.metrics.controllers["configmap"].outcomes.values()) > 0

        await eventually(looked)
        client = HTTPClient(f"http://127.0.0.1:{manager.metrics_port}")
        text = (await (await client.send(Request("GET", "/metrics"))).read()).decode()
        await client.close()
    samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
    found: dict[str, set[str]] = {}
    for each in samples:
        found.setdefault(each.name, set()).update(each.labels)
    return found
