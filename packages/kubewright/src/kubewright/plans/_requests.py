"""Requests of users about plans: annotations of the object.

A request names the execution that it is about. Once it is carried out, it has no further effect, and need not be
removed.
"""

from __future__ import annotations

from typing import Final, TypeVar

from kubewright.client import Client, MergePatch
from kubewright.machinery.errors import ConfigError
from kubewright.models import Object

T = TypeVar("T", bound=Object)

PAUSE: Final = "plans.kubewright.dev/pause"
"""No task runs while the value is `"true"`."""
CANCEL: Final = "plans.kubewright.dev/cancel"
"""The name of the execution to end, such as `deploy-3`."""
RETRY: Final = "plans.kubewright.dev/retry"
"""The name of the failed or canceled execution to continue from its failed step."""
START: Final = "plans.kubewright.dev/start-"
"""With the name of a plan: a new value starts the plan."""


async def pause(client: Client, obj: T) -> T:
    """Ask the operator to run no further task of the object's plans."""
    return await _annotate(client, obj, PAUSE, "true")


async def resume(client: Client, obj: T) -> T:
    """Ask the operator to continue a paused plan."""
    return await _annotate(client, obj, PAUSE, None)


async def cancel(client: Client, obj: T, execution: str) -> T:
    """Ask the operator to end the execution. Nothing is rolled back."""
    return await _annotate(client, obj, CANCEL, _named(execution))


async def retry(client: Client, obj: T, execution: str) -> T:
    """Ask the operator to continue an execution that failed or was canceled, from the failed step."""
    return await _annotate(client, obj, RETRY, _named(execution))


async def start(client: Client, obj: T, plan: str, value: str) -> T:
    """Ask the operator to start a plan. The same `value` starts it once."""
    return await _annotate(client, obj, f"{START}{plan}", value)


def _named(execution: str) -> str:
    if not execution:
        raise ConfigError("name the execution, as status.plan.name shows it: deploy-3")
    return execution


async def _annotate(client: Client, obj: T, key: str, value: str | None) -> T:
    return await client.patch(obj, MergePatch({"metadata": {"annotations": {key: value}}}))
