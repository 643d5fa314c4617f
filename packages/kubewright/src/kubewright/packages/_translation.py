"""Plans of packages as plans of the engine."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from kubewright.machinery.errors import TerminalError
from kubewright.packages import _api as api
from kubewright.packages._api import Instance, OperatorVersionSpec
from kubewright.packages._pipes import PipeTask
from kubewright.packages._rendering import Place
from kubewright.packages._tasks import KINDS, PackageTask, Source
from kubewright.packages._verification import task_faults
from kubewright.plans import Phase, Plan, Step

_LONGEST: Final = 40
_KINDS: Final[dict[str, type[PackageTask]]] = {**KINDS, "Pipe": PipeTask}
_OTHER: Final = re.compile(r"[^a-z0-9]+")


def engine_plan(
    spec: OperatorVersionSpec, name: str, source: Source | None, place: Place | None = None
) -> Plan[Instance]:
    """Return a plan of a package. Without a source, its steps have no tasks. Raises TerminalError if it cannot run."""
    content = spec.plan(name)
    if content is None:
        raise TerminalError(f"there is no plan {name}")
    where = replace(place or Place(), plan=name)
    return Plan(
        plan_name(name),
        [_phase(spec, each, source, where) for each in content.phases or []],
        strategy="parallel" if content.strategy == "parallel" else "serial",
    )


def plan_name(name: str) -> str:
    """Return the name of a plan in names of executions: in lower case, with dashes, and not too long."""
    return _OTHER.sub("-", name.lower())[:_LONGEST].strip("-") or "plan"


def _phase(spec: OperatorVersionSpec, phase: api.Phase, source: Source | None, place: Place) -> Phase[Instance]:
    where = replace(place, phase=phase.name)
    steps = [_step(spec, each, source, where) for each in phase.steps or []]
    return Phase(phase.name, steps, strategy="parallel" if phase.strategy == "parallel" else "serial")


def _step(spec: OperatorVersionSpec, step: api.Step, source: Source | None, place: Place) -> Step[Instance]:
    if source is None:
        return Step(step.name)
    return Step(step.name, [_task(spec, each, source, replace(place, step=step.name)) for each in step.tasks or []])


def _task(spec: OperatorVersionSpec, name: str, source: Source, place: Place) -> PackageTask:
    task = spec.task(name)
    if task is None:
        raise TerminalError(f"plan {place.plan}, phase {place.phase}, step {place.step}: there is no task {name}")
    if faults := [message for _, message in task_faults(task)]:
        raise TerminalError(f"task {name}: {'; '.join(faults)}")
    return _KINDS[task.kind](source, task, replace(place, task=name))
