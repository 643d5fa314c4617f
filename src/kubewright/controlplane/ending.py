"""Controllers in a namespace that is being deleted: nothing can be created there, and nothing needs to be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from kubewright.machinery.errors import APIError, Forbidden

P = ParamSpec("P")
R = TypeVar("R")


def is_ending(error: APIError) -> bool:
    """The API server refused because the namespace is being deleted."""
    return any(cause.reason == "NamespaceTerminating" for cause in error.causes)


def while_namespace_lasts(reconcile: Callable[P, Awaitable[R]]) -> Callable[P, Coroutine[Any, Any, R | None]]:
    """A reconcile that ends quietly when its namespace is being deleted: the namespace controller does the rest."""

    @wraps(reconcile)
    async def guarded(*args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return await reconcile(*args, **kwargs)
        except Forbidden as error:
            if not is_ending(error):
                raise
            return None

    return guarded
