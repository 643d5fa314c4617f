"""Plans: work in an order, with progress in the status, that survives any crash.

Plan, Phase, Step                       what is done, in which order
Apply, Delete, Toggle, Pipe, Call, Task what a step does; `rendered` for builders that are async or need the step
Waiting, StepContext                    what tasks return and receive
Gate, CEL                               what a step waits for in addition, in Python or as an expression
Plans                                   the plans of an operator: what is due, the status, drift repair, cleanup
PlansStatus, COLUMNS                    the status and the columns of a kind with plans
Execution, PlanRecord                   parts of the status
start, cancel, pause, resume, retry     ask an operator from a program; they set the annotations START, CANCEL, ...
repair                                  drift repair, for callers with their own status and rules
apply_objects, delete_objects           what Apply and Delete do, for tasks of your own

`kubewright.plans.engine` executes a plan for callers that store its state in a status of their own, and
`kubewright.plans.pipes` has the parts of Pipe.
"""

from kubewright.plans._gates import CEL, ReadyCheck, Waiting
from kubewright.plans._plan import Child, Children, Gate, Phase, Plan, Step, StepContext, Strategy, Task
from kubewright.plans._plans import Plans
from kubewright.plans._repair import Repair, repair
from kubewright.plans._requests import CANCEL, PAUSE, RETRY, START, cancel, pause, resume, retry, start
from kubewright.plans._status import COLUMNS, Execution, PhaseStatus, PlanRecord, PlansStatus, PlanState, StepStatus
from kubewright.plans._tasks import (
    Apply,
    Builder,
    Call,
    Delete,
    Rendered,
    Toggle,
    apply_objects,
    delete_objects,
    rendered,
    unreadiness,
)
from kubewright.plans.pipes import Pipe

__all__ = [
    "CANCEL",
    "CEL",
    "COLUMNS",
    "PAUSE",
    "RETRY",
    "START",
    "Apply",
    "Builder",
    "Call",
    "Child",
    "Children",
    "Delete",
    "Execution",
    "Gate",
    "Phase",
    "PhaseStatus",
    "Pipe",
    "Plan",
    "PlanRecord",
    "PlanState",
    "Plans",
    "PlansStatus",
    "ReadyCheck",
    "Rendered",
    "Repair",
    "Step",
    "StepContext",
    "StepStatus",
    "Strategy",
    "Task",
    "Toggle",
    "Waiting",
    "apply_objects",
    "cancel",
    "delete_objects",
    "pause",
    "rendered",
    "repair",
    "resume",
    "retry",
    "start",
    "unreadiness",
]
