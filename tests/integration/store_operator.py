"""A small operator of level V, and versions of it that each pretend something.

A Store is a Deployment with data in a ConfigMap. Its load stands in another ConfigMap, where a client would measure it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Final, Literal
from uuid import uuid4

from prometheus_client import Gauge

from kubewright import (
    Condition,
    Context,
    CustomResource,
    Manager,
    Model,
    ObjectMeta,
    PrintColumn,
    controller,
    field,
    set_condition,
)
from kubewright import markers as m
from kubewright.apis.apps.v1 import Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment
from kubewright.apis.core.v1 import (
    ConfigMap,
    Container,
    HTTPGetAction,
    PodSpec,
    PodTemplateSpec,
    Probe,
    ResourceRequirements,
)
from kubewright.apis.meta.v1 import Int64, LabelSelector
from kubewright.apis.policy.v1 import PodDisruptionBudget, PodDisruptionBudgetSpec
from kubewright.machinery import yaml
from kubewright.machinery.json import JSONObject
from kubewright.models import Scale
from kubewright.testing.levels import Backup, Change, Declaration, Lab, Upgrade
from kubewright_cli.manifests.olmsettings import BundleSettings
from kubewright_cli.manifests.settings import Settings
from kubewright_cli.project import Project

IMAGE: Final = "registry.test/store"
SUPPORTED: Final = ("1.0", "1.1")
API: Final = "levels.test/v1"

Lie = Literal[
    "ready at once",
    "no rest",
    "no generation",
    "old generation",
    "random annotation",
    "recreate",
    "nothing",
    "upgrade ignored",
    "any version",
    "empty backup",
    "no budget",
    "no limits",
    "no probes",
    "all at once",
    "stays ready",
    "no health metric",
    "health metric stuck",
    "no runbook",
    "broken expression",
    "unknown metric",
    "no events",
    "no healing",
    "no tuning",
    "no detection",
    "no scaling down",
]

Lies = frozenset[Lie]


class StoreSpec(Model):
    """The desired state of a Store."""

    replicas: Annotated[int, m.Minimum(1)] = 2
    """The number of members."""
    version: str = "1.0"
    """The version of the store."""
    level: str = "info"
    """The level of its log."""
    restore_from: str = ""
    """The name of a backup whose data replaces that of the store."""


class StoreStatus(Model):
    """The observed state of a Store."""

    observed_generation: Int64 | None = None
    """The generation of the spec that this status describes."""
    restored_from: str = ""
    """The name of the backup that was restored last."""
    replicas: int = 0
    """The number of members."""
    selector: str = ""
    """The labels of the members."""
    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = field(default_factory=list)
    """Ready is True when all members serve."""


class Store(
    CustomResource,
    group="levels.test",
    version="v1",
    scale=Scale(replicas=".spec.replicas", status_replicas=".status.replicas", selector=".status.selector"),
    columns=[PrintColumn("Ready", '.status.conditions[?(@.type=="Ready")].status')],
):
    """A store of data."""

    spec: StoreSpec = field(default_factory=StoreSpec)
    status: StoreStatus = field(default_factory=StoreStatus)


def program(lies: Lies = frozenset()) -> Manager:
    """Return the operator, which is honest, or lies about some things."""
    healthy = Gauge("store_healthy", "Whether the store is ready.", ["namespace", "name"], registry=None)

    @controller(Store, owns=[Deployment, ConfigMap, PodDisruptionBudget])
    async def reconcile(ctx: Context[Store]) -> None:
        store = ctx.object
        name = store.metadata.name
        if store.spec.version not in SUPPORTED and "any version" not in lies:
            await report(ctx, "False", "Unsupported", f"version {store.spec.version} is not supported", lies)
            return
        load = await tended(ctx, lies)
        await backed_up(ctx, lies)
        if "recreate" in lies:
            old = await ctx.get_or_none(Deployment, name)
            if old is not None and old.metadata.annotations.get("level") != store.spec.level:
                await ctx.delete(old)
        if await ctx.get_or_none(Deployment, name) is None and "no events" not in lies:
            ctx.events.normal(store, "Created", f"Created Deployment {name}", action="Create")
        applied = await ctx.apply(deployment_for(store, load, lies))
        if not lies & {"no budget", "nothing"}:
            await ctx.apply(budget_for(store))
        ready = is_healthy(applied) or "ready at once" in lies
        ready |= "stays ready" in lies and any(each.status == "True" for each in store.status.conditions)
        if "no health metric" not in lies:
            healthy.labels(store.metadata.namespace, name).set(ready or "health metric stuck" in lies)
        store.status.replicas, store.status.selector = applied.status.replicas or 0, f"store={name}"
        await report(ctx, "True" if ready else "False", "Serves" if ready else "Starting", f"load {load}", lies)
        if "no rest" in lies:
            await ctx.apply(ConfigMap(metadata=ObjectMeta(name=f"{name}-seen"), data={"by": uuid4().hex}))

    @asynccontextmanager
    async def lifespan(manager: Manager) -> AsyncIterator[None]:
        PROCESS[0] = uuid4().hex
        yield

    manager = Manager([reconcile], name="store-operator", lifespan=lifespan)
    manager.metrics.registry.register(healthy)
    return manager


def is_healthy(deployment: Deployment) -> bool:
    status, wanted = deployment.status, deployment.spec.replicas or 0
    current = status.observed_generation == deployment.metadata.generation
    return current and (status.available_replicas or 0) == (status.updated_replicas or 0) == wanted


async def tended(ctx: Context[Store], lies: Lies) -> int:
    """Read the load, and act on it: tune the cache, report a deviation. Returns the load."""
    store, name = ctx.object, ctx.object.metadata.name
    measured = await ctx.get_or_none(ConfigMap, f"{name}-load")
    if measured is None:
        measured = await ctx.apply(ConfigMap(metadata=ObjectMeta(name=f"{name}-load"), data={}))
    load = int(measured.data.get("requests", "0"))
    cache = "large" if load >= 200 and "no tuning" not in lies else "small"
    if "nothing" not in lies:
        await ctx.apply(
            ConfigMap(metadata=ObjectMeta(name=f"{name}-config"), data={"cache": cache, "log": store.spec.level})
        )
    usual = int(measured.data.get("usual", "100"))
    if load > 5 * usual and "no detection" not in lies:
        ctx.events.warning(store, "Deviation", f"{load} requests, {usual} are usual", action="Watch")
    if measured.data.get("state") == "corrupt" and "no healing" not in lies:
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name=f"{name}-repaired"), data={"by": "operator"}))
    return load


async def backed_up(ctx: Context[Store], lies: Lies) -> None:
    """Make a backup when the annotation asks for it, and restore one when the spec does."""
    store, name = ctx.object, ctx.object.metadata.name
    data = await ctx.get_or_none(ConfigMap, f"{name}-data")
    wanted = store.metadata.annotations.get("levels.test/backup")
    if wanted and await ctx.get_or_none(ConfigMap, wanted) is None:
        kept = dict(data.data) if data is not None and "empty backup" not in lies else {}
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name=wanted), data=kept))
    if store.spec.restore_from and store.status.restored_from != store.spec.restore_from:
        backup = await ctx.get_or_none(ConfigMap, store.spec.restore_from)
        kept = dict(backup.data) if backup is not None else {}
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name=f"{name}-data"), data=kept))
        store.status.restored_from = store.spec.restore_from


def deployment_for(store: Store, load: int, lies: Lies) -> Deployment:
    name, labels = store.metadata.name, {"store": store.metadata.name}
    replicas = max(store.spec.replicas, load // 100)
    if "no scaling down" in lies:
        replicas = store.spec.replicas + (2 if load or SCALED.get(store.metadata.uid or "") else 0)
        SCALED[store.metadata.uid or ""] = replicas > store.spec.replicas
    version = SUPPORTED[0] if "upgrade ignored" in lies or store.spec.version not in SUPPORTED else store.spec.version
    if "any version" in lies:
        version = store.spec.version
    probe = Probe(http_get=HTTPGetAction(path="/", port=80)) if "no probes" not in lies else None
    limits = {"memory": "32Mi"} if "no limits" not in lies else {}
    container = Container(
        name="store",
        image=f"{IMAGE}:{version}",
        resources=ResourceRequirements(requests={"cpu": "10m", "memory": "32Mi"}, limits=limits),
        liveness_probe=probe,
        readiness_probe=probe,
    )
    rolling = RollingUpdateDeployment(max_unavailable=0, max_surge=1)
    strategy = (
        DeploymentStrategy(type="Recreate") if "all at once" in lies else DeploymentStrategy(rolling_update=rolling)
    )
    notes = {"level": store.spec.level if "nothing" not in lies else ""}
    if "random annotation" in lies:
        notes["seen-by"] = PROCESS[0]
    return Deployment(
        metadata=ObjectMeta(name=name, labels=labels, annotations=notes),
        spec=DeploymentSpec(
            replicas=replicas,
            selector=LabelSelector(match_labels=labels),
            strategy=strategy,
            template=PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[container])),
        ),
    )


SCALED: Final[dict[str, bool]] = {}
PROCESS: Final = [""]
"""What differs between two runs of the operator."""


def budget_for(store: Store) -> PodDisruptionBudget:
    selector = LabelSelector(match_labels={"store": store.metadata.name})
    spec = PodDisruptionBudgetSpec(max_unavailable=1, selector=selector)
    return PodDisruptionBudget(metadata=ObjectMeta(name=store.metadata.name), spec=spec)


async def report(ctx: Context[Store], ready: Literal["True", "False"], reason: str, message: str, lies: Lies) -> None:
    store = ctx.object
    generation = store.metadata.generation or 0
    observed = 1 if "old generation" in lies else None if "no generation" in lies else generation
    store.status.observed_generation = observed
    set_condition(store.status.conditions, "Ready", ready, reason=reason, message=message, observed_generation=observed)
    await ctx.update_status(store.status)


# ---- what its author declares


async def _change(lab: Lab, name: str, data: Mapping[str, str | None]) -> None:
    await lab.patch(await lab.get("v1", "ConfigMap", name), {"data": dict(data)})


async def write(lab: Lab) -> None:
    await lab.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "main-data"}, "data": {"answer": "42"}}
    )


async def read(lab: Lab) -> str:
    return str((await lab.get("v1", "ConfigMap", "main-data")).get("data", {}).get("answer", ""))


async def take(lab: Lab) -> None:
    await lab.patch(lab.sample("Store"), {"metadata": {"annotations": {"levels.test/backup": "backup-1"}}})
    await lab.until(lambda: lab.get("v1", "ConfigMap", "backup-1"))


async def lose(lab: Lab) -> None:
    await lab.delete(await lab.get("v1", "ConfigMap", "main-data"))


async def restore(lab: Lab) -> None:
    await lab.patch(lab.sample("Store"), {"spec": {"restoreFrom": "backup-1"}})
    await lab.settle()


async def scales(lab: Lab) -> None:
    lab.did("raised the load to 400 requests")
    await _change(lab, "main-load", {"requests": "400"})

    async def check() -> None:
        deployment = await lab.get("apps/v1", "Deployment", "main")
        assert deployment.get("spec", {})["replicas"] == 4

    await lab.until(check)
    await lab.settle()
    lab.did("lowered the load")
    await _change(lab, "main-load", {"requests": None})


async def heals(lab: Lab) -> None:
    lab.did("corrupted the data", "ConfigMap/main-load")
    await _change(lab, "main-load", {"state": "corrupt"})


async def tunes(lab: Lab) -> None:
    lab.did("raised the load to 200 requests")
    await _change(lab, "main-load", {"requests": "200"})


async def detects(lab: Lab) -> None:
    lab.did("raised the load to six times the usual")
    await _change(lab, "main-load", {"requests": "600"})


async def operand_metrics(lab: Lab) -> str:
    return "# HELP store_requests_total Requests.\n# TYPE store_requests_total counter\nstore_requests_total 1\n"


async def idle(lab: Lab) -> None:
    """Do nothing, as an author does who wants a claim and has no experiment."""


DECLARATION: Final = Declaration(
    changes=[Change("Store", {"level": "debug"})],
    upgrade=Upgrade("Store", "spec.version", old="1.0", new="1.1", unsupported="9.9"),
    backup=Backup(write=write, take=take, lose=lose, restore=restore, read=read),
    health_metric="store_healthy",
    operand_metrics=operand_metrics,
    dashboards=["dashboard.json"],
    scales=scales,
    heals=heals,
    tunes=tunes,
    detects=detects,
    quiet=0.3,
)

SAMPLE: Final = {
    "apiVersion": API,
    "kind": "Store",
    "metadata": {"name": "main"},
    "spec": {"replicas": 2, "version": "1.0"},
}


def project_of(root: Path, lies: Lies = frozenset()) -> Project:
    """Write the files of the project, and return it."""
    for name, text in {
        "config/samples/store.yaml": yaml.dump(SAMPLE),
        "olm/alerts.yaml": yaml.dump(_alerts(lies)),
        "RUNBOOK.md": "# Runbooks\n\n## Store down\n\nLook at the Pods.\n",
        "dashboard.json": json.dumps(
            {"panels": [{"targets": [{"expr": "sum(rate(store_requests_total[$__rate_interval]))"}]}]}
        ),
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    images = {f"store-{each}": f"{IMAGE}:{each}" for each in SUPPORTED}
    settings = Settings(
        name="store-operator",
        version="1.0.0",
        description="Keeps stores.",
        manager="store_operator:manager",
        bundle=BundleSettings(manifests=("olm/*.yaml",), related_images=images),
    )
    return Project(root, settings, program(lies), [Store])


def _alerts(lies: Lies) -> JSONObject:
    expression = "store_happy == 0" if "unknown metric" in lies else "store_healthy == 0"
    if "broken expression" in lies:
        expression = "sum(store_healthy) by (name < 1"
    annotations = {"summary": "The store is down."}
    if "no runbook" not in lies:
        annotations["runbook_url"] = "RUNBOOK.md#store-down"
    rule = {"alert": "StoreDown", "expr": expression, "labels": {"severity": "critical"}, "annotations": annotations}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "store-operator"},
        "spec": {"groups": [{"name": "store", "rules": [rule]}]},
    }
