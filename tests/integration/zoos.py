"""An operator with plans, for tests: a Zoo deploys its gates and houses in order, can be upgraded and backed up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from kubewright import Context, CustomResource, Finalizer, Manager, Model, ObjectMeta, Result, controller, field
from kubewright import markers as m
from kubewright.apis.apps.v1 import Deployment, DeploymentSpec
from kubewright.apis.batch.v1 import Job, JobSpec
from kubewright.apis.core.v1 import (
    ConfigMap,
    Container,
    EmptyDirVolumeSource,
    EnvVar,
    Pod,
    PodSpec,
    PodTemplateSpec,
    Secret,
    Service,
    ServicePort,
    ServiceSpec,
    Volume,
    VolumeMount,
)
from kubewright.apis.meta.v1 import Int32, LabelSelector
from kubewright.client import MergePatch
from kubewright.models import PolicyRule
from kubewright.models._values import plain
from kubewright.plans import (
    COLUMNS,
    Apply,
    Call,
    Delete,
    Phase,
    Pipe,
    Plan,
    Plans,
    PlansStatus,
    Step,
    StepContext,
    Toggle,
    Waiting,
    rendered,
)
from kubewright.testing import Cluster, eventually

EXEC = PolicyRule(api_groups=[""], resources=["pods/exec"], verbs=["get", "create"])


class ZooSpec(Model):
    houses: Annotated[Int32, m.Minimum(0)] = 1
    version: str = "1"
    shop: bool = False
    backup: str | None = None


class ZooStatus(PlansStatus):
    visitors: Int32 = 0


class Zoo(CustomResource, group="plans.example.com", version="v1", columns=COLUMNS):
    spec: ZooSpec = field(default_factory=ZooSpec)
    status: ZooStatus = field(default_factory=ZooStatus)


def named(zoo: Zoo, part: str) -> ObjectMeta:
    return ObjectMeta(name=f"{zoo.metadata.name}-{part}", labels={"zoo": zoo.metadata.name})


def config_for(zoo: Zoo) -> ConfigMap:
    return ConfigMap(metadata=named(zoo, "config"), data={"houses": str(zoo.spec.houses)})


def houses_for(zoo: Zoo) -> Deployment:
    labels = {"zoo": zoo.metadata.name, "part": "houses"}
    container = Container(name="house", image=f"zoo.example.com/house:{zoo.spec.version}")
    template = PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[container]))
    return Deployment(
        metadata=named(zoo, "houses"),
        spec=DeploymentSpec(replicas=zoo.spec.houses, selector=LabelSelector(match_labels=labels), template=template),
    )


def service_for(zoo: Zoo) -> Service:
    ports = [ServicePort(port=80)]
    return Service(metadata=named(zoo, "gate"), spec=ServiceSpec(selector={"zoo": zoo.metadata.name}, ports=ports))


def shop_for(zoo: Zoo) -> ConfigMap:
    return ConfigMap(metadata=named(zoo, "shop"), data={"sells": "maps"})


def scaffold_for(zoo: Zoo) -> ConfigMap:
    return ConfigMap(metadata=named(zoo, "scaffold"), data={"is": "temporary"})


async def snapshot_for(step: StepContext[Zoo]) -> Job:
    pod = PodSpec(containers=[Container(name="main", image="zoo.example.com/backup:1")], restart_policy="Never")
    template = PodTemplateSpec(spec=pod)
    name = f"{step.object.metadata.name}-{step.execution}"
    return Job(metadata=ObjectMeta(name=name), spec=JobSpec(template=template, backoff_limit=0))


def spec_without_version(zoo: Zoo) -> object:
    return zoo.spec.houses, zoo.spec.shop


StepFunction = Callable[[StepContext[Zoo]], Awaitable[Waiting | None]]


async def nothing(step: StepContext[Zoo]) -> Waiting | None:
    return None


def zoo_plans(inspect: StepFunction = nothing, farewell: StepFunction = nothing) -> Plans[Zoo]:
    """Return the plans of a Zoo, with functions of a test as two of the steps."""
    return Plans(
        Plan(
            "deploy",
            [
                Phase(
                    "base",
                    [
                        Step("config", [Apply(config_for), Apply(scaffold_for)]),
                        Step("gate", [Apply(service_for)]),
                        Step("shop", [Toggle(shop_for, when=lambda zoo: zoo.spec.shop)]),
                    ],
                    strategy="parallel",
                ),
                Phase("houses", [Step("houses", [Apply(houses_for)], timeout=600), Step("inspect", [Call(inspect)])]),
                Phase("end", [Step("tidy", [Delete(scaffold_for)])]),
            ],
            trigger=spec_without_version,
        ),
        Plan("upgrade", [Phase("houses", [Step("houses", [Apply(houses_for)])])], trigger=lambda zoo: zoo.spec.version),
        Plan(
            "backup",
            [Phase("backup", [Step("run", [Apply(rendered(snapshot_for))])])],
            trigger=lambda zoo: zoo.spec.backup,
            affects_children=False,
        ),
        cleanup=Plan("cleanup", [Phase("farewell", [Step("farewell", [Call(farewell)])])]),
    )


SCRIPT = """
echo $((1000 + $ANIMALS)) > /out/number
printf '# of the zoo\nOPEN=yes\nSTREET=Main Street\n' > /out/settings
"""


def tickets_for(zoo: Zoo) -> Pod:
    """Return a Pod that prints the tickets of a Zoo: files in an emptyDir."""
    mount = VolumeMount(name="out", mount_path="/out")
    env = [EnvVar(name="ANIMALS", value=str(zoo.spec.houses))]
    printer = Container(name="printer", image="busybox", command=["sh", "-c", SCRIPT], env=env, volume_mounts=[mount])
    volume = Volume(name="out", empty_dir=EmptyDirVolumeSource())
    return Pod(metadata=named(zoo, "tickets"), spec=PodSpec(containers=[printer], volumes=[volume]))


def secret_for(zoo: Zoo) -> Secret:
    return Secret(metadata=named(zoo, "tickets"), data={"fixed": b"here"})


def settings_for(zoo: Zoo) -> ConfigMap:
    return ConfigMap(metadata=named(zoo, "settings"))


def ticket_manager() -> Manager:
    """Return an operator that stores in a Secret and a ConfigMap what a Pod prints."""
    pipes = [
        Step("number", [Pipe(tickets_for, into=secret_for, files={"number": "/out/number"})]),
        Step("settings", [Pipe(tickets_for, into=settings_for, env_file="/out/settings")]),
    ]
    plans = Plans(Plan("deploy", [Phase("tickets", pipes)], trigger=lambda zoo: zoo.spec.houses))

    @controller(Zoo, owns=[ConfigMap, Secret, Pod], rules=[EXEC])
    async def reconcile(ctx: Context[Zoo]) -> Result | None:
        return await plans.run(ctx)

    return Manager([reconcile])


def zoo_manager(plans: Plans[Zoo]) -> Manager:
    """Return an operator with these plans."""
    finalizer: Finalizer[Zoo] = plans.finalizer("plans.example.com/cleanup")

    @controller(Zoo, owns=[ConfigMap, Service, Deployment, Job], finalizer=finalizer)
    async def reconcile(ctx: Context[Zoo]) -> Result | None:
        return await plans.run(ctx)

    return Manager([reconcile])


class Zoos:
    """The Zoos of a test's namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.client = cluster.client
        self.namespace = namespace

    async def create(self, name: str = "z", spec: ZooSpec | None = None) -> Zoo:
        return await self.client.create(
            Zoo(metadata=ObjectMeta(name=name, namespace=self.namespace), spec=spec or ZooSpec())
        )

    async def get(self, name: str = "z") -> Zoo:
        return await self.client.get(Zoo, name, namespace=self.namespace)

    async def change(self, spec: ZooSpec, name: str = "z") -> Zoo:
        """Set the fields of the spec; None leaves a field as it is. Never conflicts with the operator."""
        patch = MergePatch({"spec": plain(spec)})
        return await self.client.patch(Zoo, patch, name=name, namespace=self.namespace)

    async def reaches(self, execution: str, state: str, name: str = "z") -> Zoo:
        """Wait until this execution of a plan is in that state."""

        async def check() -> Zoo:
            zoo = await self.get(name)
            plan = zoo.status.plan
            assert plan is not None
            assert (plan.name, plan.state) == (execution, state), plan
            return zoo

        return await eventually(check)

    async def is_ready(self, name: str = "z", spec: ZooSpec | None = None) -> Zoo:
        """Wait until nothing is left to do for the Zoo, and check what it has."""

        async def check() -> Zoo:
            zoo = await self.get(name)
            assert condition(zoo, "Ready") == ("True", "ResourcesReady")
            assert zoo.status.observed_generation == zoo.metadata.generation
            config = await self.client.get(ConfigMap, f"{name}-config", namespace=self.namespace)
            assert config.data == {"houses": str(zoo.spec.houses)}
            houses = await self.client.get(Deployment, f"{name}-houses", namespace=self.namespace)
            assert houses.spec.replicas == houses.status.available_replicas or zoo.spec.houses == 0
            assert houses.spec.replicas == zoo.spec.houses
            shop = await self.client.get_or_none(ConfigMap, f"{name}-shop", namespace=self.namespace)
            assert (shop is not None) == zoo.spec.shop
            assert await self.client.get_or_none(ConfigMap, f"{name}-scaffold", namespace=self.namespace) is None
            await self.client.get(Service, f"{name}-gate", namespace=self.namespace)
            return zoo

        return await eventually(check)


def condition(zoo: Zoo, type: str) -> tuple[str, str | None]:
    """Return status and reason of a condition."""
    found = [(each.status, each.reason) for each in zoo.status.conditions if each.type == type]
    return found[0] if found else ("", None)
