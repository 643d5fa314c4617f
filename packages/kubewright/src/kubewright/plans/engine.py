"""The engine: one execution of a plan, step by step, across reconciles, crashes and new versions of the plan.

    execution = begin(plan, 1)
    result = await advance(ctx, plan, execution, save=save)

The state of an execution is an `Execution`, which the caller stores. `advance` changes it, and calls `save` after each
transition and before the work of the next steps.

Guarantees
    A step begins only after the steps before it are recorded as complete.
    A step is recorded as complete only after all its tasks and gates were complete in the same reconcile.
    After a crash at any point, the same calls lead to the same end.
Not guaranteed
    That a task runs once: what was done and not recorded is done again.
Errors
    An exception of a task is a failed attempt. It is repeated after a pause that the times in the state determine. Some
    exceptions mean nothing for the plan and are raised: Conflict, an object or a namespace that is being deleted, and
    the loss of the leadership.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Generic, TypeAlias, TypeVar

from kubewright.controllers import Context, Result
from kubewright.controllers._fuse import DeletesStopped
from kubewright.controllers._reconcile import (
    CURRENT,
    ControllerObserver,
    Failure,
    classify,
    error_text,
    explains_itself,
)
from kubewright.machinery.errors import KubewrightError, LeadershipLost, TerminalError
from kubewright.machinery.time import seconds, truncate
from kubewright.models import Object
from kubewright.models._values import encode
from kubewright.plans._gates import Waiting
from kubewright.plans._plan import Phase, Plan, Step, StepContext, closed_by
from kubewright.plans._status import Execution, PhaseStatus, PlanState, StepStatus

T = TypeVar("T", bound=Object)

Save: TypeAlias = Callable[[], Awaitable[None]]
"""Stores the state of the execution. Raises Conflict if the stored state is not the one that was read."""

LONGEST_PAUSE: Final = 60.0
"""Seconds between two looks at a step that waits, and between two attempts of one that fails."""

_PASSED_ON: Final = frozenset({Failure.GONE, Failure.NAMESPACE_ENDING, Failure.CONFLICT})


def begin(plan: Plan[T], number: int) -> Execution:
    """Return a new execution of a plan, the `number`th of the object."""
    execution = Execution(plan=plan.name, name=f"{plan.name}-{number}")
    match_plan(plan, execution)
    return execution


def retry(plan: Plan[T], ended: Execution, number: int) -> Execution:
    """Return a new execution that continues one that failed or was canceled: complete steps stay complete."""
    execution = begin(plan, number)
    done = {(phase.name, step.name) for phase in ended.phases for step in phase.steps if step.state == "Complete"}
    for phase in execution.phases:
        for step in phase.steps:
            if (phase.name, step.name) in done:
                step.state = "Complete"
        phase.state = _phase_state(phase)
    return execution


def cancel(execution: Execution, now: datetime, message: str = "canceled by a user") -> None:
    """End an execution. Nothing is rolled back."""
    end(execution, "Canceled", message, now)


def pause(execution: Execution, now: datetime) -> None:
    """Mark an execution as paused. `advance` must not be called until it is resumed."""
    execution.state, execution.since = "Paused", truncate(now)


def resume(execution: Execution, now: datetime) -> None:
    """Continue a paused execution. The time that it was paused does not count for the timeouts of its steps."""
    paused = truncate(now) - (execution.since or truncate(now))
    for _, step in _all_steps(execution):
        if step.started is not None and step.state != "Complete":
            step.started += paused
    execution.state = "InProgress" if execution.started is not None else "Pending"
    execution.since = truncate(now)


def end(execution: Execution, state: PlanState, message: str, now: datetime) -> None:
    """End an execution in `state`."""
    execution.state, execution.message = state, message
    execution.since = execution.ended = truncate(now)


async def advance(ctx: Context[T], plan: Plan[T], execution: Execution, *, save: Save) -> Result | None:
    """Do what can be done now. Returns when to look again, or None if the execution has ended."""
    return await _Advance(ctx, plan, execution, save).run()


def match_plan(plan: Plan[T], execution: Execution) -> None:
    """Give the state the phases and steps of the plan, which may be those of a newer version of the operator."""
    known = {phase.name: {step.name: step for step in phase.steps} for phase in execution.phases}
    execution.phases = [
        PhaseStatus(
            name=phase.name,
            steps=[known.get(phase.name, {}).get(step.name) or StepStatus(name=step.name) for step in phase.steps],
        )
        for phase in plan.phases
    ]
    for phase in execution.phases:
        phase.state = _phase_state(phase)


@dataclass(slots=True)
class _Due(Generic[T]):
    """A step that can run now."""

    phase: Phase[T]
    step: Step[T]
    status: StepStatus


@dataclass(slots=True)
class _Outcome:
    """How an attempt of a step ended."""

    waiting: Waiting | None = None
    error: Exception | None = None
    is_fatal: bool = False
    passed_on: Exception | None = None
    is_held: bool = False
    """The step was not run, because the pause after a failed attempt is not over."""


class _Advance(Generic[T]):
    """One call of `advance`."""

    def __init__(self, ctx: Context[T], plan: Plan[T], execution: Execution, save: Save) -> None:
        self._ctx = ctx
        self._plan = plan
        self._execution = execution
        self._save = save
        self._saved = encode(execution)
        match_plan(plan, execution)

    async def run(self) -> Result | None:
        execution, ctx = self._execution, self._ctx
        if execution.has_ended:
            return None
        is_new = execution.started is None
        if is_new:
            execution.started = truncate(self._now())
        execution.state = "InProgress"
        while due := self._due():
            self._begin(due)
            await self._save_changes()
            if is_new:
                ctx.events.normal(ctx.object, "PlanStarted", f"Started {execution.name}")
                is_new = False
            before = [each.status.state for each in due]
            outcomes = await asyncio.gather(*(self._attempt(each) for each in due))
            for each, outcome in zip(due, outcomes, strict=True):
                self._record(each, outcome)
            self._summarize()
            passed_on = next((each.passed_on for each in outcomes if each.passed_on is not None), None)
            if passed_on is not None:
                await self._save_changes()
                raise passed_on
            if before == [each.status.state for each in due]:
                await self._save_changes()
                return Result(requeue_after=self._pause(due, outcomes))
        await self._end()
        return None

    async def _save_changes(self) -> None:
        state = encode(self._execution)
        if state != self._saved:
            await self._save()
            self._saved = state

    # ---- which steps

    def _due(self) -> list[_Due[T]]:
        """Return the steps that can run now, in the order of the plan."""
        found: list[_Due[T]] = []
        for phase, status in zip(self._plan.phases, self._execution.phases, strict=True):
            if status.state != "Complete":
                found += _due_in(phase, status)
                if self._plan.strategy == "serial":
                    break
        return found

    def _begin(self, due: list[_Due[T]]) -> None:
        """Record the begin of the steps that are new."""
        now = truncate(self._now())
        for each in due:
            if each.status.started is None:
                each.status.started = now
            if each.status.state == "Pending" and each.step.precondition is None:
                each.status.state = "InProgress"
        self._summarize()

    def _summarize(self) -> None:
        """Set the fields of the execution that follow from its steps."""
        execution = self._execution
        for phase in execution.phases:
            phase.state = _phase_state(phase)
        phase_name, step = next(
            ((phase.name, step) for phase, step in _all_steps(execution) if step.started and step.state != "Complete"),
            (execution.phase, None),
        )
        execution.phase = phase_name
        if step is not None:
            execution.step, execution.message, execution.since = step.name, step.message, step.started

    # ---- one step

    async def _attempt(self, due: _Due[T]) -> _Outcome:
        """Run a step. Only cancellation is raised."""
        left = self._time_left(due)
        if left is not None and left <= 0:
            return _Outcome(error=self._late(due), is_fatal=True)
        if self._until_retry(due) > 0:
            return _Outcome(is_held=True)
        limit = asyncio.timeout(left)
        try:
            async with limit:
                return _Outcome(waiting=await self._work(due))
        except TimeoutError as error:
            if limit.expired():
                return _Outcome(error=self._late(due), is_fatal=True)
            return self._failure(due, error)
        except Exception as error:  # noqa: BLE001 - any error of a task is a failed attempt
            return self._failure(due, error)

    async def _work(self, due: _Due[T]) -> Waiting | None:
        """Run the gates and tasks of a step. Returns what it waits for."""
        step, status = due.step, due.status
        context = self._context(due)
        if status.state == "Pending" and step.precondition is not None:
            closed = await closed_by(step.precondition, context)
            if closed is not None:
                return closed
            status.state = "InProgress"
            return Waiting("", requeue_after=0)  # recorded before the tasks run
        waiting = None
        for task in step.tasks:
            waiting = _earlier(waiting, await task.run(context))
        return waiting or await closed_by(step.ready, context)

    def _context(self, due: _Due[T]) -> StepContext[T]:
        execution = self._execution
        return step_context(self._ctx, execution, due.phase, due.step, due.status.started or self._now())

    def _failure(self, due: _Due[T], error: Exception) -> _Outcome:
        failure = classify(error, type(self._ctx.object), self._ctx.request)
        if failure is Failure.NAMESPACE_ENDING and self._ctx.object.metadata.deletion_timestamp is not None:
            return self._skip(due, error)
        if failure in _PASSED_ON or isinstance(error, (LeadershipLost, DeletesStopped)):
            return _Outcome(passed_on=error)
        limit = due.step.retries
        is_last = limit is not None and due.status.attempts >= limit
        return _Outcome(error=error, is_fatal=failure is Failure.TERMINAL or is_last)

    def _skip(self, due: _Due[T], error: Exception) -> _Outcome:
        """Leave out a step that can never succeed: its namespace is being deleted, and waits for this object."""
        ctx, step = self._ctx, due.step.name
        ctx.log.warning("Step skipped", plan=self._plan.name, step=step, error=str(error))
        ctx.events.warning(ctx.object, "StepSkipped", f"{self._execution.name}, step {step}: {error}")
        return _Outcome()

    def _late(self, due: _Due[T]) -> TerminalError:
        limit = seconds(due.step.timeout or 0)
        return TerminalError(f"not complete after {limit:g} s: {due.status.message or 'the step still runs'}")

    def _time_left(self, due: _Due[T]) -> float | None:
        if due.step.timeout is None:
            return None
        return seconds(due.step.timeout) - self._seconds_since(due.status.started)

    def _until_retry(self, due: _Due[T]) -> float:
        if due.status.failed is None:
            return 0.0
        delay = min(seconds(due.step.retry_delay) * 2.0 ** (due.status.attempts - 1), LONGEST_PAUSE)
        return delay - self._seconds_since(due.status.failed)

    def _seconds_since(self, moment: datetime | None) -> float:
        now = self._now()
        return max((now - (moment or now)) / timedelta(seconds=1), 0.0)

    # ---- results

    def _record(self, due: _Due[T], outcome: _Outcome) -> None:
        status = due.status
        if outcome.passed_on is not None or outcome.is_held:
            return
        if outcome.error is not None:
            self._record_failure(due, outcome.error, outcome.is_fatal)
            return
        status.attempts, status.failed = 0, None
        if outcome.waiting is None:
            status.state, status.message = "Complete", ""
        else:
            self._report(status, outcome.waiting.message)

    def _report(self, status: StepStatus, message: str) -> None:
        """Show what a step waits for, with one change per second: the write of the status is an event, too."""
        now = truncate(self._now())
        if message == status.message or (status.message and status.reported == now):
            return
        status.message, status.reported = message, now

    def _record_failure(self, due: _Due[T], error: Exception, is_fatal: bool) -> None:
        status, ctx = due.status, self._ctx
        text = str(error) if isinstance(error, KubewrightError) else error_text(error)
        status.attempts += 1
        status.message, status.failed = text, truncate(self._now())
        if is_fatal:
            status.state = "Failed"
        ctx.log.error(
            "Step failed" if is_fatal else "Step attempt failed",
            plan=self._plan.name,
            phase=due.phase.name,
            step=due.step.name,
            attempts=status.attempts,
            error=error_text(error),
            exc_info=None if explains_itself(error) else error,
        )
        ctx.events.warning(ctx.object, "StepFailed", f"{self._execution.name}, step {due.step.name}: {text}")
        observer().step_failed(self._plan.name)

    def _pause(self, due: list[_Due[T]], outcomes: list[_Outcome]) -> float:
        """Return the seconds until it makes sense to look again."""
        return min(self._pause_of(each, outcome) for each, outcome in zip(due, outcomes, strict=True))

    def _pause_of(self, due: _Due[T], outcome: _Outcome) -> float:
        left = self._time_left(due)
        longest = LONGEST_PAUSE if left is None else min(left, LONGEST_PAUSE)
        if due.status.failed is not None:
            pause = self._until_retry(due)
        elif outcome.waiting is not None and outcome.waiting.requeue_after is not None:
            pause = seconds(outcome.waiting.requeue_after)
        else:
            pause = 1.0 + self._seconds_since(due.status.started) // 60
        if outcome.waiting is not None and outcome.waiting.message != due.status.message:
            pause = min(pause, 1.0)
        return max(min(pause, longest), 0.0)

    async def _end(self) -> None:
        """Record that nothing is due any longer: the plan is complete, or has failed."""
        execution, ctx = self._execution, self._ctx
        self._summarize()
        failed = next((step for _, step in _all_steps(execution) if step.state == "Failed"), None)
        if failed is None:
            execution.step = ""
            execution.phase = ""
            end(execution, "Complete", "", self._now())
        else:
            end(execution, "Failed", failed.message, self._now())
        await self._save()
        took = self._seconds_since(execution.started)
        observer().plan_ended(self._plan.name, execution.state, took)
        if failed is None:
            ctx.events.normal(ctx.object, "PlanComplete", f"{execution.name} is complete")
        else:
            ctx.events.warning(
                ctx.object, "PlanFailed", f"{execution.name} failed in step {failed.name}: {failed.message}"
            )

    def _now(self) -> datetime:
        return self._ctx.clock.now()


def step_context(
    ctx: Context[T], execution: Execution, phase: Phase[T], step: Step[T], started: datetime
) -> StepContext[T]:
    """Return what the tasks of a step receive."""
    return StepContext(ctx, execution.plan, phase.name, step.name, execution.name, started)


def observer() -> ControllerObserver:
    """Return the observer of the controller whose reconcile runs."""
    attempt = CURRENT.get()
    found = attempt.observer if attempt is not None else None
    return found or ControllerObserver()


def _due_in(phase: Phase[T], status: PhaseStatus) -> Iterator[_Due[T]]:
    for step, state in zip(phase.steps, status.steps, strict=True):
        if state.state == "Complete":
            continue
        if state.state != "Failed":
            yield _Due(phase, step, state)
        if phase.strategy == "serial":
            return


def _phase_state(phase: PhaseStatus) -> PlanState:
    states = {step.state for step in phase.steps}
    if states <= {"Complete"}:
        return "Complete"
    if "Failed" in states and not states & {"InProgress"}:
        return "Failed"
    return "InProgress" if states & {"InProgress", "Complete", "Failed"} else "Pending"


def _all_steps(execution: Execution) -> Iterator[tuple[PhaseStatus, StepStatus]]:
    for phase in execution.phases:
        for step in phase.steps:
            yield phase, step


def _earlier(first: Waiting | None, second: Waiting | None) -> Waiting | None:
    """Return the first that waits, and look again as early as any of them asks for."""
    if first is None or second is None:
        return first or second
    pauses = [seconds(each.requeue_after) for each in (first, second) if each.requeue_after is not None]
    return Waiting(first.message, min(pauses, default=None))
