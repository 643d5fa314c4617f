"""Ports of Services, and node ports: each node port belongs to one Service of the cluster."""

from collections.abc import Iterable

from kubewright import APIError
from kubewright.apis.core.v1 import Service
from kubewright.cache import Lister
from kubewright.controllers import Request

from myweb_operator.api.v1.myweb import MyWeb


def node_ports_of(service: Service) -> set[int]:
    """Return all node ports of a Service."""
    ports = {port.node_port for port in service.spec.ports}
    return {port for port in (*ports, service.spec.health_check_node_port) if port}


def keys_of_ports(service: Service) -> list[tuple[int, str]]:
    """Return the keys by which an apply merges the ports of a Service."""
    return [(port.port, port.protocol or "TCP") for port in service.spec.ports]


def wanted_port(web: MyWeb) -> Iterable[str]:
    """Return the index value of a MyWeb: its desired node port."""
    return [str(web.spec.node_port_number)]


def waiting_for_ports_of(service: Service, webs: Lister[MyWeb]) -> Iterable[Request]:
    """Return the MyWebs that want a node port of this Service: it may be free now."""
    return [key for port in node_ports_of(service) for key in webs.keys_by_index("port", str(port))]


def is_about_node_port(error: APIError) -> bool:
    """Return whether a Service was rejected because of its node port."""
    return any(cause.field.endswith(".nodePort") for cause in error.causes)
