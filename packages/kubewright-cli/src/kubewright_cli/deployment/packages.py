"""Instances of packages, for the command line: waiting for their plans, and showing them."""

from __future__ import annotations

from collections.abc import Iterator

from kubewright.machinery.errors import ConfigError, DeadlineExceeded, NotFound
from kubewright.packages import Instance, OperatorVersion, Target
from kubewright.plans import PAUSE, Execution
from kubewright_cli import console

_NOBODY = "; is the operator of packages running? Start it with `kubewright package run`"


async def wait_for_plan(target: Target, instance: str, before: str, timeout: int) -> None:
    """Wait until the plan after the execution with the uid `before` is complete. Raises ConfigError."""
    with console.progress(f"Waiting for Instance {instance}") as step:

        def ended(live: Instance) -> bool:
            execution = live.status.execution
            if execution is None or live.status.execution_uid == before:
                return False
            step(f"{execution.name}: {execution.step or execution.state}: {execution.message}".rstrip(": "))
            return execution.has_ended and not live.spec.plan_execution.plan_name

        try:
            live = await target.client.wait_for(Instance, instance, ended, namespace=target.namespace, timeout=timeout)
        except DeadlineExceeded:
            raise ConfigError(await _late(target, instance, before, timeout)) from None
    execution = live.status.execution
    assert execution is not None
    if execution.state != "Complete":
        raise ConfigError(
            f"{execution.name} of Instance {instance} has ended as {execution.state}, in step {execution.step}: "
            f"{execution.message}. To continue after you have removed the cause: kubewright package retry --instance "
            f"{instance}"
        )
    console.say(f"{execution.name} of Instance {instance} is {console.good('complete')}")


async def _late(target: Target, instance: str, before: str, timeout: int) -> str:
    live = await target.instance(instance)
    execution = live.status.execution
    if execution is None or live.status.execution_uid == before:
        return f"Instance {instance}: no plan has begun after {timeout} s{_NOBODY}"
    return f"{execution.name} of Instance {instance} is not complete after {timeout} s: {execution.message}"


async def wait_for_deletion(target: Target, instance: str, timeout: int) -> None:
    """Wait until an instance is gone. Raises ConfigError."""
    with console.progress(f"Deleting Instance {instance}"):
        try:
            await target.client.wait_until_gone(Instance, instance, namespace=target.namespace, timeout=timeout)
        except NotFound:
            return
        except DeadlineExceeded:
            raise ConfigError(f"Instance {instance} is not gone after {timeout} s{_NOBODY}") from None


def refused_request(request: str, live: Instance, execution: Execution) -> str:
    """Return why an execution cannot be paused, resumed, canceled or retried; empty if it can."""
    if request == "retry" and execution.state not in ("Failed", "Canceled"):
        return f"is {execution.state}, and only a plan that failed or was canceled is retried; start one with trigger"
    if request == "resume" and execution.state != "Paused" and PAUSE not in live.metadata.annotations:
        return f"is {execution.state}, and not paused"
    if request in ("pause", "cancel") and execution.has_ended:
        return f"has ended as {execution.state}; there is no plan to {request}"
    return ""


def plan_lines(live: Instance, version: OperatorVersion) -> Iterator[str]:
    """Yield what `kubewright package status` prints."""
    ready = next((each for each in live.status.conditions if each.type == "Ready"), None)
    state = "unknown" if ready is None else f"{ready.status} ({ready.reason})"
    message = f": {ready.message}" if ready is not None and ready.message else ""
    name = live.metadata.name
    yield f"{console.strong(name)} of {version.metadata.name}, ready: {state}{message}"
    last = live.status.last_plan
    for plan in sorted(version.spec.plans or {}):
        status = live.status.plan_status.get(plan)
        if plan != last or status is None:
            yield f"  Plan {plan}: {status.status if status is not None else 'NEVER_RUN'}"
            continue
        execution = live.status.execution
        called = f" ({execution.name}, {execution.state})" if execution is not None else ""
        yield f"  Plan {plan}: {_colored(status.status)}{called}{_because(status.message)}"
        for phase in status.phases:
            yield f"    Phase {phase.name}: {_colored(phase.status)}"
            for step in phase.steps:
                yield f"      Step {step.name}: {_colored(step.status)}{_because(step.message)}"


def history_of(live: Instance) -> list[list[str]]:
    """Return the rows of `kubewright package history`."""
    rows: list[list[str]] = []
    for name in sorted(live.status.plan_status):
        status = live.status.plan_status[name]
        moment = status.last_updated_timestamp
        rows.append([name, _colored(status.status), moment.isoformat() if moment is not None else "", status.message])
    return rows


def _colored(status: str) -> str:
    if status == "COMPLETE":
        return console.good(status)
    return console.bad(status) if status in ("ERROR", "FATAL_ERROR") else status


def _because(message: str) -> str:
    return f": {message}" if message else ""
