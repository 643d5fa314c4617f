"""Access to metrics: the Service, the ServiceMonitor for the Prometheus operator, and the NetworkPolicy."""

from __future__ import annotations

from typing import Final

from kubewright.machinery.json import JSONObject
from kubewright_cli.manifests.names import METRICS_SERVICE, Names
from kubewright_cli.manifests.settings import Settings
from kubewright_cli.manifests.workload import METRICS_PORT, selector

MONITOR: Final = "controller-manager-metrics-monitor"
_TOKEN: Final = "/var/run/secrets/kubernetes.io/serviceaccount/token"


def service(settings: Settings, names: Names) -> JSONObject:
    port = {"name": settings.metrics, "port": METRICS_PORT, "protocol": "TCP", "targetPort": METRICS_PORT}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(METRICS_SERVICE, settings, names),
        "spec": {"ports": [port], "selector": selector(settings)},
    }


def monitor(settings: Settings, names: Names) -> JSONObject:
    """Prometheus sends its own token. It cannot verify a certificate that the manager signed itself."""
    endpoint: JSONObject = {"path": "/metrics", "port": settings.metrics, "scheme": settings.metrics}
    if settings.metrics == "https":
        endpoint |= {"bearerTokenFile": _TOKEN, "tlsConfig": _tls(settings)}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": _metadata(MONITOR, settings, names),
        "spec": {"endpoints": [endpoint], "selector": {"matchLabels": selector(settings)}},
    }


def _tls(settings: Settings) -> JSONObject:
    if not settings.metrics_certificate:
        return {"insecureSkipVerify": True}
    return {
        "serverName": f"{settings.full_name(METRICS_SERVICE)}.{settings.namespace}.svc",
        "ca": {"secret": {"name": settings.metrics_certificate, "key": "ca.crt"}},
    }


def policy(settings: Settings, names: Names) -> JSONObject:
    """Return a NetworkPolicy by which only Pods in labeled namespaces reach the metrics."""
    allowed = {
        "from": [{"namespaceSelector": {"matchLabels": {"metrics": "enabled"}}}],
        "ports": [{"port": METRICS_PORT, "protocol": "TCP"}],
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata("allow-metrics-traffic", settings, names),
        "spec": {
            "podSelector": {"matchLabels": selector(settings)},
            "policyTypes": ["Ingress"],
            "ingress": [allowed],
        },
    }


def _metadata(name: str, settings: Settings, names: Names) -> JSONObject:
    return {
        "name": names.of(name),
        "namespace": names.namespace,
        "labels": {"control-plane": selector(settings)["control-plane"]},
    }
