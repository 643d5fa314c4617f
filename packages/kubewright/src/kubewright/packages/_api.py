"""The kinds of KUDO: Operator, OperatorVersion and Instance.

An Operator names a package. An OperatorVersion has the content of one version of it. An Instance is one installation,
with its parameters, the plan that is scheduled, and the status of every plan.

Follows kudo.dev/v1beta1 of KUDO 0.19: its objects are accepted, and its clients read these.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final, Literal, TypeAlias

from kubewright import markers as m
from kubewright.apis.core.v1 import ObjectReference
from kubewright.apis.meta.v1 import Condition
from kubewright.models import CustomResource, PrintColumn, Struct, field
from kubewright.plans import Execution

GROUP: Final = "kudo.dev"
VERSION: Final = "v1beta1"
DEPLOY: Final = "deploy"
UPDATE: Final = "update"
UPGRADE: Final = "upgrade"
CLEANUP: Final = "cleanup"
ParameterType: TypeAlias = Literal["", "string", "integer", "number", "boolean", "array", "map"]
"""The type of a parameter's value; no type is a string."""


class ExecutionStatus(StrEnum):
    """How far a plan, phase or step is."""

    NEVER_RUN = "NEVER_RUN"
    PENDING = "PENDING"
    IN_PROGRESS = "IN_PROGRESS"
    ERROR = "ERROR"
    COMPLETE = "COMPLETE"
    FATAL_ERROR = "FATAL_ERROR"


TERMINAL: Final = (ExecutionStatus.COMPLETE, ExecutionStatus.FATAL_ERROR)
"""The states of a plan that has ended."""
RUNNING: Final = (ExecutionStatus.PENDING, ExecutionStatus.IN_PROGRESS, ExecutionStatus.ERROR)
"""The states of a plan that is being executed."""


class Maintainer(Struct):
    """A person who maintains a package."""

    name: str = ""
    email: str = ""


class OperatorSpec(Struct):
    """What is known of a package."""

    description: str = ""
    kudo_version: str = ""
    kubernetes_version: str = ""
    maintainers: list[Maintainer] = []
    url: str = ""
    namespace_manifest: str = ""
    """The template of the namespace that an installation creates."""


class Operator(CustomResource, group=GROUP, version=VERSION):
    """Operator is a package, in any version."""

    spec: OperatorSpec = field(default_factory=OperatorSpec)


class PipeFile(Struct):
    """A file that a Pipe task copies from its Pod to a Secret or ConfigMap."""

    file: str = ""
    """Path of the file; its content becomes one key."""
    env_file: str = ""
    """Path of a file with lines KEY=VALUE; each becomes one key."""
    kind: str = ""
    key: str = ""
    """The name of the artifact in templates: `{{ .Pipes.<key> }}`."""


class TaskSpec(Struct):
    """What a task does. Which fields are used depends on the kind of the task."""

    resources: list[str] | None = None
    """Apply, Delete, Toggle: the templates of the objects."""
    want_err: bool = False
    """Dummy: fail."""
    fatal: bool = False
    """Dummy: fail permanently."""
    done: bool = False
    """Dummy: complete. Otherwise, it waits."""
    pod: str = ""
    """Pipe: the template of the Pod that makes the files."""
    pipe: list[PipeFile] | None = None
    """Pipe: the files."""
    parameter: str = ""
    """Toggle: the parameter that decides between apply and delete."""
    package: str = ""
    """KudoOperator: the package of the child."""
    instance_name: str = ""
    """KudoOperator: the name of the child instance, if not <instance>-<operator>."""
    app_version: str = ""
    operator_version: str = ""
    parameter_file: str = ""
    """KudoOperator: the template of the child's parameters."""


class Task(Struct):
    """A task, which steps refer to by its name."""

    name: str = ""
    kind: str = ""
    spec: TaskSpec = field(default_factory=TaskSpec)


class Step(Struct):
    """A step of a phase: tasks that are executed in order."""

    name: str = ""
    tasks: list[str] | None = None


class Phase(Struct):
    """A phase of a plan. The strategy orders its steps: `serial` or `parallel`."""

    name: str = ""
    strategy: str = ""
    steps: list[Step] | None = None


