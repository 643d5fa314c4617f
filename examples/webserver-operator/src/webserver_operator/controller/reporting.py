"""What the operator reports: in the status, in Events and in the log."""

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
"""The fields whose changes are reported."""


def report_changes(ctx: Context[WebServer], before: T | None, after: T, fields: Fields[T]) -> None:
    """Report what an apply changed: the object, and the old and new values."""
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


def readiness_of(deployment: Deployment) -> tuple[Literal["True", "False"], str, str]:
    """Return whether the WebServer is Ready, a reason and a message.

    Replicas of an older spec serve too, but do not count as ready.
    """
    status, wanted = deployment.status, deployment.spec.replicas or 0
    total, updated, available = status.replicas or 0, status.updated_replicas or 0, status.available_replicas or 0
    message = f"{available} of {wanted} replicas serve"
    if status.observed_generation != deployment.metadata.generation or not total == updated == wanted:
        return "False", "RollingOut", f"{message}; {updated} of {total} match the spec"
    if available < wanted:
        return "False", "ReplicasMissing", message
    return "True", "AllReplicasAvailable", message


async def warn(ctx: Context[WebServer], reason: str, message: str) -> None:
    """Report a problem that a user has to solve: in the status, and once in an Event."""
    if not any(condition.message == message for condition in ctx.object.status.conditions):
        ctx.log.warning("Spec not satisfied", reason=reason, message=message)
        ctx.events.warning(ctx.object, reason, message, action="Apply")
    await report(ctx, "False", reason, message)


async def report(ctx: Context[WebServer], ready: Literal["True", "False"], reason: str, message: str) -> None:
    """Write the condition Ready, and the generation that it describes, into the status."""
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
