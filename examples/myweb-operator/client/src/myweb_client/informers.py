# Made by `kubewright generate client`, which writes it anew: change nothing here.
# ruff: noqa: ASYNC109, RUF100 - a timeout is what callers of a client expect
"""Informers: local copies of kinds that keep up with the server; each has a lister, which reads from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from kubewright.cache import Cache, Informer, Scope
from kubewright.models import Object

from . import operator_v1
from .clientset import Clientset


class Informers:
    """One informer for each kind that is asked for. They run while the block of `async with` does."""

    def __init__(
        self,
        clients: Clientset,
        *,
        namespace: str | Sequence[str] | None = None,
        scopes: Mapping[type[Object], Scope] | None = None,
    ) -> None:
        """Of the objects in `namespace`, one or several, or in all; `scopes` says more for some kinds."""
        self.cache = Cache(clients.client, namespaces=namespace, scopes=scopes)
        self.operator_v1 = OperatorV1Informers(self.cache)
        """operator.k8s-summit.org/v1"""

    async def wait_synced(self, timeout: float | None = None) -> None:
        """Until all that was asked for is complete. Raises DeadlineExceeded, which names what is not."""
        await self.cache.wait_synced(timeout)

    async def __aenter__(self) -> Self:
        self.cache.start()
        return self

    async def __aexit__(self, *ended_by: object) -> None:
        await self.cache.stop()


class OperatorV1Informers:
    """The kinds of operator.k8s-summit.org/v1."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    @property
    def mywebs(self) -> Informer[operator_v1.MyWeb]:
        """Of MyWeb; its `lister` reads."""
        return self._cache.informer(operator_v1.MyWeb)
