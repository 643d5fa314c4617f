"""Ports of Services; and node ports, a number that one Service of the whole cluster has."""

from collections.abc import Iterable

from kubewright import APIError
from kubewright.apis.core.v1 import Service
from kubewright.cache import Lister
from kubewright.controllers import Request

from myweb_operator.api.v1.myweb import MyWeb


def node_ports_of(service: Service) -> set[int]:
    """All node ports that a Service has."""
    ports = {port.node_port for port in service.spec.ports}
    return {port for port in (*ports, service.spec.health_check_node_port) if port}


def keys_of_ports(service: Service) -> list[tuple[int, str]]:
    """What tells its ports apart, so that an apply changes one, or adds it."""
    return [(port.port, port.protocol or "TCP") for port in service.spec.ports]


def wanted_port(web: MyWeb) -> Iterable[str]:
    """The index by which those are found that want a port."""
    return [str(web.spec.node_port_number)]


def waiting_for_ports_of(service: Service, webs: Lister[MyWeb]) -> Iterable[Request]:
    """Who wants a port that this Service has, or had: it may be free now."""
    return [key for port in node_ports_of(service) for key in webs.keys_by_index("port", str(port))]


def is_about_node_port(error: APIError) -> bool:
    """Whether a Service was refused because of its node port."""
    return any(cause.field.endswith(".nodePort") for cause in error.causes)
