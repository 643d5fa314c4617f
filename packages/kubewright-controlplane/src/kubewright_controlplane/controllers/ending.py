"""Controllers in a namespace that is being deleted: nothing can be created there, and nothing needs to be."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, TypeVar, cast

from kubewright.machinery.errors import Forbidden

F = TypeVar("F", bound=Callable[..., Coroutine[Any, Any, Any]])


def while_namespace_lasts(reconcile: F) -> F:
    """A reconcile that ends quietly when its namespace is being deleted: the namespace controller does the rest."""

    @wraps(reconcile)
    async def guarded(*args: Any) -> Any:
        try:
            return await reconcile(*args)
        except Forbidden as error:
            if not error.namespace_is_ending:
                raise
            return None

    return cast("F", guarded)
