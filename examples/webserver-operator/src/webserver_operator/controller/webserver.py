"""The controller of WebServer: brings about what its spec asks for, and says how it stands."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final, TypeVar

from kubewright import Context, Forbidden, Invalid, Result, Watch, controller
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import Service
from kubewright.cache import Lister
from kubewright.client import MergePatch
from kubewright.controllers import Request, is_controlled_by
from kubewright.models import Object, codec

from webserver_operator.api.v1.webserver import WebServer
from webserver_operator.controller.children import NODE_PORT, deployment_for, service_for
from webserver_operator.controller.reporting import (
    DEPLOYMENT_FIELDS,
    SERVICE_FIELDS,
    judge,
    report,
    tell_changes,
    warn,
)

LOOK_AGAIN: Final = Result(requeue_after=timedelta(seconds=10))
RETRY: Final = Result(requeue_after=timedelta(seconds=5))
PORT_TAKEN: Final = "NodePortTaken"

T = TypeVar("T", bound=Object)


class Hindered(Exception):
    """What the spec asks for cannot be as long as something else is there."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def reasons(web: WebServer) -> Iterable[str]:
    return [condition.reason for condition in web.status.conditions]


def waiting_for_port(service: Service, webs: Lister[WebServer]) -> Iterable[Request]:
    """Those that wait for the port that this Service has, or had before it changed or went."""
    return webs.keys_by_index("reason", PORT_TAKEN) if has_node_port(service) else []


@controller(
    WebServer,
    owns=[Deployment, Service],
    indexers={"reason": reasons},
    watches=[Watch.mapped(Service, waiting_for_port)],
)
async def reconcile(ctx: Context[WebServer]) -> Result:
    """Bring the Deployment and the Service about, and say in the status whether all replicas serve."""
    try:
        deployment = await apply_deployment(ctx)
        await apply_service(ctx)
    except Hindered as error:
        await warn(ctx, error.reason, str(error))
        return RETRY
    except (Invalid, Forbidden) as error:
        if not error.namespace_is_ending:
            await warn(ctx, "Refused", str(error))
        raise
    await report(ctx, *judge(deployment))
    return LOOK_AGAIN


async def apply_deployment(ctx: Context[WebServer]) -> Deployment:
    desired = deployment_for(ctx.object)
    present = await find(ctx, desired)
    applied = await ctx.apply(desired)
    tell_changes(ctx, present, desired, DEPLOYMENT_FIELDS)
    ctx.object.status.available_replicas = applied.status.available_replicas or 0
    return applied


async def apply_service(ctx: Context[WebServer]) -> None:
    """Raises Hindered where another Service has the port, without a write where the cache knows that already."""
    desired = service_for(ctx.object)
    for other in await ctx.list(Service, namespace=""):
        if has_node_port(other) and not is_controlled_by(other, ctx.object):
            raise port_taken_by(other)
    present = await find(ctx, desired)
    try:
        if present and keys_of_ports(present) != keys_of_ports(desired):
            # An apply leaves alone what others added to a list; here nothing is theirs.
            await ctx.patch(present, MergePatch({"spec": codec.to_dict(desired)["spec"]}))
        await ctx.apply(desired)
    except Invalid as error:
        if any("already allocated" in cause.message for cause in error.causes):
            raise Hindered(PORT_TAKEN, str(error)) from error  # by one that the cache does not show, or not yet
        raise
    tell_changes(ctx, present, desired, SERVICE_FIELDS)


async def find(ctx: Context[WebServer], desired: T) -> T | None:
    """What there is in the place of `desired`. Raises Hindered where that is somebody else's.

    Where the cache shows nothing the server is asked: an apply would take over what came a moment ago.
    """
    kind, name = type(desired), desired.metadata.name
    present = await ctx.get_or_none(kind, name) or await ctx.client.uncached.get_or_none(kind, name, namespace=ctx.request.namespace)
    if present is not None and not is_controlled_by(present, ctx.object):
        what = f'{kind.__api__.kind} "{name}"'
        raise Hindered("NameTaken", f"{what} is there already, and not of this WebServer; remove one or the other")
    return present


def has_node_port(service: Service) -> bool:
    return any(port.node_port == NODE_PORT for port in service.spec.ports)


def port_taken_by(other: Service) -> Hindered:
    who = f'Service "{other.metadata.namespace}/{other.metadata.name}"'
    return Hindered(PORT_TAKEN, f"node port {NODE_PORT} is taken by {who}; the webserver gets it as soon as it is free")


def keys_of_ports(service: Service) -> list[tuple[int, str]]:
    return [(port.port, port.protocol or "TCP") for port in service.spec.ports]
