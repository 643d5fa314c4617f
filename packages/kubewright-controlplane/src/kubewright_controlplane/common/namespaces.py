"""Reconciles in a namespace that is being deleted: nothing can be created there, and nothing needs to be."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, TypeVar, cast

from kubewright.machinery.errors import APIError, Forbidden

F = TypeVar("F", bound=Callable[..., Coroutine[Any, Any, Any]])


def is_ending(error: BaseException) -> bool:
    """Return whether the API server rejected a write because its namespace is being deleted."""
    return isinstance(error, APIError) and error.namespace_is_ending


def ignore_ending_namespace(reconcile: F) -> F:
    """Make a reconcile end without an error if its namespace is being deleted.

    The namespace controller deletes the remaining objects of the namespace.
    """

    @wraps(reconcile)
    async def guarded(*args: Any) -> Any:
        try:
            return await reconcile(*args)
        except Forbidden as error:
            if not is_ending(error):
                raise
            return None

    return cast("F", guarded)
