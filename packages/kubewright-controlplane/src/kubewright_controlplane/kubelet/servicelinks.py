"""The variables that tell a container where the Services of its namespace are.

Follows k8s.io/kubernetes pkg/kubelet/envvars.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.apis.core.v1 import Service


def variables(services: Iterable[Service]) -> dict[str, str]:
    """Return the variables of Services with a cluster IP, such as `WEB_SERVICE_HOST`."""
    found: dict[str, str] = {}
    for service in services:
        if service.spec.cluster_ip not in (None, "", "None") and service.spec.ports:
            found |= _of_service(service, service.spec.cluster_ip or "")
    return found


def _of_service(service: Service, host: str) -> dict[str, str]:
    name, first = _variable(service.metadata.name), service.spec.ports[0]
    values = {
        f"{name}_SERVICE_HOST": host,
        f"{name}_SERVICE_PORT": str(first.port),
        f"{name}_PORT": f"{(first.protocol or 'TCP').lower()}://{host}:{first.port}",
    }
    for port in service.spec.ports:
        protocol = port.protocol or "TCP"
        if port.name:
            values[f"{name}_SERVICE_PORT_{_variable(port.name)}"] = str(port.port)
        link = f"{name}_PORT_{port.port}_{protocol}"
        values |= {
            link: f"{protocol.lower()}://{host}:{port.port}",
            f"{link}_PROTO": protocol.lower(),
            f"{link}_PORT": str(port.port),
            f"{link}_ADDR": host,
        }
    return values


def _variable(name: str) -> str:
    return name.upper().replace("-", "_")
