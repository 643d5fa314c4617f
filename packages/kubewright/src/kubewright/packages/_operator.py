"""The operator that runs packages: it executes the plans of Instances, and keeps what they made.

Guarantees
    The plan in `spec.planExecution` is executed once for each uid, step by step, across crashes.
    The begin of an execution is recorded before its first task, and its end before `spec.planExecution` is cleared.
    After a plan is complete, what it made is restored, with the parameters and the version that it was completed with.
Follows
    The instance controller of KUDO 0.19: statuses, Events, finalizer and readiness. A plan is canceled, paused and
    retried by the annotations of `kubewright.plans`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Final, Literal

from kubewright.apis.apps.v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from kubewright.apis.batch.v1 import CronJob, Job
from kubewright.apis.core.v1 import ConfigMap, Pod, Secret, Service, ServiceAccount
from kubewright.apis.meta.v1 import set_condition
from kubewright.apis.policy.v1 import PodDisruptionBudget
from kubewright.apis.rbac.v1 import Role, RoleBinding
from kubewright.cache import Lister
from kubewright.client import Config, RESTMapper
from kubewright.controllers import Context, DeletedContext, Request, Result, Watch, controller
from kubewright.controllers._context import guarded_patch
from kubewright.machinery.errors import ConfigError, DecodeError, NotFound, TemplateError, TerminalError
from kubewright.manager import Manager
from kubewright.models import PolicyRule
from kubewright.packages._admission import new_uid
from kubewright.packages._api import (
    CLEANUP,
    DEPLOY,
    RUNNING,
    UPDATE,
    UPGRADE,
    AppliedPlan,
    ExecutionStatus,
    Instance,
    OperatorVersion,
    PhaseStatus,
    PlanStatus,
    StepStatus,
)
from kubewright.packages._dependencies import check_dependencies
from kubewright.packages._kinds import Kinds
from kubewright.packages._names import CLEANUP_FINALIZER
from kubewright.packages._rendering import Place, TemplateFiles
from kubewright.packages._rendering import pipes as pipes_of
from kubewright.packages._tasks import Source
from kubewright.packages._translation import engine_plan
from kubewright.packages._values import template_parameters
from kubewright.packages._webhook import admit_instance
from kubewright.plans import CANCEL, PAUSE, RETRY, Execution, Plan, engine, repair
from kubewright.plans import StepStatus as ExecutedStep

_OWNED: Final = (
    ConfigMap, CronJob, DaemonSet, Deployment, Job, Pod, PodDisruptionBudget, ReplicaSet, Role, RoleBinding, Secret,
    Service, ServiceAccount, StatefulSet,
)  # fmt: skip
"""The kinds whose changes reconcile their instance."""
_CONTINUABLE: Final = ("Failed", "Canceled")
_LISTED: Final = 3
"""Objects that a condition names."""
_KUDO_STATES: Final = {
    "Pending": ExecutionStatus.PENDING,
    "InProgress": ExecutionStatus.IN_PROGRESS,
    "Paused": ExecutionStatus.IN_PROGRESS,
    "Complete": ExecutionStatus.COMPLETE,
    "Failed": ExecutionStatus.FATAL_ERROR,
    "Canceled": ExecutionStatus.FATAL_ERROR,
    "Superseded": ExecutionStatus.FATAL_ERROR,
}


class PackageReconciler:
    """Reconciles Instances."""

    def __init__(self) -> None:
        self._kinds: Kinds | None = None
        self._templates: dict[str, tuple[str, TemplateFiles]] = {}

    async def reconcile(self, ctx: Context[Instance] | DeletedContext[Instance]) -> Result | None:
        """Execute the plan that is scheduled, or repair drift."""
        if isinstance(ctx, DeletedContext):
            return None
        return await _Run(self, ctx).run()

    def kinds(self, ctx: Context[Instance]) -> Kinds:
        """Return the classes of the API server's kinds."""
        if self._kinds is None:
            self._kinds = Kinds(RESTMapper(ctx.client))
        return self._kinds

    def templates(self, version: OperatorVersion) -> TemplateFiles:
        """Return the templates of a version, which are parsed once."""
        uid, stamp = version.metadata.uid, version.metadata.resource_version
        found = self._templates.get(uid)
        if found is None or found[0] != stamp:
            found = self._templates[uid] = stamp, TemplateFiles(version.spec.templates)
        return found[1]


