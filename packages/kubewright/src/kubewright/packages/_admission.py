"""The rules for Instances: which plan a change triggers, and which changes are refused.

Follows the admission webhook of KUDO 0.19. Pause, cancel and retry are annotations, which these rules do not concern.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

from kubewright.machinery.errors import Forbidden
from kubewright.packages._api import (
    CLEANUP,
    DEPLOY,
    TERMINAL,
    UPDATE,
    UPGRADE,
    ExecutionStatus,
    Instance,
    OperatorVersion,
    Parameter,
    PlanExecution,
)
from kubewright.packages._names import CLEANUP_FINALIZER
from kubewright.packages._values import value_error


def admit_create(instance: Instance, version: OperatorVersion) -> None:
    """Schedule the plan `deploy` of a new instance, and set what it must not leave open. Raises Forbidden."""
    if version.spec.plan(CLEANUP) is not None and CLEANUP_FINALIZER not in instance.metadata.finalizers:
        instance.metadata.finalizers = [*instance.metadata.finalizers, CLEANUP_FINALIZER]
    if version.spec.plan(DEPLOY) is None:
        raise Forbidden(
            f"OperatorVersion {version.metadata.name} has no plan {DEPLOY}, so it cannot be installed; add the plan"
        )
    execution = instance.spec.plan_execution
    execution.plan_name, execution.uid = DEPLOY, new_uid()
    values = dict(instance.spec.parameters)
    for each in version.spec.parameters:
        if each.immutable and each.default is not None:
            values.setdefault(each.name, each.default)
    instance.spec.parameters = values
    check_values(instance, version)


def check_values(instance: Instance, version: OperatorVersion) -> None:
    """Raise Forbidden if a parameter has a value that it must not have."""
    for each in version.spec.parameters:
        if wrong := value_error(each, instance.spec.parameters.get(each.name, "")):
            raise Forbidden(f'parameter "{each.name}" {wrong}; set it in spec.parameters')


def apply_update(old: Instance, new: Instance, version: OperatorVersion, old_version: OperatorVersion) -> None:
    """Schedule the plan that a change of an instance triggers. Raises Forbidden if the change is refused."""
    plan = admit_update(old, new, version, old_version)
    if plan is not None:
        status = ExecutionStatus.NEVER_RUN if plan else ""
        new.spec.plan_execution = PlanExecution(plan_name=plan, uid=new_uid() if plan else "", status=status)


def new_uid() -> str:
    """Return a new uid of an execution."""
    return str(uuid.uuid4())


def admit_update(old: Instance, new: Instance, version: OperatorVersion, old_version: OperatorVersion) -> str | None:
    """Return the plan that a change triggers: "" to clear the current one, None to leave it. Raises Forbidden.

    Values of parameters that an upgrade removes are removed from the instance.
    """
    return _Update(old, new, version, old_version).plan()


class _Update:
    """A change of an instance."""

    def __init__(self, old: Instance, new: Instance, version: OperatorVersion, old_version: OperatorVersion) -> None:
        self._old, self._new = old, new
        self._version, self._old_version = version, old_version
        self._before, self._after = old.spec.plan_execution, new.spec.plan_execution
        self._is_upgrade = old.spec.operator_version != new.spec.operator_version

    def plan(self) -> str | None:
        wanted = self._after.plan_name
        if wanted and self._version.spec.plan(wanted) is None:
            raise Forbidden(f"plan {wanted} does not exist in {self._version.metadata.name}")
        changed = self._changed()
        self._check_immutable(changed)
        check_values(self._new, self._version)
        triggered = self._triggered([*changed, *self._removed()])
        if self._new.metadata.deletion_timestamp is not None:
            self._check_deleted(triggered)
            return None
        self._check(triggered)
        return self._due(triggered)

    # ---- which parameters

    def _changed(self) -> list[Parameter]:
        """Return the parameters with a new value, without those that the old version does not have."""
        before, after = self._old.spec.parameters, self._new.spec.parameters
        names = [name for name, value in after.items() if before.get(name) != value]
        known = {each.name for each in self._old_version.spec.parameters}
        definitions = {each.name: each for each in self._version.spec.parameters}
        for name in names:
            if name not in definitions:
                raise Forbidden(
                    f'{self._version.metadata.name} has no parameter "{name}"; remove it, or check its name'
                )
        return [definitions[name] for name in names if name in known]

    def _removed(self) -> list[Parameter]:
        names = self._old.spec.parameters.keys() - self._new.spec.parameters.keys()
        found = [each for each in self._version.spec.parameters if each.name in names]
        return found if len(found) == len(names) else []

    def _check_immutable(self, changed: Iterable[Parameter]) -> None:
        if self._is_upgrade:
            self._check_upgrade()
            return
        for each in changed:
            if each.immutable:
                before = self._old.spec.parameters.get(each.name)
                after = self._new.spec.parameters[each.name]
                raise Forbidden(
                    f'parameter "{each.name}" is immutable, and cannot change from "{before}" to "{after}"; make a new '
                    "instance for another value"
                )

    def _check_upgrade(self) -> None:
        """Check that parameters that become immutable have a value, and remove those that no longer exist."""
        values = self._new.spec.parameters
        old = {each.name: each for each in self._old_version.spec.parameters}
        new = {each.name: each for each in self._version.spec.parameters}
        for name, each in new.items():
            was_immutable = name in old and bool(old[name].immutable)
            if each.immutable and not was_immutable and name not in values:
                default = f" (the default is {each.default!r})" if each.default is not None else ""
                raise Forbidden(
                    f'parameter "{name}" is immutable from {self._version.metadata.name} on, and needs a value{default}'
                    "; set it in spec.parameters"
                )
        self._new.spec.parameters = {name: value for name, value in values.items() if name in new or name not in old}

    def _triggered(self, parameters: Sequence[Parameter]) -> str | None:
        """Return the plan that changed parameters trigger; None if none has changed."""
        if not parameters:
            return None
        plans = sorted({each.trigger for each in parameters if each.trigger})
        for each in plans:
            if self._version.spec.plan(each) is None:
                raise Forbidden(
                    f"a parameter triggers the plan {each}, which {self._version.metadata.name} does not have"
                )
        if len(plans) > 1:
            raise Forbidden(
                f"the changed parameters trigger several plans: {', '.join(plans)}; change those of one plan at a time"
            )
        return plans[0] if plans else self._first(UPDATE, DEPLOY)

    def _first(self, *names: str) -> str:
        for each in names:
            if self._version.spec.plan(each) is not None:
                return each
        raise Forbidden(f"{self._version.metadata.name} has none of the plans {', '.join(names)}; add one")

    # ---- which changes are refused

    def _check_deleted(self, triggered: str | None) -> None:
        before, after = self._before.plan_name, self._after.plan_name
        if before == CLEANUP and after != before:
            raise Forbidden("the instance is being deleted, so its plan cleanup cannot be canceled or replaced")
        if triggered is not None or self._is_upgrade:
            raise Forbidden("the instance is being deleted, so its parameters and version cannot change")
        if after not in ("", CLEANUP):
            raise Forbidden(f"the instance is being deleted, so the plan {after} cannot run; only cleanup can")

    def _check(self, triggered: str | None) -> None:
        before, after = self._before.plan_name, self._after.plan_name
        wait = f"wait until the plan {before} has ended, or cancel it"
        if before and triggered not in (None, before):
            raise Forbidden(f"plan {before} is scheduled or runs, and the change would trigger {triggered}; {wait}")
        if self._is_upgrade and before:
            raise Forbidden(f"plan {before} is scheduled or runs, so the version cannot change; {wait}")
        if self._is_upgrade and after:
            raise Forbidden(f"a change of the version cannot also trigger the plan {after}; make two changes")
        if self._is_upgrade and triggered not in (None, DEPLOY):
            raise Forbidden(
                f"a change of the version cannot also change parameters that trigger {triggered}; make two changes"
            )
        if before and after not in ("", before):
            raise Forbidden(f"plan {before} is scheduled or runs, so {after} cannot be triggered; {wait}")
        if before and not after:
            raise Forbidden(f"plan {before} is scheduled or runs, and cannot be removed from the spec; cancel it")
        if triggered is not None and not before and after:
            raise Forbidden(f"the change triggers {triggered}, so it cannot also trigger {after}; make two changes")
        if after == CLEANUP:
            raise Forbidden("the plan cleanup runs when the instance is deleted, and cannot be triggered")

    def _due(self, triggered: str | None) -> str | None:
        before, after = self._before, self._after
        if self._is_upgrade:
            return self._first(UPGRADE, UPDATE, DEPLOY)
        if triggered is not None:
            return triggered
        if not before.plan_name and after.plan_name:
            return after.plan_name
        if after.status in TERMINAL:
            return ""
        is_triggered_again = before.plan_name and before.plan_name == after.plan_name and before.uid != after.uid
        return after.plan_name if is_triggered_again else None
