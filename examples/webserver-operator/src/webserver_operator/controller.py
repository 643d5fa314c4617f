"""The reconciler: brings the Deployment and the Service of a WebServer about, and says how they are."""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Final, Literal, TypeVar

from kubewright import Context, Invalid, Lister, NotFound, Object, Request, Result, Watch, controller, set_condition
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import Service
from kubewright.client import MergePatch
from kubewright.models import codec
from webserver_operator.children import NODE_PORT, deployment_for, service_for
from webserver_operator.types import WebServer

LOOK_AGAIN: Final = Result(requeue_after=timedelta(seconds=10))
RETRY: Final = Result(requeue_after=timedelta(seconds=5))
AVAILABLE: Final = "Available"
PORT_TAKEN: Final = "NodePortTaken"

DEPLOYMENT_FIELDS: Final[Mapping[str, Callable[[Deployment], object]]] = {
    "spec.replicas": lambda deployment: deployment.spec.replicas,
    "spec.template.spec.containers[0].image": lambda deployment: deployment.spec.template.spec.containers[0].image,
}
SERVICE_FIELDS: Final[Mapping[str, Callable[[Service], object]]] = {
    "spec.type": lambda service: service.spec.type,
    "spec.selector": lambda service: service.spec.selector,
    "spec.ports": lambda service: [(port.port, port.target_port, port.node_port) for port in service.spec.ports],
}
"""What is worth a line in the log when it changes."""

T = TypeVar("T", bound=Object)


def waiting_for_port(service: Service, webs: Lister[WebServer]) -> Iterable[Request]:
    """A Service that changed or went may have freed the port that some WebServers wait for."""
    for web in webs.list():
        if any(each.type == AVAILABLE and each.reason == PORT_TAKEN for each in web.status.conditions):
            yield Request(web.metadata.namespace, web.metadata.name)


@controller(WebServer, owns=[Deployment, Service], watches=[Watch(Service, map=waiting_for_port)])
async def reconcile(ctx: Context[WebServer]) -> Result:
    deployment = await apply_deployment(ctx)
    try:
        await apply_service(ctx)
    except Invalid as error:
        if not any(cause.field == "spec.ports[0].nodePort" for cause in error.causes):
            raise
        await report_taken_port(ctx, deployment)
        return RETRY
    await report(ctx, deployment)
    return LOOK_AGAIN


async def apply_deployment(ctx: Context[WebServer]) -> Deployment:
    desired = deployment_for(ctx.object)
    present = await find(ctx, Deployment, desired.metadata.name)
    applied = await ctx.apply(desired)
    log_changes(ctx, present, desired, DEPLOYMENT_FIELDS)
    return applied


async def apply_service(ctx: Context[WebServer]) -> None:
    """Apply the Service. An apply leaves alone what others added to a list: their ports are taken out before it."""
    desired = service_for(ctx.object)
    present = await find(ctx, Service, desired.metadata.name)
    if present and [port.port for port in present.spec.ports] != [port.port for port in desired.spec.ports]:
        await ctx.patch(present, MergePatch({"spec": {"ports": codec.to_dict(desired)["spec"]["ports"]}}))
    await ctx.apply(desired)
    log_changes(ctx, present, desired, SERVICE_FIELDS)


async def find(ctx: Context[WebServer], kind: type[T], name: str) -> T | None:
    try:
        return await ctx.get(kind, name)
    except NotFound:
        return None


def log_changes(
    ctx: Context[WebServer], before: T | None, after: T, fields: Mapping[str, Callable[[T], object]]
) -> None:
    """Say what was done: to which object, and from which value to which."""
    kind, name = after.__api__.kind, after.metadata.name
    if before is None:
        ctx.log.info(f"{kind} created", object=name)
        return
    for path, value in fields.items():
        if value(before) != value(after):
            ctx.log.info(f"{kind} {path} change", object=name, before=value(before), after=value(after))


async def report(ctx: Context[WebServer], deployment: Deployment) -> None:
    """Say in the status whether all replicas serve."""
    wanted = ctx.object.spec.replicas
    available = deployment.status.available_replicas or 0
    message = f"{available} of {wanted} replicas serve"
    if available >= wanted:
        await write_status(ctx, available, "True", "AllReplicasAvailable", message)
    else:
        await write_status(ctx, available, "False", "ReplicasMissing", message)


async def report_taken_port(ctx: Context[WebServer], deployment: Deployment) -> None:
    """Say in the status and in an Event who has the node port."""
    holder = next((service for service in await ctx.list(Service, namespace="") if has_node_port(service)), None)
    who = f'Service "{holder.metadata.namespace}/{holder.metadata.name}"' if holder else "another Service"
    message = f"node port {NODE_PORT} is taken by {who}; the webserver gets it as soon as it is free"
    ctx.events.warning(ctx.object, PORT_TAKEN, message, action="CreateService")
    if not any(condition.message == message for condition in ctx.object.status.conditions):
        ctx.log.warning("Node port is taken", port=NODE_PORT, by=who)
    await write_status(ctx, deployment.status.available_replicas or 0, "False", PORT_TAKEN, message)


def has_node_port(service: Service) -> bool:
    return any(port.node_port == NODE_PORT for port in service.spec.ports)


async def write_status(
    ctx: Context[WebServer], available: int, holds: Literal["True", "False"], reason: str, message: str
) -> None:
    web = ctx.object
    web.status.available_replicas = available
    set_condition(
        web.status.conditions,
        AVAILABLE,
        holds,
        reason=reason,
        message=message,
        observed_generation=web.metadata.generation,
    )
    await ctx.update_status(web.status)
