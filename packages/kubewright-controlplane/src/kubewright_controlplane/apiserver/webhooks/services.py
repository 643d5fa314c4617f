"""Where the program behind a Service listens: the address of one of its endpoints on this machine's network.

A real API server connects to the cluster IP, from where kube-proxy forwards the connection. Here nothing forwards it,
so the server chooses an endpoint itself, as a real one does with `--enable-aggregator-routing`.

Follows k8s.io/apiserver pkg/util/proxy.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from ipaddress import IPv4Network, ip_address
from typing import Final

from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.ports import LOOPBACK_PODS, POD_NETWORK, process_port

SERVICE_LABEL: Final = "kubernetes.io/service-name"
"""The label of an EndpointSlice with the name of its Service."""
SLICES: Final = "endpointslices.discovery.k8s.io"


class ServiceNotReady(Exception):
    """A Service has no program to connect to."""


class ServiceResolver:
    """Finds the addresses of Services in the server's store."""

    def __init__(self, resources: ResourceSet) -> None:
        self._resources = resources

    def resolve(self, namespace: str, name: str, port: int) -> tuple[str, int]:
        """Return host and port of a ready endpoint, at random. Raises ServiceNotReady if there is none."""
        service = self._resources.registry("services").read(name, namespace)
        if service is None:
            raise ServiceNotReady(f'service "{name}" not found')
        spec: JSONObject = service.get("spec") or {}
        if spec.get("type") == "ExternalName":
            return spec.get("externalName") or "", port
        port_name = next((each.get("name") or "" for each in spec.get("ports") or () if each.get("port") == port), None)
        if port_name is None:
            raise ServiceNotReady(f'no service port {port} found for service "{name}"')
        return self._endpoint(namespace, name, port_name)

    def resolve_pod(self, namespace: str, name: str, port: str) -> tuple[str, int]:
        """Return where a ready Pod that runs as a process listens, at random. `port` is a number or a name.

        Raises ServiceNotReady if there is none.
        """
        found = self.resolve(namespace, name, int(port)) if port.isdecimal() else self._endpoint(namespace, name, port)
        if not _is_in(LOOPBACK_PODS, found[0]):
            raise _without_endpoints(name)
        return found

    def _endpoint(self, namespace: str, name: str, port_name: str) -> tuple[str, int]:
        found = [*self._sliced(namespace, name, port_name)] or [*self._listed(namespace, name, port_name)]
        if not found:
            raise _without_endpoints(name)
        reachable = [
            process_target(host, number) or (host, number) for host, number in found if not _is_in(POD_NETWORK, host)
        ]
        if not reachable:
            raise ServiceNotReady(
                f'service "{name}": its endpoints are simulated Pods, in which no program runs; '
                "give their image a command, or use a url"
            )
        return random.choice(reachable)

    def _sliced(self, namespace: str, service: str, port: str) -> Iterator[tuple[str, int]]:
        """Yield the ready endpoints in the EndpointSlices of a Service."""
        for document in slices_of(self._resources, namespace, service):
            numbers = [each.get("port") for each in document.get("ports") or () if (each.get("name") or "") == port]
            for endpoint in document.get("endpoints") or ():
                if numbers and numbers[0] and (endpoint.get("conditions") or {}).get("ready") is not False:
                    yield endpoint["addresses"][0], numbers[0]

    def _listed(self, namespace: str, service: str, port: str) -> Iterator[tuple[str, int]]:
        """Yield the endpoints in the Endpoints of a Service, for which no EndpointSlice may exist."""
        endpoints = self._resources.registry("endpoints").read(service, namespace) or {}
        for subset in endpoints.get("subsets") or ():
            numbers = [each["port"] for each in subset.get("ports") or () if (each.get("name") or "") == port]
            for address in subset.get("addresses") or ():
                if numbers:
                    yield address["ip"], numbers[0]


def slices_of(resources: ResourceSet, namespace: str, service: str) -> Iterator[JSONObject]:
    """Yield the EndpointSlices of a Service."""
    for entry in resources.registry(SLICES).entries(namespace):
        if entry.labels.get(SERVICE_LABEL) == service:
            yield resources.decode(entry.data)


def process_target(host: str, port: int) -> tuple[str, int] | None:
    """Return where the process of a Pod with this address listens; None if no process has the address."""
    return (host, process_port(port)) if _is_in(LOOPBACK_PODS, host) else None


def _without_endpoints(name: str) -> ServiceNotReady:
    return ServiceNotReady(f'no endpoints available for service "{name}"')


def _is_in(network: IPv4Network, host: str) -> bool:
    try:
        return ip_address(host) in network
    except ValueError:
        return False
