"""Waiting until an object meets a condition, or no longer exists: `Client.wait_for` and `Client.wait_until_gone`.

The states of an object come from a list and a watch, which are repeated when they break.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TypeAlias, TypeVar

from kubewright.machinery.errors import DeadlineExceeded
from kubewright.machinery.json import JSONObject
from kubewright.machinery.time import Seconds, seconds
from kubewright.models import Object, codec

T = TypeVar("T", bound=Object)

States: TypeAlias = AsyncGenerator[T | None, None]
"""The states of one object, without an end; None while it does not exist."""


def has_condition(type: str, status: str = "True") -> Callable[[Object], bool]:
    """Return a test for `Client.wait_for`: whether an object has a condition of that type with that status.

    A condition of an older generation does not count, if the condition or the status names the generation that it
    observed. `kubectl wait --for=condition=...` follows the same rule.
    """

    def check(obj: Object) -> bool:
        document = codec.document(obj)
        state: JSONObject = document.get("status") or {}
        generation = document["metadata"].get("generation", 0)

        def is_met(found: JSONObject) -> bool:
            is_stale = any(each.get("observedGeneration", generation) < generation for each in (found, state))
            return found.get("type") == type and found.get("status") == status and not is_stale

        return any(is_met(each) for each in state.get("conditions") or ())

    check.__name__ = f"condition {type}={status}"
    return check


async def until_met(states: States[T], what: str, condition: Callable[[T], bool], timeout: Seconds) -> T:
    """Return the first state that meets `condition`. Raises DeadlineExceeded after `timeout`."""
    obj: T | None = None
    allowed = seconds(timeout)
    try:
        async with asyncio.timeout(allowed), aclosing(states):
            async for obj in states:
                if obj is not None and condition(obj):
                    return obj
    except TimeoutError as error:
        seen = f"it is at resource version {obj.metadata.resource_version}" if obj is not None else "it does not exist"
        wanted = getattr(condition, "__name__", "the condition")
        raise DeadlineExceeded(f"{what}: {wanted} was not met after {allowed:g} s; {seen}") from error
    raise AssertionError("the states of an object have no end")


async def until_gone(states: States[T], what: str, uid: str | None, timeout: Seconds) -> None:
    """Return when the object does not exist, or has another uid than `uid`. Raises DeadlineExceeded after `timeout`."""
    obj: T | None = None
    allowed = seconds(timeout)
    try:
        async with asyncio.timeout(allowed), aclosing(states):
            async for obj in states:
                if obj is None or (uid is not None and obj.metadata.uid != uid):
                    return
    except TimeoutError as error:
        finalizers = ", ".join(obj.metadata.finalizers) if obj is not None else ""
        held = f"its finalizers keep it: {finalizers}" if finalizers else "only its grace period, if any, keeps it"
        raise DeadlineExceeded(f"{what} still exists after {allowed:g} s; {held}") from error
