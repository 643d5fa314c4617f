"""The status of plans: what an operator stores in the status of its objects, and `kubectl get` and `describe` show."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal, TypeAlias

from kubewright import markers as m
from kubewright.apis.meta.v1 import Condition, Int32, Int64
from kubewright.models import Model, PrintColumn, field

PlanState: TypeAlias = Literal["Pending", "InProgress", "Complete", "Failed", "Paused", "Canceled", "Superseded"]
"""The state of an execution, a phase or a step. The last three are states of executions only."""

ENDED: Final[frozenset[PlanState]] = frozenset({"Complete", "Failed", "Canceled", "Superseded"})
"""The states of an execution that does nothing more."""


class StepStatus(Model):
    """The state of one step."""

    name: str
    state: PlanState = "Pending"
    message: str = ""
    """What the step waits for, or why its last attempt failed"""
    attempts: Int32 = 0
    """Failed attempts"""
    started: datetime | None = None
    """When the step began"""
    failed: datetime | None = None
    """When the last attempt failed"""
    reported: datetime | None = None
    """When the message last changed"""


class PhaseStatus(Model):
    """The state of one phase."""

    name: str
    state: PlanState = "Pending"
    steps: Annotated[list[StepStatus], m.ListType("map"), m.ListMapKey("name")] = field(
        default_factory=list[StepStatus]
    )


class Execution(Model):
    """One execution of a plan."""

    plan: str
    """The name of the plan"""
    name: str
    """The name of this execution: the plan and a number, such as deploy-3"""
    state: PlanState = "Pending"
    phase: str = ""
    """The phase that runs, or that failed"""
    step: str = ""
    """The step that runs, or that failed"""
    message: str = ""
    """What the step waits for, or why it failed"""
    since: datetime | None = None
    """When the step began, or when the execution ended"""
    started: datetime | None = None
    ended: datetime | None = None
    phases: Annotated[list[PhaseStatus], m.ListType("map"), m.ListMapKey("name")] = field(
        default_factory=list[PhaseStatus]
    )

    @property
    def has_ended(self) -> bool:
        """Whether it does nothing more."""
        return self.state in ENDED


class PlanRecord(Model):
    """What is known about the executions of one plan."""

    name: str
    executions: Int64 = 0
    """The number of executions so far"""
    trigger: str = ""
    """A hash of what triggered the last execution"""
    request: str = ""
    """The last value of the annotation that starts this plan"""
    state: PlanState = "Pending"
    """The state of the last execution"""
    completed: datetime | None = None
    """When an execution was last complete"""


class PlansStatus(Model):
    """The base class of the status of a kind whose objects have plans.

    class ZooStatus(PlansStatus):
        members: int = 0
    """

    plan: Execution | None = None
    """The plan that runs, or that ran last"""
    plans: Annotated[list[PlanRecord], m.ListType("map"), m.ListMapKey("name")] = field(
        default_factory=list[PlanRecord]
    )
    """The executions of each plan"""
    observed_generation: Int64 = 0
    """The generation of the spec that this status describes"""
    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = field(
        default_factory=list[Condition]
    )
    """Progressing: a plan runs. Ready: no plan runs, and everything that the last one made is ready"""


COLUMNS: Final = (
    PrintColumn("Plan", ".status.plan.name"),
    PrintColumn("State", ".status.plan.state"),
    PrintColumn("Phase", ".status.plan.phase"),
    PrintColumn("Step", ".status.plan.step"),
    PrintColumn("Since", ".status.plan.since", type="date"),
    PrintColumn("Ready", '.status.conditions[?(@.type=="Ready")].status'),
    PrintColumn("Message", ".status.plan.message", priority=1),
)
"""What `kubectl get` shows of a kind whose status is a `PlansStatus`."""
