"""The WebServer controller: applies the children and reports the status. It knows v1 only."""

from typing import Literal

from kubewright import Context, controller, set_condition
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import Service

from webfarm_operator.api.v1.webserver import WebServer
from webfarm_operator.controller.children import deployment_for, service_for


@controller(WebServer, owns=[Deployment, Service])
async def reconcile(ctx: Context[WebServer]) -> None:
    """Apply the Deployment and the Service, and report whether all Pods are available."""
    web = ctx.object
    deployment = await ctx.apply(deployment_for(web))
    await ctx.apply(service_for(web))
    ready, reason, message = readiness_of(deployment)
    web.status.observed_generation = web.metadata.generation or 0
    web.status.available_replicas = deployment.status.available_replicas or 0
    set_condition(
        web.status.conditions,
        "Ready",
        ready,
        reason=reason,
        message=message,
        observed_generation=web.metadata.generation,
    )
    await ctx.update_status(web.status)


def readiness_of(deployment: Deployment) -> tuple[Literal["True", "False"], str, str]:
    """Return whether all Pods match the spec and are available, a reason and a message."""
    status, wanted = deployment.status, deployment.spec.replicas or 0
    total, updated, available = status.replicas or 0, status.updated_replicas or 0, status.available_replicas or 0
    message = f"{available} of {wanted} Pods are available"
    if status.observed_generation != deployment.metadata.generation or not total == updated == available == wanted:
        return "False", "RollingOut", message
    return "True", "AllPodsAvailable", message
