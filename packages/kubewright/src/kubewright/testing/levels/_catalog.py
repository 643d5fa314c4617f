"""The claims: what each level asks, and what a developer does if a claim is not held.

Source: https://sdk.operatorframework.io/docs/overview/operator-capabilities/, and operator-sdk's scorecard.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Asked:
    """One thing that a level asks."""

    id: str
    title: str
    remedy: str

    @property
    def level(self) -> int:
        """The lowest level that asks for it."""
        return ("I", "II", "III", "IV", "V").index(self.id.partition(".")[0]) + 1


CLAIMS: Final = (
    Asked(
        "I.samples",
        "Each kind has a sample with a spec",
        "Add an object of the kind with a spec to config/samples.",
    ),
    Asked("I.bundle", "The bundle is valid", "Run `kubewright bundle validate`, and follow its findings."),
    Asked(
        "I.schema",
        "The CRD has a schema for each field of the samples",
        "Declare the field in the class of the kind, or remove it from the sample.",
    ),
    Asked(
        "I.resources",
        "The bundle names the resources of each kind",
        "Declare what the controller creates: `owns` and `writes` of `@controller`.",
    ),
    Asked(
        "I.descriptors",
        "Each field of spec and status has a descriptor",
        "Generate the bundle with `kubewright generate bundle`, which makes descriptors from the fields.",
    ),
    Asked("I.documented", "Each field has a description", "Add a docstring below the field."),
    Asked(
        "I.install",
        "The samples install and become ready",
        "Read the last evidence: it has the object's own words. Create what the samples need with `prepare` of the "
        "declaration.",
    ),
    Asked(
        "I.status",
        "The status says whether the object is ready, and for which generation",
        "Set a condition such as Ready, with its observedGeneration, in each reconcile.",
    ),
    Asked(
        "I.health",
        "An object is not ready before the objects that it manages are",
        "Read the status of the managed objects before you report Ready, and compare their observedGeneration.",
    ),
    Asked(
        "I.change",
        "A changed spec is carried out without an outage, and the status shows it",
        "Declare a change: `changes=[Change(kind, {...})]`. Update objects instead of deleting and creating them.",
    ),
    Asked(
        "I.images",
        "Images can be replaced, and the bundle lists them",
        "Take images from the spec, or from a variable RELATED_IMAGE_* in `env` of the settings.",
    ),
    Asked(
        "II.restart",
        "A restart of the operator rewrites and restarts nothing",
        "Apply what the spec says and nothing that differs between two runs, such as times, random values or orders.",
    ),
    Asked(
        "II.catch-up",
        "A change made while the operator is down is carried out later",
        "Compare the spec with the managed objects in each reconcile, not only when an event reports a change.",
    ),
    Asked(
        "II.operator",
        "A new version of the operator takes over the objects of the previous one",
        "Declare how the previous release runs, `previous=...`, so that the upgrade can be tried.",
    ),
    Asked(
        "II.operand",
        "The operand is upgraded by a change of the custom resource",
        "Declare which field is the version, and two versions: "
        '`upgrade=Upgrade(kind, "spec.version", old="1.0", new="1.1")`.',
    ),
    Asked(
        "II.unsupported",
        "An unsupported version is rejected, or reported in the status, and nothing breaks",
        'Declare a version that the operator must not accept, `unsupported="..."` of the upgrade, and report it in a '
        "condition or reject it with a rule of the kind.",
    ),
    Asked(
        "III.backup",
        "A backup can be restored, and the result is managed again",
        "Declare how data is written, backed up, lost, restored and read: `backup=Backup(...)`.",
    ),
    Asked(
        "III.rolling",
        "A change replaces one member at a time",
        "Use a rolling update, or replace members one by one and wait until each is ready. The sample needs two "
        "members or more, and a declared change or upgrade has to replace them.",
    ),
    Asked(
        "III.scale",
        "Members are added and removed",
        "Declare the subresource scale of the kind, or `scaling=Scaling(kind, field)`.",
    ),
    Asked(
        "III.killed",
        "A member that is killed is replaced",
        "Recreate deleted Pods, or let a StatefulSet or Deployment do it.",
    ),
    Asked(
        "III.outage",
        "The status reports a member that is not ready",
        "Watch the managed objects (`owns`), and set the condition to False when one of them is not ready.",
    ),
    Asked(
        "III.budget",
        "A PodDisruptionBudget protects the members",
        "Create a PodDisruptionBudget that selects the Pods of each custom resource.",
    ),
    Asked(
        "III.requests",
        "Each container has requests, and a limit of memory",
        "Set `resources` of each container: requests of CPU and memory, and a limit of memory.",
    ),
    Asked(
        "III.probes",
        "Each container has a liveness and a readiness probe",
        "Set `livenessProbe` and `readinessProbe` of each container that keeps running.",
    ),
    Asked(
        "III.volume",
        "A member whose volume is lost comes back",
        "Recreate the claim of the member, and let the new member copy the data of the others.",
    ),
    Asked(
        "IV.metrics",
        "The operator serves metrics with help texts",
        "Serve metrics (`metrics_address` of the Manager), and give each metric a help text.",
    ),
    Asked(
        "IV.object-metrics",
        "A metric tells the health of each object",
        "Register a gauge with the name and namespace of the object as labels, 1 if it is ready and 0 if not, and name "
        'it: `health_metric="..."`.',
    ),
    Asked(
        "IV.operand-metrics",
        "The operand serves metrics",
        "Declare how the metrics of an operand are read: `operand_metrics=...`, a coroutine that returns their text.",
    ),
    Asked(
        "IV.alerts",
        "Alert rules have a severity and a runbook, and refer to metrics that exist",
        "Add a PrometheusRule to the bundle (`manifests` in [tool.kubewright.bundle]), or create one with each object.",
    ),
    Asked(
        "IV.dashboard",
        "A dashboard shows metrics that exist",
        'Name the files of your Grafana dashboards: `dashboards=["config/grafana/*.json"]`.',
    ),
    Asked(
        "IV.events",
        "Changes are reported in Events",
        "Record Events of the custom resource, `ctx.events.normal(...)`, when the operator changes something.",
    ),
    Asked(
        "V.scales",
        "The operand is scaled up and down by its metrics",
        "Declare an experiment, `scales=...`, that changes the load; the number of replicas, or the CPU or memory that "
        "the Pods request, must follow.",
    ),
    Asked(
        "V.heals",
        "An unhealthy operand is found and repaired",
        "Declare an experiment, `heals=...`, that damages an operand in a way that Kubernetes alone does not repair.",
    ),
    Asked(
        "V.tunes",
        "The operand is tuned to its load",
        "Declare an experiment, `tunes=...`; the operator must change the configuration or the place of an operand.",
    ),
    Asked(
        "V.detects",
        "A deviation from the learned baseline is reported",
        "Declare an experiment, `detects=...`, that deviates from what the operator has learned; an Event or a "
        "condition must report it.",
    ),
)
"""All claims, by level."""

BY_ID: Final = {each.id: each for each in CLAIMS}
