"""The WebServer controller: applies the children and reports the status."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from kubewright import AlreadyOwnedError, Context, Forbidden, Invalid, Result, Watch, controller
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import Service
from kubewright.cache import Lister
from kubewright.client import MergePatch
from kubewright.controllers import Request, is_controlled_by
from kubewright.models import codec

from webserver_operator.api.v1.webserver import WebServer
from webserver_operator.controller.children import NODE_PORT, deployment_for, service_for
from webserver_operator.controller.reporting import (
    DEPLOYMENT_FIELDS,
    SERVICE_FIELDS,
    readiness_of,
    report,
    report_changes,
    warn,
)

CHECK_AGAIN: Final = Result(requeue_after=timedelta(seconds=10))
RETRY: Final = Result(requeue_after=timedelta(seconds=5))
PORT_TAKEN: Final = "NodePortTaken"


class NodePortTaken(Exception):
    """Another Service has the node port."""


def reasons(web: WebServer) -> Iterable[str]:
    return [condition.reason for condition in web.status.conditions]


def waiting_for_port(service: Service, webs: Lister[WebServer]) -> Iterable[Request]:
    """Return the WebServers that wait for the node port of this Service."""
    return webs.keys_by_index("reason", PORT_TAKEN) if has_node_port(service) else []


@controller(
    WebServer,
    owns=[Deployment, Service],
    indexers={"reason": reasons},
    watches=[Watch.mapped(Service, waiting_for_port)],
)
async def reconcile(ctx: Context[WebServer]) -> Result:
    """Apply the Deployment and the Service, and report in the status whether all replicas serve."""
    try:
        deployment = await apply_deployment(ctx)
        await apply_service(ctx)
    except NodePortTaken as error:
        await warn(ctx, PORT_TAKEN, str(error))
        return RETRY
    except AlreadyOwnedError as error:
        await warn(ctx, "NameTaken", str(error))
        return RETRY
    except (Invalid, Forbidden) as error:
        if not error.namespace_is_ending:
            await warn(ctx, "Refused", str(error))
        raise
    await report(ctx, *readiness_of(deployment))
    return CHECK_AGAIN


async def apply_deployment(ctx: Context[WebServer]) -> Deployment:
    desired = deployment_for(ctx.object)
    existing = await ctx.get_or_none(Deployment, desired.metadata.name)
    applied = await ctx.apply(desired)
    report_changes(ctx, existing, desired, DEPLOYMENT_FIELDS)
    ctx.object.status.available_replicas = applied.status.available_replicas or 0
    return applied


async def apply_service(ctx: Context[WebServer]) -> None:
    """Apply the Service. Raises NodePortTaken, without a write if the cache shows the other Service."""
    desired = service_for(ctx.object)
    for other in await ctx.list(Service, namespace=""):
        if has_node_port(other) and not is_controlled_by(other, ctx.object):
            raise port_taken_by(other)
    existing = await ctx.get_or_none(Service, desired.metadata.name)
    try:
        if existing and is_controlled_by(existing, ctx.object) and keys_of_ports(existing) != keys_of_ports(desired):
            # An apply keeps the ports that other clients have added; this patch replaces the whole list.
            await ctx.patch(existing, MergePatch({"spec": codec.to_dict(desired)["spec"]}))
        await ctx.apply(desired)
    except Invalid as error:
        if any("already allocated" in cause.message for cause in error.causes):
            raise NodePortTaken(str(error)) from error  # the cache does not show the other Service yet
        raise
    report_changes(ctx, existing, desired, SERVICE_FIELDS)


def has_node_port(service: Service) -> bool:
    return any(port.node_port == NODE_PORT for port in service.spec.ports)


def port_taken_by(other: Service) -> NodePortTaken:
    who = f'Service "{other.metadata.namespace}/{other.metadata.name}"'
    return NodePortTaken(f"node port {NODE_PORT} is taken by {who}; the webserver gets it as soon as it is free")


def keys_of_ports(service: Service) -> list[tuple[int, str]]:
    return [(port.port, port.protocol or "TCP") for port in service.spec.ports]
