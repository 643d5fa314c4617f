"""The plans of an operator: which one is due, and what the status says about it.

    PLANS = Plans(deploy, upgrade, backup, cleanup=cleanup)

    @controller(Zoo, owns=[ConfigMap, StatefulSet], finalizer=PLANS.finalizer("zoo.example.com/cleanup"))
    async def reconcile(ctx: Context[Zoo]) -> Result | None:
        return await PLANS.run(ctx)

What is due
    The first plan describes everything, and runs alone until it has been complete once. Its default trigger is the
    whole spec. After that, a plan is due if the value of its trigger is not the one with which it last began. The other
    plans precede the first one, in their order. A plan without a trigger runs on request only.
    A running plan whose trigger changes is superseded by what is due then. Another plan that becomes due waits.
    A plan that failed or was canceled waits for a change of a trigger, or for a request.
Guarantees
    The begin of an execution is recorded before its first task, with its trigger and its number.
    A status that is older than the stored one is never written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Final, Generic, Literal, TypeVar

import msgspec

from kubewright.apis.meta.v1 import set_condition
from kubewright.controllers import Context, Finalizer, Result
from kubewright.machinery.errors import ConfigError, TerminalError
from kubewright.models import Object
from kubewright.models._values import plain
from kubewright.plans import engine
from kubewright.plans._plan import Plan
from kubewright.plans._repair import repair
from kubewright.plans._requests import CANCEL, PAUSE, RETRY, START
from kubewright.plans._status import Execution, PlanRecord, PlansStatus

T = TypeVar("T", bound=Object)

_REASONS: Final = {
    "Complete": "PlanComplete",
    "Failed": "PlanFailed",
    "Paused": "PlanPaused",
    "Canceled": "PlanCanceled",
}
"""Reasons of the conditions by the state of the execution."""
_CONTINUABLE: Final = ("Failed", "Canceled")
_LISTED: Final = 3
"""Objects that a condition names."""


class Plans(Generic[T]):
    """The plans of a kind whose status is a `PlansStatus`."""

    def __init__(self, deploy: Plan[T], *others: Plan[T], cleanup: Plan[T] | None = None) -> None:
        """`deploy` describes everything. `cleanup` runs before an object is deleted; see `finalizer`."""
        self.plans: Sequence[Plan[T]] = (deploy, *others)
        self.cleanup = cleanup
        names = [each.name for each in (*self.plans, *([cleanup] if cleanup is not None else []))]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f'Plans: two plans have the name "{name}"; give one of them another name')

    def finalizer(self, name: str) -> Finalizer[T]:
        """Return the finalizer that runs the cleanup plan: `finalizer=PLANS.finalizer("example.com/cleanup")`.

        It overrides a plan that runs. A cleanup plan that fails keeps the finalizer, until it is retried on request.
        """
        if self.cleanup is None:
            raise ConfigError("Plans.finalizer: there is no cleanup plan; write Plans(..., cleanup=Plan(...))")
        return Finalizer(name, self._clean_up)

    async def run(self, ctx: Context[T]) -> Result | None:
        """Do what is due, or repair drift, and write the status. Returns when to look again.

        The status as a whole is written, so fields that the reconciler has changed before are written, too.
        """
        return await _Run(self, ctx).run()

    async def _clean_up(self, ctx: Context[T]) -> Result | None:
        return await _Run(self, ctx).clean_up()


class _Run(Generic[T]):
    """One reconcile."""

    def __init__(self, plans: Plans[T], ctx: Context[T]) -> None:
        self._plans = plans
        self._ctx = ctx
        self._status = _status_of(ctx.object)
        self._reports: list[Callable[[], None]] = []
        """What is reported once the status is written: a Conflict repeats the reconcile."""
        self._record_new_plans()

    async def run(self) -> Result | None:
        plan = self._current()
        if self._is_paused():
            return await self._pause()
        if plan is None:
            plan = self._continued() or self._next()
        execution = self._status.plan
        if plan is None or execution is None:
            return await self._idle()
        result = await self._advance(plan, execution)
        if result is None:
            return Result(requeue_after=0) if self._due() else await self._idle()
        if not plan.affects_children:
            await self._idle()
        return result

    async def clean_up(self) -> Result | None:
        plan = self._plans.cleanup
        assert plan is not None
        execution = self._status.plan
        if execution is None or execution.plan != plan.name:
            self._supersede()
            execution = self._begin(plan)
        elif execution.state in _CONTINUABLE and self._request(RETRY) == execution.name:
            execution = self._begin(plan, continues=execution)
        self._cancel(execution)
        if self._is_paused():
            return await self._pause() or Result(requeue_after=engine.LONGEST_PAUSE)
        result = await self._advance(plan, execution)
        if result is not None or execution.state == "Complete":
            return result
        await self._save()
        raise TerminalError(
            f"{execution.name} has ended as {execution.state}: {execution.message}; the finalizer stays. Set the "
            f"annotation {RETRY}={execution.name} to try again, or remove the finalizer to skip the cleanup"
        )

    # ---- what is due

    def _current(self) -> Plan[T] | None:
        """Return the plan that runs; None if none runs, or if it ends now because of a request or a change."""
        execution = self._status.plan
        if execution is None or execution.has_ended:
            return None
        plan = next((each for each in self._plans.plans if each.name == execution.plan), None)
        if plan is None or self._trigger(plan) not in ("", self._record(plan).trigger):
            self._supersede()
            return None
        self._cancel(execution)
        return None if execution.has_ended else plan

    def _supersede(self) -> None:
        """End the execution that runs, because another one takes its place."""
        execution = self._status.plan
        if execution is None or execution.has_ended:
            return
        engine.end(execution, "Superseded", "", self._ctx.clock.now())
        record = self._record_of(execution.plan)
        record.trigger, record.state = "", "Superseded"  # due again, even if its trigger has the same value as before
        self._report_end(execution, "PlanSuperseded", f"{execution.name} ended, because it is outdated")

    def _cancel(self, execution: Execution) -> None:
        """End the execution if a user asks for it."""
        if execution.has_ended or self._request(CANCEL) != execution.name:
            return
        engine.cancel(execution, self._ctx.clock.now())
        self._report_end(execution, "PlanCanceled", f"{execution.name} was canceled by a user")

    def _report_end(self, execution: Execution, reason: str, note: str) -> None:
        plan, state = execution.plan, execution.state
        self._reports.append(lambda: engine.observer().plan_ended(plan, state, 0.0))
        self._record_event(reason, note)

    def _record_event(self, reason: str, note: str) -> None:
        """Record an Event once the status is written."""
        self._reports.append(lambda: self._ctx.events.normal(self._ctx.object, reason, note))

    def _continued(self) -> Plan[T] | None:
        """Begin the execution that continues a failed or canceled one, if a user asks for it."""
        ended = self._status.plan
        if ended is None or ended.state not in _CONTINUABLE or self._request(RETRY) != ended.name:
            return None
        plan = next((each for each in self._plans.plans if each.name == ended.plan), None)
        if plan is not None:
            self._begin(plan, continues=ended)
        return plan

    def _next(self) -> Plan[T] | None:
        """Begin the plan that is due now, and return it."""
        deploy, *others = self._plans.plans
        if self._record(deploy).completed is None:
            for each in others:  # what the first execution makes needs no upgrade
                self._record(each).trigger = self._trigger(each)
        plan = self._due()
        if plan is not None:
            self._begin(plan)
        return plan

    def _due(self) -> Plan[T] | None:
        deploy, *others = self._plans.plans
        if self._record(deploy).completed is None:
            return deploy if self._is_due(deploy) else None
        return next((each for each in (*others, deploy) if self._is_due(each)), None)

    def _is_due(self, plan: Plan[T]) -> bool:
        record, trigger, request = self._record(plan), self._trigger(plan), self._request(f"{START}{plan.name}")
        return trigger not in ("", record.trigger) or request not in ("", record.request)

    def _begin(self, plan: Plan[T], *, continues: Execution | None = None) -> Execution:
        record = self._record(plan)
        record.executions += 1
        record.trigger = self._trigger(plan) or record.trigger
        record.request = self._request(f"{START}{plan.name}") or record.request
        execution = engine.begin(plan, record.executions)
        if continues is not None:
            execution = engine.retry(plan, continues, record.executions)
        self._status.plan = execution
        return execution

    def _trigger(self, plan: Plan[T]) -> str:
        """Return a hash of what the plan depends on; "" if that does not exist."""
        obj = self._ctx.object
        if plan.trigger is not None:
            value = plan.trigger(obj)
        else:
            value = getattr(obj, "spec", None) if plan is self._plans.plans[0] else None
        if value is None:
            return ""
        return hashlib.sha256(msgspec.json.encode(plain(value), order="sorted")).hexdigest()[:16]

    def _request(self, annotation: str) -> str:
        return self._ctx.object.metadata.annotations.get(annotation, "")

    # ---- what happens

    def _is_paused(self) -> bool:
        """Return whether a user has paused the plans. Resumes a plan that no longer is."""
        execution = self._status.plan
        if self._request(PAUSE) == "true":
            return True
        if execution is not None and execution.state == "Paused":
            engine.resume(execution, self._ctx.clock.now())
            self._record_event("PlanResumed", f"{execution.name} continues")
        return False

    async def _pause(self) -> Result | None:
        execution = self._status.plan
        if execution is not None and not execution.has_ended and execution.state != "Paused":
            engine.pause(execution, self._ctx.clock.now())
            self._record_event("PlanPaused", f"{execution.name} was paused by a user")
        await self._save()
        return None

    async def _advance(self, plan: Plan[T], execution: Execution) -> Result | None:
        return await engine.advance(self._ctx, plan, execution, save=self._save)

    async def _idle(self) -> Result | None:
        """Repair drift, and report whether everything is ready."""
        deploy = self._plans.plans[0]
        execution = self._status.plan
        if execution is None or not self._may_repair():
            await self._save()
            return None
        found = await repair(self._ctx, deploy, execution)
        if found.unready:
            self._set("Ready", "False", "ResourceNotReady", "; ".join(found.unready[:_LISTED]))
        else:
            self._set("Ready", "True", "ResourcesReady", "")
        await self._save(ready=True)
        return Result(requeue_after=engine.LONGEST_PAUSE) if found.unready else None

    def _may_repair(self) -> bool:
        """Return whether the children are what the first plan describes."""
        if self._record(self._plans.plans[0]).completed is None:
            return False
        states = [self._record(each).state for each in self._plans.plans if each.affects_children]
        return all(state in ("Complete", "Pending") for state in states)

    # ---- the status

    async def _save(self, *, ready: bool = False) -> None:
        """Write the status, with the conditions that follow from the execution, except for Ready if `ready`."""
        status, execution = self._status, self._status.plan
        status.observed_generation = self._ctx.object.metadata.generation or 0
        if execution is not None:
            record = self._record_of(execution.plan)
            if execution.state != "Superseded":
                record.state = execution.state
            if execution.state == "Complete":
                record.completed = execution.ended
            self._set_conditions(execution, ready=ready)
        await self._ctx.update_status(status, if_unchanged=True)
        for report in self._reports:
            report()
        self._reports.clear()

    def _set_conditions(self, execution: Execution, *, ready: bool) -> None:
        reason = _REASONS.get(execution.state, "PlanInProgress")
        place = f", step {execution.step}" if execution.step else ""
        message = f"{execution.name}{place}{': ' if execution.message else ''}{execution.message}"
        self._set("Progressing", "True" if reason == "PlanInProgress" else "False", reason, message)
        if not ready and not self._may_repair():
            self._set("Ready", "Unknown", reason, message)

    def _set(self, type: str, value: Literal["True", "False", "Unknown"], reason: str, message: str) -> None:
        set_condition(
            self._status.conditions,
            type,
            value,
            reason=reason,
            message=message,
            observed_generation=self._ctx.object.metadata.generation,
            now=self._ctx.clock.now(),
        )

    def _record(self, plan: Plan[T]) -> PlanRecord:
        return self._record_of(plan.name)

    def _record_of(self, name: str) -> PlanRecord:
        found = next((each for each in self._status.plans if each.name == name), None)
        if found is None:
            found = PlanRecord(name=name)
            self._status.plans.append(found)
        return found

    def _record_new_plans(self) -> None:
        """Make a record for each plan. A plan of a new version of the operator does not run only because it is new."""
        deploy, *others = self._plans.plans
        known = {each.name for each in self._status.plans}
        for plan in others:
            if plan.name not in known and self._record(deploy).completed is not None:
                self._record(plan).trigger = self._trigger(plan)


def _status_of(obj: Object) -> PlansStatus:
    status = getattr(obj, "status", None)
    if isinstance(status, PlansStatus):
        return status
    raise ConfigError(
        f"{obj.kind}.status is a {type(status).__name__}: the status of a kind with plans is a PlansStatus; write "
        f"class {obj.kind}Status(PlansStatus) and status: {obj.kind}Status = field(default_factory={obj.kind}Status)"
    )