class _Run:
    """One reconcile."""

    def __init__(self, reconciler: PackageReconciler, ctx: Context[Instance]) -> None:
        self._reconciler = reconciler
        self._ctx = ctx
        self._instance = ctx.object
        self._status = ctx.object.status
        self._scheduled = ctx.object.spec.plan_execution

    async def run(self) -> Result | None:
        is_deleted = self._instance.metadata.deletion_timestamp is not None
        if is_deleted and CLEANUP_FINALIZER not in self._instance.metadata.finalizers:
            return None
        version = await self._version(is_deleted)
        if version is None or (is_deleted and version.spec.plan(CLEANUP) is None):
            await self._release()
            return None
        if is_deleted and self._must_clean_up():
            await self._schedule(CLEANUP)
            return None
        if self._continued() is not None and not self._scheduled.plan_name:
            await self._schedule(self._continued() or "")
            return None
        if not self._scheduled.plan_name:
            return None if is_deleted else await self._idle()
        return await self._execute(version, is_deleted=is_deleted)

    async def _version(self, is_deleted: bool) -> OperatorVersion | None:
        """Return the version of the instance; None if it is missing, and the instance is being deleted."""
        reference = self._instance.spec.operator_version
        name, namespace = reference.name or "", reference.namespace or self._instance.metadata.namespace
        try:
            return await self._ctx.get(OperatorVersion, name, namespace=namespace)
        except NotFound:
            if is_deleted:
                return None
            message = f'there is no OperatorVersion "{name}" in namespace {namespace}; install the package'
            self._ctx.events.warning(self._instance, "InvalidOperatorVersion", message)
            raise TerminalError(f"spec.operatorVersion: {message}") from None

    # ---- what is scheduled

    def _must_clean_up(self) -> bool:
        status = self._status.plan_status.get(CLEANUP)
        never_run = status is None or status.status == ExecutionStatus.NEVER_RUN
        return never_run and self._scheduled.plan_name != CLEANUP

    def _continued(self) -> str | None:
        """Return the plan that a user wants to continue; None if there is none."""
        ended = self._status.execution
        if ended is None or ended.state not in _CONTINUABLE or self._request(RETRY) != ended.name:
            return None
        return self._status.last_plan

    async def _schedule(self, plan: str) -> None:
        """Write a plan into the spec, with a uid, which the webhook may replace."""
        value = {"planName": plan, "uid": new_uid(), "status": ExecutionStatus.NEVER_RUN.value}
        version = {"op": "test", "path": "/metadata/resourceVersion", "value": self._instance.metadata.resource_version}
        change = {"op": "add", "path": "/spec/planExecution", "value": value}
        await guarded_patch(self._ctx.client, self._instance, (version, change))

    def _request(self, annotation: str) -> str:
        return self._instance.metadata.annotations.get(annotation, "")

    # ---- executions

    async def _execute(self, version: OperatorVersion, *, is_deleted: bool) -> Result | None:
        execution = self._status.execution
        if execution is None or self._status.execution_uid != self._scheduled.uid:
            execution = await self._begin(version)
        if not execution.has_ended:
            if self._request(CANCEL) == execution.name:
                engine.cancel(execution, self._now())
                self._ctx.events.warning(self._instance, "PlanCanceled", f"{execution.name} was canceled by a user")
                await self._save()
            elif await self._is_paused(execution):
                return None
            else:
                result = await self._advance(version, execution)
                if result is not None:
                    return result
        if is_deleted and execution.state == "Complete":
            await self._release()
            return None
        if is_deleted and self._continued() is not None:
            await self._schedule(self._continued() or "")
            return None
        await self._clear(execution)
        return None

    async def _begin(self, version: OperatorVersion) -> Execution:
        """Record a new execution, before its first task runs."""
        name, status = self._scheduled.plan_name, self._status
        status.executions += 1
        plan: Plan[Instance] = engine_plan(version.spec, name, None)
        ended = status.execution
        if ended is not None and self._continued() == name:
            execution = engine.retry(plan, ended, status.executions)
        else:
            execution = engine.begin(plan, status.executions)
        status.execution, status.execution_uid, status.last_plan = execution, self._scheduled.uid, name
        self._record_plans(version)
        self._record_phases(version, started=True)
        await self._save()
        return execution

    async def _is_paused(self, execution: Execution) -> bool:
        if self._request(PAUSE) == "true":
            if execution.state != "Paused":
                engine.pause(execution, self._now())
                self._ctx.events.normal(self._instance, "PlanPaused", f"{execution.name} was paused by a user")
            await self._save()
            return True
        if execution.state == "Paused":
            engine.resume(execution, self._now())
            self._ctx.events.normal(self._instance, "PlanResumed", f"{execution.name} continues")
        return False

    async def _advance(self, version: OperatorVersion, execution: Execution) -> Result | None:
        """Execute what can be executed now. Returns when to look again, or None after the end."""
        try:
            if not self._is_child():
                await check_dependencies(version, self._find_version)
            source = self._source(
                version, self._instance.spec.parameters, self._scheduled.plan_name, self._scheduled.uid
            )
            plan = engine_plan(version.spec, self._scheduled.plan_name, source, self._place(version))
        except (TerminalError, TemplateError, DecodeError, ConfigError) as error:
            engine.end(execution, "Failed", str(error), self._now())
            self._ctx.events.warning(self._instance, "InvalidPlan", str(error))
            await self._save()
            return None
        result = await engine.advance(self._ctx, plan, execution, save=self._save)
        if result is None and execution.state == "Complete":
            self._remember(version)
            await self._save()
        return result

    def _remember(self, version: OperatorVersion) -> None:
        """Record what the plan was completed with, for drift repair."""
        name = self._scheduled.plan_name
        applied = AppliedPlan(
            plan=name,
            uid=self._scheduled.uid,
            operator_version=version.metadata.name,
            parameters=dict(self._instance.spec.parameters),
        )
        self._status.applied = [*(each for each in self._status.applied if each.plan != name), applied]

    async def _clear(self, execution: Execution) -> None:
        """Tell the webhook that the plan has ended, which removes it from the spec."""
        state = _KUDO_STATES[execution.state]
        if self._scheduled.status == state:  # a plan cleanup that has failed stays
            return
        same = {"op": "test", "path": "/spec/planExecution/uid", "value": self._scheduled.uid}
        end = {"op": "add", "path": "/spec/planExecution/status", "value": state.value}
        written = await guarded_patch(self._ctx.client, self._instance, (same, end))
        name = self._scheduled.plan_name
        self._ctx.events.normal(
            self._instance, "PlanFinished", f"Execution of plan {name} finished with status {state}"
        )
        is_deleted = self._instance.metadata.deletion_timestamp is not None
        if written.spec.plan_execution.plan_name and not is_deleted:  # there is no webhook
            await guarded_patch(
                self._ctx.client, self._instance, (same, {"op": "add", "path": "/spec/planExecution", "value": {}})
            )

    async def _release(self) -> None:
        """Remove the finalizer."""
        finalizers = self._instance.metadata.finalizers
        if CLEANUP_FINALIZER in finalizers:
            path = f"/metadata/finalizers/{finalizers.index(CLEANUP_FINALIZER)}"
            operations = ({"op": "test", "path": path, "value": CLEANUP_FINALIZER}, {"op": "remove", "path": path})
            await guarded_patch(self._ctx.client, self._instance, operations)

    # ---- what a plan is made from

    def _place(self, version: OperatorVersion) -> Place:
        return Place(
            operator=version.spec.operator.name or "",
            name=self._instance.metadata.name,
            namespace=self._instance.metadata.namespace or "",
            app_version=version.spec.app_version,
            operator_version=version.spec.version,
        )

    def _source(self, version: OperatorVersion, values: dict[str, str], plan: str, uid: str) -> Source:
        """Return what the tasks of a plan are made from. Raises TemplateError and DecodeError."""
        return Source(
            version=version,
            templates=self._reconciler.templates(version),
            kinds=self._reconciler.kinds(self._ctx),
            parameters=template_parameters(version.spec, values),
            pipes=pipes_of(version.spec, plan, self._place(version)),
            uid=uid,
        )

    def _is_child(self) -> bool:
        return any(each.kind == "Instance" for each in self._instance.metadata.owner_references)

    async def _find_version(self, name: str) -> OperatorVersion | None:
        namespace = self._instance.metadata.namespace
        return await self._ctx.client.uncached.get_or_none(OperatorVersion, name, namespace=namespace)

    # ---- drift and readiness

    async def _idle(self) -> Result | None:
        """Restore what the complete plans made, and report whether it is ready."""
        execution = self._status.execution
        if execution is None:  # created while there was no webhook
            await self._schedule(DEPLOY)
            return None
        if execution.state != "Complete":
            return None
        plan = await self._applied_plan()
        found = await repair(self._ctx, plan, execution)
        if found.unready:
            self._set_ready("False", "ResourceNotReady", "; ".join(found.unready[:_LISTED]))
        else:
            self._set_ready("True", "ResourcesReady", "")
        await self._ctx.update_status(self._status, if_unchanged=True)
        return Result(requeue_after=engine.LONGEST_PAUSE) if found.unready else None

    async def _applied_plan(self) -> Plan[Instance]:
        """Return one plan with the tasks of all complete plans, in the order of their completion."""
        phases = [
            replace(phase, name=f"{index}-{number}")
            for index, applied in enumerate(self._status.applied)
            for number, phase in enumerate((await self._plan_of(applied)).phases)
        ]
        return Plan("applied", phases)

    async def _plan_of(self, applied: AppliedPlan) -> Plan[Instance]:
        reference = self._instance.spec.operator_version
        namespace = reference.namespace or self._instance.metadata.namespace
        version = await self._ctx.get_or_none(OperatorVersion, applied.operator_version, namespace=namespace)
        if version is None:  # an old version that was removed
            return Plan("applied", ())
        source = self._source(version, applied.parameters, applied.plan, applied.uid)
        return engine_plan(version.spec, applied.plan, source, self._place(version))

    def _set_ready(self, value: Literal["True", "False", "Unknown"], reason: str, message: str) -> None:
        set_condition(self._status.conditions, "Ready", value, reason=reason, message=message, now=self._now())

    # ---- KUDO's status

    def _record_plans(self, version: OperatorVersion) -> None:
        """Make a status for each plan of the version, and drop those of phases and steps that it does not have."""
        for name, plan in (version.spec.plans or {}).items():
            status = self._status.plan_status.setdefault(name, PlanStatus(name=name, status=ExecutionStatus.NEVER_RUN))
            known = {each.name: each for each in status.phases}
            status.phases = [
                PhaseStatus(
                    name=phase.name,
                    status=known[phase.name].status if phase.name in known else ExecutionStatus.NEVER_RUN,
                    message=known[phase.name].message if phase.name in known else "",
                    steps=_steps(known.get(phase.name), [step.name for step in phase.steps or []]),
                )
                for phase in plan.phases or []
            ]

    def _record_phases(self, version: OperatorVersion, *, started: bool = False) -> None:
        status = self._status.plan_status.setdefault(self._scheduled.plan_name, PlanStatus())
        if started:
            status.uid = self._scheduled.uid
            self._reset_readiness()

    def _reset_readiness(self) -> None:
        if self._scheduled.plan_name in (DEPLOY, UPDATE, UPGRADE):
            self._set_ready("Unknown", "PlanInProgress", "")

    async def _save(self) -> None:
        """Write the status, with KUDO's form of the execution."""
        execution = self._status.execution
        status = self._status.plan_status.get(self._status.last_plan)
        if execution is not None and status is not None:
            _translate(execution, status, self._now())
            if execution.state == "Failed":
                self._set_ready("Unknown", "PlanInFatalError", execution.message)
        await self._ctx.update_status(self._status, if_unchanged=True)

    def _now(self) -> datetime:
        return self._ctx.clock.now().replace(microsecond=0)


