"""Runs blocking functions in threads, so that other reconciles continue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


async def run_blocking(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call `function` in a thread and return its result.

    For libraries without `async`, such as boto3 and requests: a call that blocks stops all reconciles, the watches,
    and the renewal of the Lease.

        record = await run_blocking(dns.create_record, ctx.object.spec.name, timeout=10)

    The function sees the context variables of the caller, as in `asyncio.to_thread`. It runs in the default executor
    of the event loop; `loop.set_default_executor` sets the number of threads.

    A thread cannot be interrupted. If the caller is cancelled, by the timeout of the reconcile or by a stop, this waits
    for the function to return and then raises CancelledError. So no second reconcile of the object overlaps the
    function. Give the function a timeout of its own.
    """
    call = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        await asyncio.wait({call})
        if not call.cancelled():
            call.exception()  # the caller was cancelled and does not look at it
        raise
