"""The metrics of a running manager, as Prometheus scrapes them."""

from __future__ import annotations

import ssl

from prometheus_client.parser import text_string_to_metric_families

from kubewright import Context, LeaderElection, Manager, controller
from kubewright.apis.core.v1 import ConfigMap, Secret
from kubewright.http.client import HTTPClient
from kubewright.http.message import Request
from kubewright.testing import Cluster, eventually
from kubewright.webhooks import AdmissionContext, ManagedCertificate, validator


@validator(ConfigMap)
def check(ctx: AdmissionContext[ConfigMap]) -> None: ...


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
        webhooks=[check],
        webhook_port=0,
        webhook_certificate=ManagedCertificate(namespace=namespace, hosts=["localhost"]),
        leader_election=LeaderElection(),
    )
    async with manager:

        async def looked() -> None:
            assert sum(manager.metrics.controllers["configmap"].outcomes.values()) > 0

        await eventually(looked)
        secret = await cluster.client.get(Secret, "webhook-server-cert", namespace=namespace)
        trusting = ssl.create_default_context(cadata=secret.data["ca.crt"].decode())
        api_server = HTTPClient(f"https://localhost:{manager.webhook_port}", ssl=trusting)
        await api_server.send(Request("POST", check.path))
        await api_server.close()
        client = HTTPClient(f"http://127.0.0.1:{manager.metrics_port}")
        text = (await (await client.send(Request("GET", "/metrics"))).read()).decode()
        await client.close()
    samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
    found: dict[str, set[str]] = {}
    for each in samples:
        found.setdefault(each.name, set()).update(each.labels)
    return found
