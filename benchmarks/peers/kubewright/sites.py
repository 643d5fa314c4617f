"""The Site operator on Kubewright: `python sites.py --kubeconfig ...`."""

from collections.abc import Iterable

from kubewright import (
    Condition,
    Context,
    CustomResource,
    Manager,
    Model,
    ObjectMeta,
    Watch,
    controller,
    field,
    set_condition,
)
from kubewright.apis.apps.v1 import Deployment, DeploymentSpec
from kubewright.apis.core.v1 import (
    ConfigMap,
    Container,
    PodSpec,
    PodTemplateSpec,
    Secret,
    Service,
    ServicePort,
    ServiceSpec,
)
from kubewright.apis.meta.v1 import Int32, Int64, LabelSelector

SECRET_VERSION = "bench.kubewright.dev/secret-version"


class SiteSpec(Model):
    """The desired state of a Site."""

    message: str
    """The content of the Site, which a ConfigMap holds"""
    size: Int32
    """The number of replicas"""
    secret: str
    """The name of a Secret in the same namespace"""


class SiteStatus(Model):
    """The observed state of a Site."""

    observed_generation: Int64 | None = None
    """The generation that the status describes"""
    secret_version: str = ""
    """The resource version of the Secret that the Deployment uses"""
    conditions: list[Condition] = []  # noqa: RUF012 - a Model copies it
    """Whether the owned objects match the spec"""


class Site(CustomResource, group="bench.kubewright.dev", version="v1"):
    """Site is the Schema for the sites API"""

    spec: SiteSpec
    status: SiteStatus = field(default_factory=SiteStatus)


def secret_of(site: Site) -> Iterable[str]:
    return [site.spec.secret]


def config_map_for(site: Site) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=site.metadata.name), data={"message": site.spec.message})


def service_for(site: Site) -> Service:
    return Service(
        metadata=ObjectMeta(name=site.metadata.name),
        spec=ServiceSpec(selector={"site": site.metadata.name}, ports=[ServicePort(name="http", port=80)]),
    )


def deployment_for(site: Site, secret_version: str) -> Deployment:
    labels = {"site": site.metadata.name}
    pod = ObjectMeta(labels=labels, annotations={SECRET_VERSION: secret_version})
    container = Container(name="site", image="nginx:1.29")
    return Deployment(
        metadata=ObjectMeta(name=site.metadata.name),
        spec=DeploymentSpec(
            replicas=site.spec.size,
            selector=LabelSelector(match_labels=labels),
            template=PodTemplateSpec(metadata=pod, spec=PodSpec(containers=[container])),
        ),
    )


async def publish(ctx: Context[Site]) -> None:
    """Maintain the ConfigMap, the Service and the Deployment of a Site, and report them in the status."""
    site = ctx.object
    secret = await ctx.get(Secret, site.spec.secret)
    await ctx.apply(config_map_for(site))
    await ctx.apply(service_for(site))
    await ctx.apply(deployment_for(site, secret.metadata.resource_version))
    status = site.status
    status.observed_generation = site.metadata.generation
    status.secret_version = secret.metadata.resource_version
    set_condition(
        status.conditions,
        "Ready",
        "True",
        reason="ObjectsUpToDate",
        message="the owned objects match the spec",
        observed_generation=site.metadata.generation,
    )
    await ctx.update_status(status)


def main(*, one_pass: bool) -> None:
    """Run the operator, whose author may promise that one pass is enough."""
    reconcile = controller(
        Site,
        owns=[ConfigMap, Service, Deployment],
        indexers={"secret": secret_of},
        watches=[Watch.indexed(Secret, "secret")],
        one_pass=one_pass,
    )(publish)
    Manager(controllers=[reconcile]).main()


if __name__ == "__main__":
    main(one_pass=False)
