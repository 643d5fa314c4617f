"""Waiting for what a control plane does in its own time."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Final, ParamSpec, TypeVar, overload

from kubewright.machinery.errors import NotFound
from kubewright.machinery.time import Seconds, seconds

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_WITHIN: Final = 120.0
"""Seconds. The slowest part of a real control plane, its garbage collector, needs 40 of them on a busy machine."""
_FIRST_PAUSE: Final = 0.005
_LONGEST_PAUSE: Final = 0.25

within_of_this_run: Final[ContextVar[float]] = ContextVar("kubewright_eventually_within", default=DEFAULT_WITHIN)
"""The default of `eventually`. The pytest plugin sets it from the ini option `kubewright_eventually_within`."""


@overload
async def eventually(
    function: Callable[..., Awaitable[R]], /, *args: object, within: Seconds | None, **kwargs: object
) -> R: ...


@overload
async def eventually(function: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...


@overload
async def eventually(function: Callable[[], R], /, *, within: Seconds | None = None) -> R: ...


async def eventually(function: Callable[..., object], /, *args: Any, **kwargs: Any) -> object:
    """Call `function` until it raises neither NotFound nor AssertionError, and return its result.

    Raises the error of the last call after `within`, in seconds or as a timedelta. Any other error ends it immediately.
    Default: the ini option `kubewright_eventually_within` of pytest, or 120 s.

        service = await eventually(cluster.client.get, Service, "web-service", namespace="d", within=10)
        await eventually(lambda: check(operator.metrics))
    """
    within: Seconds | None = kwargs.pop("within", None)
    clock = asyncio.get_running_loop().time
    deadline = clock() + (within_of_this_run.get() if within is None else seconds(within))
    pause = _FIRST_PAUSE
    while True:
        try:
            result = function(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result
        except (AssertionError, NotFound):
            if clock() > deadline:
                raise
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)


@overload
async def gone(
    function: Callable[..., Awaitable[object]], /, *args: object, within: Seconds | None, **kwargs: object
) -> None: ...


@overload
async def gone(function: Callable[P, Awaitable[object]], /, *args: P.args, **kwargs: P.kwargs) -> None: ...


async def gone(function: Callable[..., Awaitable[object]], /, *args: Any, **kwargs: Any) -> None:
    """Wait until `function` raises NotFound.

    Raises AssertionError with what it still returns, after `within` as in `eventually`.

        await gone(cluster.client.get, Service, "web-service", namespace="d")
    """

    within: Seconds | None = kwargs.pop("within", None)

    async def check() -> None:
        try:
            found = await function(*args, **kwargs)
        except NotFound:
            return
        raise AssertionError(f"still exists: {found}")

    await eventually(check, within=within)
