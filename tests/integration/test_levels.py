"""Capability levels: an operator of level V, and operators that pretend to do what a level asks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal, get_args

import pytest
from click.testing import CliRunner

from integration.store_operator import DECLARATION, Lie, Lies, idle, program, project_of
from kubewright import (
    Condition,
    Context,
    CustomResource,
    Finalizer,
    Manager,
    Model,
    ObjectMeta,
    Result,
    controller,
    field,
    set_condition,
)
from kubewright.apis.core.v1 import ConfigMap, Container, Pod, PodSpec, ResourceRequirements
from kubewright.health import health_of
from kubewright.machinery.errors import ConfigError
from kubewright.models import custom_resource_definitions
from kubewright.testing import Cluster, gone
from kubewright.testing.levels import Declaration, Lab, Level, Operator, Process, Report, measure, measure_project
from kubewright_cli.main import cli
from kubewright_cli.olm.bundle import bundle_of
from kubewright_cli.olm.levels import operator_of

EXAMPLES = sorted(each.parent for each in Path(__file__).parents[2].glob("examples/*/levels.json"))
HONEST: Lies = frozenset()
PRETENSES: list[dict[Lie, tuple[str, str]]] = [
    {
        "ready at once": ("I.health", "reported that it was ready before"),
        "random annotation": ("II.restart", "metadata.annotations.seen-by"),
        "any version": ("II.unsupported", "no condition of Store/main mentions the unsupported version 9.9"),
        "empty backup": ("III.backup", "the restored data is"),
        "no budget": ("III.budget", "no PodDisruptionBudget selects"),
        "no limits": ("III.requests", "no resources.limits.memory"),
        "no probes": ("III.probes", "no livenessProbe"),
        "no health metric": ("IV.object-metrics", "no sample of store_healthy"),
        "no runbook": ("IV.alerts", "no annotation runbook_url"),
        "no events": ("IV.events", "no Event was recorded for Store/main"),
        "no scaling down": ("V.scales", "no managed object has more replicas"),
        "no healing": ("V.heals", "wrote no managed object"),
        "no tuning": ("V.tunes", "changed the configuration of no managed object"),
        "no detection": ("V.detects", "neither a Warning nor a condition"),
    },
    {
        "no generation": ("I.status", "nobody can tell whether it describes the current spec"),
        "recreate": ("I.change", "was deleted during the change"),
        "all at once": ("III.rolling", "had only 0 available Pods"),
        "stays ready": ("III.outage", "still reported as ready"),
        "health metric stuck": ("IV.object-metrics", "is still 1 for every object"),
        "unknown metric": ("IV.alerts", "refers to the metric store_happy"),
    },
    {"no rest": ("I.install", "ConfigMap/main-seen is still being written after 3 s")},
    {
        "old generation": ("I.change", "still of generation 1"),
        "broken expression": ("IV.alerts", "does not parse"),
    },
    {
        "nothing": ("I.change", "changed no managed object"),
        "upgrade ignored": ("II.operand", "changed no managed object"),
    },
]
"""Operators that each pretend several things, with the claims that find them out, and words of the reasons."""


async def measured(cluster: Cluster, root: Path, lies: Lies, *claims: str, by: Declaration = DECLARATION) -> Report:
    operator = operator_of(project_of(root, lies), by)
    return await measure(operator, cluster.config, by, claims=claims)


async def test_an_operator_that_does_all_that_is_asked_has_level_v(cluster: Cluster, tmp_path: Path) -> None:
    report = await measured(cluster, tmp_path, HONEST)
    report.require(Level.AUTO_PILOT)
    assert report.capability == "Auto Pilot"
    assert not report.missing


async def test_a_claim_of_level_v_is_refused_without_an_experiment(cluster: Cluster, tmp_path: Path) -> None:
    none = replace(DECLARATION, scales=None, heals=idle, tunes=None, detects=idle)
    claims = ("V.scales", "V.heals", "V.detects")
    report = await measured(cluster, tmp_path, HONEST, *claims, by=none)
    assert report.claim("V.scales").outcome == "missing"
    for each in ("V.heals", "V.detects"):
        assert report.claim(each).outcome == "failed"
        assert "names no cause" in report.claim(each).summary
    assert report.level == Level.NONE, "a part of the claims says nothing about a level"


async def fail(lab: Lab) -> None:
    raise RuntimeError("the client has no connection")


async def test_an_experiment_that_fails_with_any_error_is_a_failed_claim(cluster: Cluster, tmp_path: Path) -> None:
    by = replace(DECLARATION, tunes=fail)
    report = await measured(cluster, tmp_path, HONEST, "V.tunes", by=by)
    assert report.claim("V.tunes").outcome == "failed"
    assert "RuntimeError: the client has no connection (test_levels.py, line" in report.claim("V.tunes").summary


def test_each_pretense_is_tried() -> None:
    assert sorted(chain(*PRETENSES)) == sorted(get_args(Lie))


@pytest.mark.parametrize("pretenses", PRETENSES, ids=lambda each: next(iter(each)))
async def test_an_operator_that_pretends_is_found_out(
    cluster: Cluster, tmp_path: Path, pretenses: dict[Lie, tuple[str, str]]
) -> None:
    claims = [claim for claim, _ in pretenses.values()]
    hasty = replace(DECLARATION, timeout=3.0)
    report = await measured(cluster, tmp_path, frozenset(pretenses), *claims, by=hasty)
    for lie, (claim, words) in pretenses.items():
        found = report.claim(claim)
        assert found.outcome == "failed", (lie, found.summary)
        assert words.lower() in found.summary.lower(), lie
        assert found.remedy


async def test_an_operator_can_be_a_process_in_any_language(cluster: Cluster) -> None:
    project = Path(__file__).parents[2] / "examples" / "sample-controller"
    report = await measure_project(project, cluster.config, claims=["I.status", "II.restart", "II.catch-up"])
    assert {each.id: each.outcome for each in report.claims} == {
        "I.install": "held",
        "I.status": "held",
        "II.restart": "held",
        "II.catch-up": "held",
    }
    evidence = [each.text for each in report.claim("II.restart").evidence]
    assert evidence.count("killed the operator") == 2


async def test_an_operator_whose_process_ends_is_reported(cluster: Cluster, tmp_path: Path) -> None:
    honest = operator_of(project_of(tmp_path, HONEST), DECLARATION)
    broken = replace(honest, program=Process(["sh", "-c", "echo no database; exit 3"]))
    report = await measure(broken, cluster.config, DECLARATION, claims=["I.status"])
    assert report.claim("I.install").outcome == "failed"
    assert "The operator exited with status 3: no database" in report.claim("I.install").summary
    assert report.claim("I.status").outcome == "missing"


async def test_an_unknown_claim_is_rejected(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r'no claim "II\.restrt"; did you mean "II\.restart"'):
        await measured(cluster, tmp_path, HONEST, "II.restrt")


def test_the_command_measures_single_claims(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(Path(__file__).parents[2] / "examples" / "podset-operator")
    before = Path("levels.json").read_bytes()
    page = tmp_path / "new" / "levels.html"
    done = CliRunner().invoke(cli, ["levels", "--claim", "I.status", "--claim", "III.budget", "--html", str(page)])
    assert done.exit_code == 1
    assert "held            I.status            Each sample reports in a condition" in done.output
    assert "A PodDisruptionBudget protects the members (III.budget). No PodDisruptionBudget selects Pod/" in done.output
    assert "Only some claims were measured" in page.read_text()
    assert Path("levels.json").read_bytes() == before


@pytest.mark.parametrize(("lies", "outcome"), [(HONEST, "held"), (frozenset[Lie]({"no limits"}), "failed")])
async def test_an_upgrade_of_the_operator_replaces_no_pod(
    cluster: Cluster, tmp_path: Path, lies: Lies, outcome: str
) -> None:
    previous = replace(DECLARATION, previous=program(lies))
    found = (await measured(cluster, tmp_path, HONEST, "II.operator", by=previous)).claim("II.operator")
    assert found.outcome == outcome, found.summary


async def test_a_later_release_says_how_the_previous_one_runs(cluster: Cluster, tmp_path: Path) -> None:
    later = replace(operator_of(project_of(tmp_path, HONEST), DECLARATION), upgrades=True)
    report = await measure(later, cluster.config, DECLARATION, claims=["II.operator"])
    assert report.claim("II.operator").outcome == "missing"


async def test_an_operator_is_measured_by_its_bundle(cluster: Cluster, tmp_path: Path) -> None:
    project = project_of(tmp_path, HONEST)
    for name, text in bundle_of(project).files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    operator = Operator.from_bundle(tmp_path / "bundle", project.manager)
    assert (operator.name, operator.version) == ("store-operator", "1.0.0")
    claims = ["I.samples", "I.bundle", "I.descriptors", "I.images", "III.killed"]
    report = await measure(operator, cluster.config, DECLARATION, claims=claims)
    assert {each.outcome for each in report.claims} == {"held"}


async def test_a_client_that_is_interrupted_is_an_outage(cluster: Cluster, tmp_path: Path) -> None:
    async def use(lab: Lab) -> None:
        settings = await lab.get("v1", "ConfigMap", "main-config")
        assert settings["data"]["log"] == "info", "the client got no answer"

    found = await measured(cluster, tmp_path, HONEST, "I.change", by=replace(DECLARATION, load=use))
    assert "a client could not use the operand during the change" in found.claim("I.change").summary.lower()


@pytest.mark.long
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.name)
async def test_an_example_has_the_level_that_the_readme_says(cluster: Cluster, example: Path) -> None:
    report = await measure_project(example, cluster.config)
    assert report.level == Report.read(example / "levels.json").level


class ZoneSpec(Model):
    open: bool = False


class ZoneStatus(Model):
    conditions: list[Condition] = field(default_factory=list[Condition])


class Zone(CustomResource, group="zones.test", version="v1", namespaced=False):
    """A zone."""

    spec: ZoneSpec = field(default_factory=ZoneSpec)
    status: ZoneStatus = field(default_factory=ZoneStatus)


@controller(Zone)
async def open_zone(ctx: Context[Zone]) -> None:
    status, generation = ctx.object.status, ctx.object.metadata.generation
    set_condition(status.conditions, "Ready", "True", reason="Open", message="", observed_generation=generation)
    await ctx.update_status(status)


async def test_an_object_can_be_cluster_scoped(cluster: Cluster) -> None:
    crds = custom_resource_definitions([Zone])
    sample = {"apiVersion": "zones.test/v1", "kind": "Zone", "metadata": {"name": "north"}, "spec": {"open": True}}
    zones = Operator(name="zones", program=Manager([open_zone]), crds=crds, samples=[sample])
    report = await measure(zones, cluster.config, claims=["I.samples", "I.status", "I.bundle", "III.killed"])
    outcomes = {each.id: each.outcome for each in report.claims}
    assert outcomes == {
        "I.samples": "held",
        "I.bundle": "missing",
        "I.install": "held",
        "I.status": "held",
        "III.killed": "not applicable",
    }
    await gone(cluster.client.get, Zone, "north")


class Jar(CustomResource, group="jars.test", version="v1"):
    """A jar: a Pod whose memory follows a ConfigMap, and which is replaced to change it."""

    spec: ZoneSpec = field(default_factory=ZoneSpec)
    status: ZoneStatus = field(default_factory=ZoneStatus)


async def keep(ctx: Context[Jar]) -> None:
    """Let the object go, as long as the operator runs."""


@controller(Jar, owns=[Pod], cached=[ConfigMap], finalizer=Finalizer("jars.test/keep", keep))
async def fill_jar(ctx: Context[Jar]) -> Result:
    name, status = ctx.object.metadata.name, ctx.object.status
    memory = (await ctx.get(ConfigMap, "needs")).data["memory"]
    resources = ResourceRequirements(requests={"memory": memory})
    pod = await ctx.get_or_none(Pod, name)
    if pod is None:
        container = Container(name="jar", image="registry.test/jar", resources=resources)
        pod = await ctx.create(Pod(metadata=ObjectMeta(name=name), spec=PodSpec(containers=[container])))
    elif pod.spec.containers[0].resources != resources and pod.metadata.deletion_timestamp is None:
        await ctx.delete(pod)
    ready = health_of(pod).is_ready and pod.spec.containers[0].resources == resources
    generation = ctx.object.metadata.generation
    value: Literal["True", "False"] = "True" if ready else "False"
    set_condition(status.conditions, "Ready", value, reason="Jar", message="", observed_generation=generation)
    await ctx.update_status(status)
    return Result(requeue_after=0.1)


async def empty_and_fill(lab: Lab) -> None:
    """Scale a Pod by its memory, and leave an object with a finalizer behind."""
    await lab.create({"apiVersion": "jars.test/v1", "kind": "Jar", "metadata": {"name": "second"}, "spec": {}})
    needs = await lab.get("v1", "ConfigMap", "needs")
    for memory in ("2Mi", "1Mi"):
        await lab.patch(needs, {"data": {"memory": memory}})
        await lab.until(partial(_requests, lab, memory))


def _requests(lab: Lab, memory: str) -> None:
    found = [each.document["spec"]["containers"][0]["resources"] for each in lab.pods()]
    assert found == [{"requests": {"memory": memory}}] * 2, f"the Pods have {found}"


async def test_members_that_are_replaced_by_larger_ones_are_scaled(cluster: Cluster) -> None:
    metadata = {"name": "needs"}
    needs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"memory": "1Mi"}}
    jars = Operator(
        name="jars",
        program=Manager([fill_jar]),
        crds=custom_resource_definitions([Jar]),
        samples=[{"apiVersion": "jars.test/v1", "kind": "Jar", "metadata": {"name": "first"}, "spec": {}}],
        prerequisites=[needs],
    )
    by = Declaration(scales=empty_and_fill, quiet=0.3)
    report = await measure(jars, cluster.config, by, claims=["V.scales"])
    summary = report.claim("V.scales").summary
    assert "requests.memory of the container jar" in summary
    assert summary.endswith("went from 1Mi to 2Mi, and down to 1Mi.")
    left = await cluster.client.list(Jar, namespace="")
    assert not left.items, "objects of experiments are deleted while the operator can release their finalizers"
