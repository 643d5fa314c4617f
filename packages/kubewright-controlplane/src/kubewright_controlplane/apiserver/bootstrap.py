"""The objects that every cluster has: system namespaces, priority classes, bootstrap RBAC roles, flow control, and
the `kubernetes` Service.

Only missing objects are created, so starting on an existing data folder is safe. Follows the bootstrap post-start
hooks and the `kubernetes` service controller of kube-apiserver.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Final

from kubewright._runtime.clock import Clock
from kubewright.machinery import time
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver import catalog
from kubewright_controlplane.apiserver.options import ServerOptions
from kubewright_controlplane.apiserver.registry.objects import decode_json, encode_json, set_condition
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.webhooks.services import SERVICE_LABEL

_NAME: Final = "kubernetes"
_NAMESPACE: Final = "default"
_PORT: Final = 6443
_SERVICE_CIDRS: Final = "servicecidrs.networking.k8s.io"
_SYSTEM: Final = "kube-system"
_AUTHENTICATION: Final = "extension-apiserver-authentication"
_TRACKING: Final = "kube-apiserver-legacy-service-account-token-tracking"
"""Its date is since when the use of tokens in Secrets is known. kube-controller-manager reads it."""


def create_missing(resources: ResourceSet, options: ServerOptions) -> None:
    """Create missing objects. Existing ones are not touched, because an administrator may have changed them."""
    off = {role for gv, api in catalog.OPTIONAL.items() if not options.is_on(gv) for role in api.roles}
    for obj in catalog.bootstrap_objects():
        if obj["metadata"]["name"] not in off:
            _create_missing(resources, _resource_of(resources, obj), decode_json(encode_json(obj)))
    _create_missing(resources, _SERVICE_CIDRS, _service_cidr(options.service_cidr))
    _create_missing(resources, "services", _service(first_service_address(resources)))
    _mark_ready(resources, options.clock)
    _create_missing(resources, "configmaps", _config_map(_TRACKING, {"since": f"{options.clock.now():%Y-%m-%d}"}))


def service_cidr(resources: ResourceSet) -> str | None:
    """Return the stored range of cluster IPs; None before the first start."""
    stored = resources.registry(_SERVICE_CIDRS).read(_NAME, "")
    return stored["spec"]["cidrs"][0] if stored is not None else None


def first_service_address(resources: ResourceSet) -> str:
    """Return the cluster IP of the `kubernetes` Service."""
    return str(ipaddress.ip_network(service_cidr(resources) or "")[1])


def publish(resources: ResourceSet, host: str, port: int) -> None:
    """Publish the address of a server that listens on `host` in the `kubernetes` Service, its Endpoints and its
    EndpointSlice.

    A loopback address cannot be an endpoint. As a real API server, this one publishes the address of the machine then.
    A machine without a network has no such address: only the port is published.
    """
    services = resources.registry("services")
    target = services.open(_NAME, _NAMESPACE)
    service = target.draft()
    service["spec"]["ports"][0]["targetPort"] = port
    services.replace(target, service)
    address = _advertised(host)
    if address is not None:
        _put(resources, "endpoints", _endpoints(address, port))
        _put(resources, "endpointslices.discovery.k8s.io", _endpoint_slice(address, port))


def _put(resources: ResourceSet, qualified: str, obj: JSONObject) -> None:
    """Create the object, or replace all but its metadata."""
    registry = resources.registry(qualified)
    if not registry.has(_NAME, _NAMESPACE):
        registry.create(obj, _NAMESPACE)
        return
    target = registry.open(_NAME, _NAMESPACE)
    current = target.draft()
    registry.replace(target, {**current, **obj, "metadata": current["metadata"]})


def _advertised(host: str) -> str | None:
    """Return the address at which other machines reach a server that listens on `host`; None if there is none."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = ipaddress.ip_address("127.0.0.1")
    if not (address.is_loopback or address.is_unspecified):
        return str(address)
    return _machine_address(address.version)


def _machine_address(version: int) -> str | None:
    """Return the address from which this machine would send packets to another network."""
    family, elsewhere = (socket.AF_INET, "192.0.2.1") if version == 4 else (socket.AF_INET6, "2001:db8::1")
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((elsewhere, 9))  # sends nothing
        except OSError:
            return None
        found: str = probe.getsockname()[0]
    return None if ipaddress.ip_address(found).is_loopback else found


def publish_authentication(resources: ResourceSet, client_ca: str, front_proxy: dict[str, str]) -> None:
    """Publish the CA of client certificates, for servers that authenticate the clients of this one, and how this
    server passes their requests on.
    """
    config_maps = resources.registry("configmaps")
    own = {"client-ca-file": client_ca} if client_ca else {}
    wanted = _config_map(_AUTHENTICATION, own | front_proxy)
    _create_missing(resources, "configmaps", wanted)
    target = config_maps.open(_AUTHENTICATION, _SYSTEM)
    config_maps.replace(target, {**target.draft(), "data": wanted["data"]})


def _create_missing(resources: ResourceSet, qualified: str, obj: JSONObject) -> None:
    registry, metadata = resources.registry(qualified), obj["metadata"]
    namespace = metadata.get("namespace", "")
    if not registry.has(metadata["name"], namespace):
        registry.create(obj, namespace)


def _resource_of(resources: ResourceSet, obj: JSONObject) -> str:
    kind, api_version = obj["kind"], obj["apiVersion"]
    return next(each.qualified for each in resources if each.kind == kind and each.api_version == api_version)


def _service(address: str) -> JSONObject:
    port = {"name": "https", "protocol": "TCP", "port": 443, "targetPort": _PORT}
    return {
        "metadata": {
            "name": _NAME,
            "namespace": _NAMESPACE,
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {"type": "ClusterIP", "clusterIP": address, "ports": [port], "sessionAffinity": "None"},
    }


def _service_cidr(cidr: str) -> JSONObject:
    return {"metadata": {"name": _NAME}, "spec": {"cidrs": [cidr]}}


def _mark_ready(resources: ResourceSet, clock: Clock) -> None:
    """Report that the default ServiceCIDR is in use."""
    registry = resources.registry(_SERVICE_CIDRS)
    target = registry.open(_NAME, subresource="status")
    cidr = target.draft()
    if (cidr.get("status") or {}).get("conditions"):
        return
    ready = {"type": "Ready", "status": "True", "reason": "", "message": "Kubernetes default Service CIDR is ready"}
    set_condition(cidr, ready, time.format(clock.now()))
    registry.replace(target, cidr)


def _config_map(name: str, data: JSONObject) -> JSONObject:
    return {"metadata": {"name": name, "namespace": _SYSTEM}, "data": data}


def _endpoints(address: str, port: int) -> JSONObject:
    ports: list[JSONObject] = [{"name": "https", "port": port, "protocol": "TCP"}]
    return {
        "metadata": {
            "name": _NAME,
            "namespace": _NAMESPACE,
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [{"addresses": [{"ip": address}], "ports": ports}],
    }


def _endpoint_slice(address: str, port: int) -> JSONObject:
    return {
        "metadata": {"name": _NAME, "namespace": _NAMESPACE, "labels": {SERVICE_LABEL: _NAME}},
        "addressType": f"IPv{ipaddress.ip_address(address).version}",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }
