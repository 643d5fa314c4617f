"""Waiting for an object to become what one wants it to be, or to be gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final, TypeVar

from kubewright.client._client import Client
from kubewright.machinery.errors import ConnectionFailed, DeadlineExceeded, Gone
from kubewright.machinery.json import JSONObject
from kubewright.models import Object, codec

T = TypeVar("T", bound=Object)

_PAUSE: Final = 1.0
"""Seconds between two streams, when one broke."""


def has_condition(type: str, status: str = "True") -> Callable[[Object], bool]:
    """For `wait_for`: whether an object has a condition of that type with that status.

    One that is about an older generation does not count, where condition or status says which it observed. As
    `kubectl wait --for=condition=...` has it.
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


async def wait_for(
    client: Client,
    kind: type[T],
    name: str,
    condition: Callable[[T], bool],
    *,
    namespace: str | None = None,
    timeout: float = 60.0,
) -> T:
    """Wait until there is an object of that name for which `condition` is true, and give it.

    `condition` is any function of the object; `has_condition("Available")` makes one. Follows the object by a watch; a
    broken one is made anew. DeadlineExceeded after `timeout` seconds, APIError for what the server refuses (a kind it
    does not have, a right that is missing).
    """
    obj: T | None = None
    try:
        async with asyncio.timeout(timeout), aclosing(_states(client, kind, name, namespace)) as states:
            async for obj in states:
                if obj is not None and condition(obj):
                    return obj
    except TimeoutError as error:
        seen = f"it is at resource version {obj.metadata.resource_version}" if obj is not None else "there is none"
        wanted = getattr(condition, "__name__", "the condition")
        raise DeadlineExceeded(
            f'{kind.__api__.kind} "{name}": {wanted} was not met after {timeout:g} s; {seen}'
        ) from error
    raise AssertionError("the states of an object have no end")


async def wait_until_gone(
    client: Client,
    kind: type[Object],
    name: str,
    *,
    namespace: str | None = None,
    uid: str | None = None,
    timeout: float = 60.0,
) -> None:
    """Wait until there is no object of that name, or one with another uid than `uid`. Fails as `wait_for` does."""
    obj: Object | None = None
    try:
        async with asyncio.timeout(timeout), aclosing(_states(client, kind, name, namespace)) as states:
            async for obj in states:
                if obj is None or (uid is not None and obj.metadata.uid != uid):
                    return
    except TimeoutError as error:
        holders = ", ".join(obj.metadata.finalizers) if obj is not None else ""
        held = f"finalizers hold it: {holders}" if holders else "nothing but its grace period, if any, holds it"
        raise DeadlineExceeded(f'{kind.__api__.kind} "{name}" was still there after {timeout:g} s; {held}') from error


async def _states(client: Client, kind: type[T], name: str, namespace: str | None) -> AsyncGenerator[T | None, None]:
    """What the object is now, and what it becomes, without an end; None while there is none."""
    client.endpoint(kind).item(name, namespace)  # says what is missing
    selected = {"metadata.name": name}
    while True:
        try:
            found = await client.list(kind, namespace=namespace, fields=selected)
            yield found.items[0] if found else None
            changes = client.watch(kind, namespace=namespace, fields=selected, resource_version=found.resource_version)
            async with aclosing(changes) as events:
                async for event in events:
                    yield None if event.type == "DELETED" else event.object
        except (Gone, ConnectionFailed, DeadlineExceeded):
            await client.clock.sleep(_PAUSE)