class Plan(Struct):
    """A plan. The strategy orders its phases: `serial` or `parallel`."""

    strategy: str = ""
    phases: list[Phase] | None = None


class Parameter(Struct):
    """A parameter. Every value is text; that of an array or a map is YAML."""

    display_name: str = ""
    name: str = ""
    description: str = ""
    required: bool | None = None
    default: str | None = None
    trigger: str = ""
    """The plan that a change of the value triggers."""
    type: str = field(default="", name="value-type")
    immutable: bool | None = None
    enum: list[str] | None = None


class OperatorVersionSpec(Struct):
    """The content of a package."""

    operator: ObjectReference = field(default_factory=ObjectReference)
    version: str = ""
    app_version: str = ""
    templates: dict[str, str] = {}
    tasks: list[Task] = []
    parameters: list[Parameter] = []
    plans: dict[str, Plan] | None = None
    connection_string: str = ""
    upgradable_from: list[ObjectReference] = []

    def plan(self, name: str) -> Plan | None:
        """Return a plan, or None."""
        return (self.plans or {}).get(name)

    def task(self, name: str) -> Task | None:
        """Return a task, or None."""
        return next((each for each in self.tasks if each.name == name), None)


class OperatorVersion(CustomResource, group=GROUP, version=VERSION):
    """OperatorVersion is one version of a package, with its templates, parameters, tasks and plans."""

    spec: OperatorVersionSpec = field(default_factory=OperatorVersionSpec)


class PlanExecution(Struct):
    """The plan that is scheduled or runs. The controller clears it when the plan has ended."""

    plan_name: str = ""
    uid: str = ""
    status: str = ""


class InstanceSpec(Struct):
    """The desired state of an installation."""

    operator_version: ObjectReference = field(default_factory=ObjectReference)
    parameters: dict[str, str] = {}
    plan_execution: PlanExecution = field(default_factory=PlanExecution)


class StepStatus(Struct):
    """How far a step is."""

    name: str = ""
    message: str = ""
    status: str = ""


class PhaseStatus(Struct):
    """How far a phase is."""

    name: str = ""
    status: str = ""
    message: str = ""
    steps: list[StepStatus] = []


class PlanStatus(Struct):
    """How far a plan is, or how its last execution ended."""

    name: str = ""
    status: str = ""
    message: str = ""
    last_updated_timestamp: datetime | None = None
    phases: list[PhaseStatus] = []
    uid: str = ""


class AppliedPlan(Struct):
    """What a plan was last completed with. Drift repair restores what the plan made of it."""

    plan: str = ""
    uid: str = ""
    """The uid of the execution."""
    operator_version: str = ""
    parameters: dict[str, str] = {}


class InstanceStatus(Struct):
    """The state of an installation. KUDO does not have the fields after the conditions."""

    plan_status: dict[str, PlanStatus] = {}
    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = []
    execution: Execution | None = None
    """The plan that runs, or that ran last, with attempts and times."""
    execution_uid: str = ""
    """The uid of this execution in spec.planExecution."""
    last_plan: str = ""
    """The name of the plan of this execution."""
    executions: int = 0
    """The number of executions so far."""
    applied: list[AppliedPlan] = []
    """The plans that are complete, in the order of their completion."""


class Instance(
    CustomResource,
    group=GROUP,
    version=VERSION,
    columns=[
        PrintColumn("Version", ".spec.operatorVersion.name"),
        PrintColumn("Plan", ".status.execution.name"),
        PrintColumn("State", ".status.execution.state"),
        PrintColumn("Step", ".status.execution.step"),
        PrintColumn("Ready", ".status.conditions[?(@.type=='Ready')].status"),
        PrintColumn("Age", ".metadata.creationTimestamp", "date"),
        PrintColumn("Message", ".status.execution.message", priority=1),
    ],
):
    """Instance is one installation of a package, with its parameters and the status of its plans."""

    spec: InstanceSpec = field(default_factory=InstanceSpec)
    status: InstanceStatus = field(default_factory=InstanceStatus)


def operator_version_name(operator: str, app_version: str, version: str) -> str:
    """Return the name of an OperatorVersion: `kafka-2.5.1-1.3.2`."""
    return "-".join(filter(None, (operator, app_version, version)))
