"""The controller of WebServer: brings about what its spec asks for, and says how it stands."""

from datetime import timedelta

from kubewright import Context, LabelSelector, ObjectMeta, Result, controller, set_condition
from kubewright.apis.apps.v1 import Deployment, DeploymentSpec
from kubewright.apis.core.v1 import (
    Container,
    ContainerPort,
    PodSpec,
    PodTemplateSpec,
    Service,
    ServicePort,
    ServiceSpec,
)

from webserver_operator.api.v1.webserver import WebServer


@controller(WebServer, owns=[Deployment, Service])
async def reconcile(ctx: Context[WebServer]) -> Result:
    """Bring the Deployment and the Service about, and say how many replicas serve."""
    web = ctx.object
    deployment = await ctx.apply(deployment_for(web))
    await ctx.apply(service_for(web))
    web.status.available_replicas = deployment.status.available_replicas or 0
    set_condition(
        web.status.conditions,
        "Ready",
        "True" if web.status.available_replicas == web.spec.replicas else "False",
        reason="ReplicasAvailable",
        message=f"{web.status.available_replicas} of {web.spec.replicas} replicas serve",
        observed_generation=web.metadata.generation,
    )
    await ctx.update_status(web.status)
    return Result(requeue_after=timedelta(seconds=10))


def labels_for(web: WebServer) -> dict[str, str]:
    return {"app": "webserver", "webserver_cr": web.metadata.name}


def deployment_for(web: WebServer) -> Deployment:
    labels = labels_for(web)
    container = Container(name="webserver", image=web.spec.image, ports=[ContainerPort(container_port=80)])
    return Deployment(
        metadata=ObjectMeta(name=web.metadata.name, labels=labels),
        spec=DeploymentSpec(
            replicas=web.spec.replicas,
            selector=LabelSelector(match_labels=labels),
            template=PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[container])),
        ),
    )


def service_for(web: WebServer) -> Service:
    labels = labels_for(web)
    port = ServicePort(port=80, target_port=80, node_port=30010, protocol="TCP")
    return Service(
        metadata=ObjectMeta(name=f"{web.metadata.name}-service", labels=labels),
        spec=ServiceSpec(type="NodePort", selector=labels, ports=[port]),
    )