def _steps(known: PhaseStatus | None, names: Iterable[str]) -> list[StepStatus]:
    found = {each.name: each for each in known.steps} if known is not None else {}
    return [found.get(name) or StepStatus(name=name, status=ExecutionStatus.NEVER_RUN) for name in names]


def _translate(execution: Execution, status: PlanStatus, now: datetime) -> None:
    """Write an execution into KUDO's status of its plan."""
    before = (status.status, status.message)
    status.status = _KUDO_STATES[execution.state]
    has_failed = execution.state in ("Failed", "Canceled")
    status.message = execution.message if has_failed else ""
    status.phases = [
        PhaseStatus(
            name=phase.name,
            status=_KUDO_STATES[phase.state],
            steps=[_step_status(each) for each in phase.steps],
        )
        for phase in execution.phases
    ]
    if before != (status.status, status.message) or status.last_updated_timestamp is None:
        status.last_updated_timestamp = now


def _step_status(step: ExecutedStep) -> StepStatus:
    status = _KUDO_STATES[step.state]
    if status in RUNNING and step.attempts:
        return StepStatus(name=step.name, status=ExecutionStatus.ERROR, message=step.message)
    return StepStatus(name=step.name, status=status, message="" if step.state == "Complete" else step.message)


def _of_version(version: OperatorVersion, instances: Lister[Instance]) -> Iterator[Request]:
    """Yield the instances of a version."""
    for each in instances.list():
        reference = each.spec.operator_version
        namespace = reference.namespace or each.metadata.namespace
        if (reference.name, namespace) == (version.metadata.name, version.metadata.namespace):
            yield Request(each.metadata.namespace, each.metadata.name)


def _parents(child: Instance, _instances: Lister[Instance]) -> Iterator[Request]:
    """Yield the instances that installed a child instance."""
    for each in child.metadata.owner_references:
        if each.kind == "Instance":
            yield Request(child.metadata.namespace, each.name)


def package_manager(config: Config | None = None) -> Manager:
    """Return the Manager that runs any number of packages: their Instances, and the rules for these as a webhook.

    It needs the permission to do anything, because packages may contain any objects. config: where the API server is;
    by default as for any Manager.
    """
    instances = controller(
        Instance,
        name="package-instance",
        owns=_OWNED,
        watches=[Watch.mapped(OperatorVersion, _of_version), Watch.mapped(Instance, _parents)],
        rules=[PolicyRule(api_groups=["*"], resources=["*"], verbs=["*"])],
        reconcile_deleted=True,
    )(PackageReconciler())
    return Manager([instances], webhooks=[admit_instance], name="kubewright-packages", config=config)
