"""What is told of a WebServer: in its status, in Events, in the log."""

from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeVar

from kubewright import Context, set_condition
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import Service
from kubewright.models import Object

from webserver_operator.api.v1.webserver import WebServer

T = TypeVar("T", bound=Object)
Fields = Mapping[str, Callable[[T], object]]

DEPLOYMENT_FIELDS: Final[Fields[Deployment]] = {
    "spec.replicas": lambda deployment: deployment.spec.replicas,
    "spec.template.spec.containers[0].image": lambda deployment: deployment.spec.template.spec.containers[0].image,
}
SERVICE_FIELDS: Final[Fields[Service]] = {
    "spec.type": lambda service: service.spec.type,
    "spec.selector": lambda service: service.spec.selector,
    "spec.ports": lambda service: [(port.port, port.target_port, port.node_port) for port in service.spec.ports],
}
"""What is told when it changes."""


def tell_changes(ctx: Context[WebServer], before: T | None, after: T, fields: Fields[T]) -> None:
    """Say what was done: to which object, and from which value to which."""
    kind, name = after.__api__.kind, after.metadata.name
    if before is None:
        ctx.log.info(f"{kind} created", object=name)
        ctx.events.normal(ctx.object, "Created", f"Created {kind} {name}", action="Create")
        return
    for path, value in fields.items():
        old, new = value(before), value(after)
        if old != new:
            ctx.log.info(f"{kind} {path} change", object=name, before=old, after=new)
            ctx.events.normal(ctx.object, "Changed", f"{kind} {name}: {path} from {old} to {new}", action="Change")


def judge(deployment: Deployment) -> tuple[Literal["True", "False"], str, str]:
    """Whether the WebServer is Ready, the reason, and a message.

    Replicas of the spec before this one serve too, but that is not what was asked for.
    """
    status, wanted = deployment.status, deployment.spec.replicas or 0
    total, updated, available = status.replicas or 0, status.updated_replicas or 0, status.available_replicas or 0
    message = f"{available} of {wanted} replicas serve"
    if status.observed_generation != deployment.metadata.generation or not total == updated == wanted:
        return "False", "RollingOut", f"{message}; {updated} of {total} are as the spec asks for"
    if available < wanted:
        return "False", "ReplicasMissing", message
    return "True", "AllReplicasAvailable", message


async def warn(ctx: Context[WebServer], reason: str, message: str) -> None:
    """Say in the status, and once in an Event, what somebody has to do something about."""
    if not any(condition.message == message for condition in ctx.object.status.conditions):
        ctx.log.warning("Not as the spec asks for", reason=reason, why=message)
        ctx.events.warning(ctx.object, reason, message, action="Apply")
    await report(ctx, "False", reason, message)


async def report(ctx: Context[WebServer], ready: Literal["True", "False"], reason: str, message: str) -> None:
    """Say in the status whether it is Ready, and of which generation of the spec that is said."""
    web = ctx.object
    web.status.observed_generation = web.metadata.generation or 0
    set_condition(
        web.status.conditions,
        "Ready",
        ready,
        reason=reason,
        message=message,
        observed_generation=web.metadata.generation,
    )
    await ctx.update_status(web.status)
