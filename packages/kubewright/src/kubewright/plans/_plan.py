"""Plans: what is done, in which order, and when a part of it is complete.

    Plan("deploy", [
        Phase("storage", [Step("config", [Apply(config_map_for)])]),
        Phase("servers", [Step("members", [Apply(stateful_set_for)], timeout=600)]),
    ])

A plan is a value. It can be a constant of an operator, or be made from data for each object. `check` finds mistakes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Generic, Literal, TypeAlias, TypeVar, get_args

from kubewright.controllers import Context
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.names import dns1123_label
from kubewright.machinery.time import Seconds, seconds
from kubewright.models import Object
from kubewright.plans._gates import CEL, ReadyCheck, Waiting

T = TypeVar("T", bound=Object)

Strategy: TypeAlias = Literal["serial", "parallel"]
"""Whether the parts of a plan or of a phase run one after the other, or at the same time."""

_LONGEST_NAME: Final = 40
"""Characters of the name of a plan. It is a part of the names of executions, and often of Jobs."""
_LONGEST_PART: Final = 63
"""Characters of the name of a phase or a step."""


@dataclass(frozen=True)
class StepContext(Generic[T]):
    """What a task or a gate receives."""

    ctx: Context[T]
    """The context of the reconcile. All writes go through it."""
    plan: str
    phase: str
    step: str
    execution: str
    """The name of the execution, such as `backup-7`. No other execution of the object has it."""
    started: datetime
    """When the step began."""

    @property
    def object(self) -> T:
        """The object that the plan is for, as it is now."""
        return self.ctx.object


Gate: TypeAlias = CEL | Callable[[StepContext[T]], Awaitable[Waiting | None]]
"""An expression about the object, or an async function that returns what the step still waits for, or None."""


async def closed_by(gate: Gate[T] | None, step: StepContext[T]) -> Waiting | None:
    """Return why a gate is closed; None if it is open, and if there is none."""
    if gate is None:
        return None
    return gate.check(step.object) if isinstance(gate, CEL) else await gate(step)


@dataclass(frozen=True, slots=True)
class Child:
    """An object that a task keeps as it describes it."""

    object: Object
    adopt: bool = False
    create_only: bool = False
    ready: ReadyCheck | None = None
    """Decides whether the live object is ready; by default its health does."""


@dataclass(frozen=True, slots=True)
class Children:
    """What a task has made."""

    present: Sequence[Child] = ()
    """Objects that must exist. Drift repair restores them."""
    absent: Sequence[Object] = ()
    """Objects that the task has deleted. Drift repair does not restore them, if an earlier task made them."""


class Task(ABC, Generic[T]):
    """A part of a step. A subclass implements `run`, and `children` if drift is to be repaired."""

    @abstractmethod
    async def run(self, step: StepContext[T]) -> Waiting | None:
        """Do the work. Returns what is missing, or None if the task is complete.

        It is called again until all tasks of the step are complete, and after a crash, also if it was complete before.
        So it must be repeatable. An exception is a failed attempt, which is repeated later. After a TerminalError, the
        plan has failed.
        """

    async def children(self, step: StepContext[T]) -> Children:
        """Return the objects that the task makes, and that it deletes."""
        return Children()


@dataclass(frozen=True)
class Step(Generic[T]):
    """Tasks that are complete together."""

    name: str
    tasks: Sequence[Task[T]] = ()
    """Run in this order, without waiting between them."""
    precondition: Gate[T] | None = None
    """Must be open once before the tasks run."""
    ready: Gate[T] | None = None
    """Must be open after the tasks are complete."""
    timeout: Seconds | None = None
    """The time from the begin of the step until it is complete. After that, the plan has failed."""
    retries: int | None = None
    """How often a failed attempt is repeated before the plan has failed. None: without limit."""
    retry_delay: Seconds = 1.0
    """The pause before the first retry. It doubles each time, up to a minute."""


@dataclass(frozen=True)
class Phase(Generic[T]):
    """Steps that run one after the other, or at the same time."""

    name: str
    steps: Sequence[Step[T]] = ()
    strategy: Strategy = "serial"


@dataclass(frozen=True)
class Plan(Generic[T]):
    """Phases that run one after the other, or at the same time."""

    name: str
    phases: Sequence[Phase[T]] = ()
    strategy: Strategy = "serial"
    trigger: Callable[[T], object] | None = field(default=None, kw_only=True)
    """Returns what the plan depends on. A new value, other than None, starts the plan. See `Plans`."""
    affects_children: bool = field(default=True, kw_only=True)
    """Whether the plan changes what the first plan made. If so, drift is not repaired while it is unfinished."""

    def __post_init__(self) -> None:
        _check_plan(self.name, self.phases, self.strategy)


def _check_plan(name: str, phases: Sequence[Phase[T]], strategy: str) -> None:
    """Raise ConfigError for a plan that cannot run."""
    where = f'plan "{name}"'
    _check_name(where, name)
    _check_strategy(where, strategy)
    _check_unique(where, "phase", [each.name for each in phases])
    for phase in phases:
        within = f'{where}, phase "{phase.name}"'
        _check_part(within, phase.name)
        _check_strategy(within, phase.strategy)
        _check_unique(within, "step", [each.name for each in phase.steps])
        for step in phase.steps:
            _check_step(f'{within}, step "{step.name}"', step)


def _check_step(where: str, step: Step[T]) -> None:
    _check_part(where, step.name)
    if step.timeout is not None and seconds(step.timeout, f"{where}: timeout") <= 0:
        raise ConfigError(f"{where}: timeout must be positive, got {seconds(step.timeout):g} s")
    if step.retries is not None and step.retries < 0:
        raise ConfigError(f"{where}: retries must not be negative, got {step.retries}")
    if seconds(step.retry_delay, f"{where}: retry_delay") <= 0:
        raise ConfigError(f"{where}: retry_delay must be positive, got {seconds(step.retry_delay):g} s")


def _check_name(where: str, name: str) -> None:
    if dns1123_label(name) or len(name) > _LONGEST_NAME:
        raise ConfigError(
            f"{where}: a name must consist of a-z, 0-9 and -, begin and end with a letter or digit, and have at most "
            f"{_LONGEST_NAME} characters"
        )


def _check_part(where: str, name: str) -> None:
    if not 0 < len(name) <= _LONGEST_PART:
        raise ConfigError(f"{where}: a name must have 1 to {_LONGEST_PART} characters")


def _check_strategy(where: str, strategy: str) -> None:
    if strategy not in get_args(Strategy):
        raise ConfigError(f'{where}: strategy must be "serial" or "parallel", got {strategy!r}')


def _check_unique(where: str, what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ConfigError(f'{where}: two {what}s have the name "{name}"; give one of them another name')
        seen.add(name)
