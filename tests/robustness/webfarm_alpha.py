"""The first release of the Webfarm example: an operator that knows v1alpha1 only."""

from kubewright import Context, Manager, controller
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import Service
from webfarm_operator.api.v1alpha1.webserver import WebServer
from webfarm_operator.controller.children import deployment_for, service_for
from webfarm_operator.controller.webserver import readiness_of
from webfarm_operator.webhook.webserver_conversion import v1alpha1_to_v1


@controller(WebServer, owns=[Deployment, Service])
async def reconcile(ctx: Context[WebServer]) -> None:
    old = ctx.object
    web = v1alpha1_to_v1(old)
    web.metadata = old.metadata
    deployment = await ctx.apply(deployment_for(web))
    await ctx.apply(service_for(web))
    old.status.ready = readiness_of(deployment)[0] == "True"
    old.status.available = deployment.status.available_replicas or 0
    await ctx.update_status(old.status)


manager = Manager(controllers=[reconcile], name="webfarm-operator")

if __name__ == "__main__":
    manager.main()
