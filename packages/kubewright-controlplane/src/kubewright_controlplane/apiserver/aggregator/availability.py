"""Whether the extension server of an APIService can be used: its Service, its endpoints, and an answer.

Follows k8s.io/kube-aggregator pkg/controllers/status/remote.
"""

from __future__ import annotations

import asyncio
from typing import Final

from kubewright.machinery.errors import ConnectionFailed
from kubewright.machinery.gvk import GroupVersion
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.aggregator.client import ExtensionClients, ExtensionServer
from kubewright_controlplane.apiserver.aggregator.documents import AGGREGATOR
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.webhooks.client import reason_of
from kubewright_controlplane.apiserver.webhooks.services import ServiceNotReady, slices_of

_ATTEMPTS: Final = 5
_SECONDS: Final = 5.0


async def availability(
    resources: ResourceSet, clients: ExtensionClients, server: ExtensionServer, gv: GroupVersion
) -> JSONObject:
    """Return the condition Available of an APIService. Raises ConfigError for an invalid `caBundle`."""
    missing = _missing(resources, server)
    if missing is not None:
        return missing
    attempts = [asyncio.ensure_future(_failure(clients, server, gv)) for _ in range(_ATTEMPTS)]
    try:
        failure = ""
        for each in asyncio.as_completed(attempts):
            failure = await each
            if not failure:
                return _condition("True", "Passed", "all checks passed")
        return _condition("False", "FailedDiscoveryCheck", failure)
    finally:
        for each in attempts:
            each.cancel()
        await asyncio.gather(*attempts, return_exceptions=True)


def _missing(resources: ResourceSet, server: ExtensionServer) -> JSONObject | None:
    """Return the condition if the Service, its port or its endpoints are missing."""
    where = f'service/{server.name} in "{server.namespace}"'
    service = resources.registry("services").read(server.name, server.namespace)
    if service is None:
        return _condition("False", "ServiceNotFound", f"{where} is not present")
    spec = service["spec"]
    if spec.get("type") != "ClusterIP":
        return None
    names = [each.get("name") or "" for each in spec.get("ports") or () if each.get("port") == server.port]
    if not names:
        return _condition("False", "ServicePortError", f"{where} is not listening on port {server.port}")
    slices = list(slices_of(resources, server.namespace, server.name))
    if not slices:
        return _condition("False", "EndpointsNotFound", f"cannot find endpointslices for {where}")
    if not any(_has_endpoint(each, names[0]) for each in slices):
        message = f'endpointslices for {where} have no addresses with port name "{names[0]}"'
        return _condition("False", "MissingEndpoints", message)
    return None


def _has_endpoint(document: JSONObject, port_name: str) -> bool:
    endpoints, ports = document.get("endpoints") or (), document.get("ports") or ()
    is_ready = any((each.get("conditions") or {}).get("ready") is not False for each in endpoints)
    return is_ready and any((each.get("name") or "") == port_name and each.get("port") for each in ports)


async def _failure(clients: ExtensionClients, server: ExtensionServer, gv: GroupVersion) -> str:
    """Return why the server does not answer for the group version; empty if it does."""
    try:
        host, port = clients.address(server)
    except ServiceNotReady as error:
        return str(error)
    url = f"https://{host}:{port}{gv.path}"
    try:
        answer = await clients.read(server, gv.path, AGGREGATOR, "", _SECONDS)
    except (ConnectionFailed, TimeoutError, ServiceNotReady) as error:
        return f'failing or missing response from {url}: Get "{url}": {reason_of(error)}'
    if not 200 <= answer.status < 300:
        return f"failing or missing response from {url}: bad status from {url}: {answer.status}"
    return ""


def _condition(status: str, reason: str, message: str) -> JSONObject:
    return {"type": "Available", "status": status, "reason": reason, "message": message}
