"""Controllers of kinds that most clusters have no object of: they run from the first object on.

Until then, one watch of the kind's metadata is all that a controller costs. Its module and the classes of its kinds are
not imported, and the cache does not keep them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from kubewright._runtime.log import get_logger
from kubewright.cache._cache import Scope
from kubewright.cache._client import CachedClient
from kubewright.client._client import Client
from kubewright.client._dynamic import PartialObjectMetadata
from kubewright.controllers import Controller
from kubewright.controllers._loop import ControlLoop
from kubewright.machinery.errors import KubewrightError
from kubewright.models import APIResource
from kubewright_controlplane.common.events import ControlPlaneEvents
from kubewright_controlplane.common.permissions import unrestricted

_RETRY_SECONDS: Final = 1.0
_log = get_logger("kubewright.controlplane.ondemand")


@dataclass(frozen=True, slots=True)
class Demand:
    """What a controller waits for."""

    kind: APIResource
    start: Callable[[], Controller[Any]]
    """Imports and returns the controller."""
    labels: str | None = None
    """Only objects that this selector matches start the controller."""
    namespace: str | None = None
    fields: str | None = None
    """Only objects that this field selector matches start the controller."""


class OnDemand:
    """Starts controllers when the first object of their kind exists. They share the cache of the manager."""

    def __init__(
        self,
        demands: Sequence[Demand],
        client: Client,
        cached: Callable[[], CachedClient],
        events: ControlPlaneEvents,
    ) -> None:
        """`client` reads from the server. `cached` is called when the manager runs."""
        self._demands = demands
        self._client = client
        self._cached = cached
        self._events = events

    async def run(self) -> None:
        """Wait for objects, and run the controllers until cancelled."""
        async with asyncio.TaskGroup() as group:
            for demand in self._demands:
                group.create_task(self._serve(demand), name=f"on demand: {demand.kind.plural}")

    async def _serve(self, demand: Demand) -> None:
        await self._until_needed(demand)
        async with asyncio.TaskGroup() as group:
            for each in self._events.reporting(unrestricted([demand.start()])):
                _log.info("Controller started", controller=each.name)
                group.create_task(_run(each, self._cached()))

    async def _until_needed(self, demand: Demand) -> None:
        """Return when there is an object. A watch that fails or ends is started again."""
        kind = PartialObjectMetadata.of(demand.kind)
        while True:
            try:
                watch = self._client.watch(kind, labels=demand.labels, fields=demand.fields, namespace=demand.namespace)
                async with aclosing(watch) as events:
                    async for _ in events:
                        return
            except KubewrightError as error:
                _log.debug("Watch failed, retrying", kind=demand.kind.kind, error=str(error))
            await asyncio.sleep(_RETRY_SECONDS)


async def _run(controller: Controller[Any], client: CachedClient) -> None:
    cache = client.cache
    kinds = controller.cached_kinds
    cache.informer(controller.kind, Scope(indexers=controller.indexers))
    loop = ControlLoop(controller, client, cache)
    loop.start()
    try:
        await asyncio.gather(*(cache.informer(kind).wait_synced() for kind in kinds))
        await loop.run()
    finally:
        loop.close()
