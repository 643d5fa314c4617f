"""The controller of Foo, without a Manager: client, informers, listers and a work queue.

An event only reports that something changed. The controller adds a request, the name of a Foo, to the queue. A worker
takes the request, compares the current state with the spec, and makes the missing changes. Read this module in that
order.
"""

import asyncio
import socket
from contextlib import suppress
from datetime import timedelta
from typing import Final, Literal

from kubewright import AlreadyExists, Backoff, Client, Conflict, KubewrightError, NotFound, set_condition
from kubewright.apis.apps.v1 import Deployment
from kubewright.cache import Event, Informer
from kubewright.controllers import QueueClosed, RateLimit, Request, StructuredLogger, WorkQueue, is_controlled_by
from kubewright.manager import EventWriter, get_logger

from sample_controller.api.v1alpha1.foo import Foo
from sample_controller.controller.deployment import deployment_for, deployment_of, differences

NAME: Final = "sample-controller"
"""The name in Events, and the field manager of all writes."""
SYNCED: Final = "Synced"
"""The type of the condition, and its reason if it is true."""
RESOURCE_EXISTS: Final = "ErrResourceExists"
"""The reason if the condition is false."""

BY_DEPLOYMENT: Final = "deployment"
"""The index of Foos by namespace and name of their Deployment."""
RESYNC: Final = timedelta(minutes=10)
SYNC_TIMEOUT: Final = 60.0
"""Seconds until the caches must be synced."""
GRACE: Final = 30.0
"""Seconds that running syncs have to finish on shutdown."""

log = get_logger(NAME)


class NameTaken(Exception):
    """The name of the Deployment is taken by another Deployment."""


class SyncFailed(Exception):
    """A sync failed and is retried after a backoff. The error is already logged."""


class FooController:
    """Maintains a Deployment for each Foo. `run` works until it is cancelled."""

    def __init__(self, client: Client, *, workers: int = 2, sync_timeout: float = SYNC_TIMEOUT) -> None:
        self.client = client
        self.workers = workers
        self.sync_timeout = sync_timeout
        self.foos = Informer(
            client, Foo, resync=RESYNC, indexers={BY_DEPLOYMENT: lambda foo: [str(deployment_of(foo))]}
        )
        self.deployments = Informer(client, Deployment, resync=RESYNC)
        self.queue = WorkQueue(
            backoff=Backoff(base=timedelta(milliseconds=5), limit=timedelta(seconds=1000)),
            rate_limit=RateLimit(per_second=50, burst=300),
        )
        self.events = EventWriter(client, NAME, socket.gethostname())
        self.foos.add_handler(on_add=self.foo_changed, on_update=self.foo_changed)
        self.deployments.add_handler(
            on_add=self.deployment_changed, on_update=self.deployment_changed, on_delete=self.deployment_changed
        )

    # ---- 1. From events to requests: on the event loop, without waiting

    def foo_changed(self, event: Event[Foo]) -> None:
        self.queue.add(event.key)

    def deployment_changed(self, event: Event[Deployment]) -> None:
        """Add the current and the previous owner. If the Deployment is deleted, also add the Foos that want its name."""
        old, new = event.old, event.new
        if old is not None and new is not None and old.resource_version == new.resource_version:
            return  # a resync repeats it; Foos have a resync of their own
        for entry in (old, new):
            owner = entry.controller if entry is not None else None
            if owner is not None and (owner.kind, owner.api_version) == (Foo.__api__.kind, Foo.__api__.api_version):
                self.queue.add(Request(event.key.namespace, owner.name))
        if new is None:
            for key in self.foos.lister.keys_by_index(BY_DEPLOYMENT, str(event.key)):
                self.queue.add(key)

    # ---- 2. Start the caches, then the workers; stop in reverse order

    async def run(self) -> None:
        """Sync Foos until cancelled, then finish the running syncs.

        Raises ConfigError if the kind or a permission is missing, and DeadlineExceeded if a cache does not sync in time.
        """
        event_task = asyncio.create_task(self.events.run())
        self.foos.start()
        self.deployments.start()
        try:
            await self.foos.wait_synced(self.sync_timeout)
            await self.deployments.wait_synced(self.sync_timeout)
            log.info("Caches synced", foos=len(self.foos.lister), deployments=len(self.deployments.lister))
            workers = [asyncio.create_task(self.work()) for _ in range(self.workers)]
            try:
                await asyncio.wait(workers)  # until cancelled; workers end when the queue is closed
            finally:
                self.queue.close()
                _, late = await asyncio.wait(workers, timeout=GRACE)
                await cancel(*late)
        finally:
            await self.foos.stop()
            await self.deployments.stop()
            await cancel(event_task)
            log.info("Controller stopped")

    async def work(self) -> None:
        """Take requests from the queue, one after the other. No two workers have the same request.

        Leaving the block returns the request to the queue. After a success, its failure count is reset. After an
        exception, the request is retried when its backoff and the rate limit allow it.
        """
        with suppress(QueueClosed):
            while True:
                with suppress(SyncFailed):
                    async with self.queue.take() as request:
                        await self.attempt(request)

    async def attempt(self, request: Request) -> None:
        """Run one sync and log its error. Raises SyncFailed."""
        try:
            await self.sync(request)
        except Conflict as error:  # the cache lagged; this is not an error
            log.debug("Conflict found", namespace=request.namespace, foo=request.name, error=str(error))
            raise SyncFailed from error
        except Exception as error:
            trace = None if isinstance(error, KubewrightError | NameTaken) else error
            log.error("Sync failed", namespace=request.namespace, foo=request.name, error=str(error), exc_info=trace)
            raise SyncFailed from error

    # ---- 3. One sync: compare the current state with the spec

    async def sync(self, request: Request) -> None:
        """Create or update the Deployment of a Foo, and write the status. Raises NameTaken and APIErrors."""
        foo = self.foos.lister.get(request.name, request.namespace)
        if foo is None or foo.metadata.deletion_timestamp is not None:
            return  # the garbage collector deletes its Deployment
        try:
            deployment = await self.ensure_deployment(foo)
        except NameTaken as taken:
            self.events.warning(foo, RESOURCE_EXISTS, str(taken))
            await self.report(foo, 0, "False", RESOURCE_EXISTS, str(taken))
            raise
        await self.delete_renamed(foo)
        message = f'Foo synced successfully: Deployment "{deployment.metadata.name}" matches the spec'
        if await self.report(foo, deployment.status.available_replicas or 0, "True", SYNCED, message):
            self.events.normal(foo, SYNCED, message)

    async def ensure_deployment(self, foo: Foo) -> Deployment:
        """Create or update the Deployment of `foo`, and return it. Raises NameTaken.

        The lister may lag behind. Then the API server rejects a `create`, and an `apply` with a uid.
        """
        wanted, (namespace, name) = deployment_for(foo), deployment_of(foo)
        found = self.deployments.lister.get(name, namespace)
        if found is None:
            try:
                created = await self.client.create(wanted)
            except AlreadyExists:
                found = await self.client.get(Deployment, name, namespace=namespace)
            else:
                log_of(foo).info("Deployment created", deployment=name)
                return created
        if not is_controlled_by(found, foo):
            raise NameTaken(
                f'Deployment "{name}" already exists and is not managed by Foo "{foo.metadata.name}"; delete it, or '
                "choose another name in spec.deploymentName"
            )
        changes = differences(found, wanted)
        if not changes:
            return found
        wanted.metadata.uid = found.metadata.uid  # not a newer Deployment of the same name
        applied = await self.client.apply(wanted)
        for path, (before, after) in changes.items():
            log_of(foo).info(f"Deployment {path} change", deployment=name, before=before, after=after)
        return applied

    async def delete_renamed(self, foo: Foo) -> None:
        """Delete the Deployments of `foo` that have a previous name."""
        meta, name = foo.metadata, foo.spec.deployment_name
        owned = [each for each in self.deployments.lister.owned_by(meta.uid) if is_controlled_by(each, foo)]
        renamed = [each for each in owned if each.metadata.name != name and each.metadata.deletion_timestamp is None]
        if not renamed:
            return
        live = await self.client.get(Foo, meta.name, namespace=meta.namespace)
        if live.spec.deployment_name != name:
            return  # the cached Foo is outdated; a delete is final, so check the live object first
        for each in renamed:
            with suppress(NotFound):
                await self.client.delete(each)
                log_of(foo).info("Deployment deleted", deployment=each.metadata.name)

    async def report(
        self, foo: Foo, available: int, synced: Literal["True", "False"], reason: str, message: str
    ) -> bool:
        """Write the status if it differs. Returns whether the condition changed. Raises Conflict if `foo` is outdated."""
        status, generation = foo.status, foo.metadata.generation
        before = (status.available_replicas, status.observed_generation)
        status.available_replicas, status.observed_generation = available, generation
        condition_changed = set_condition(
            status.conditions, SYNCED, synced, reason=reason, message=message, observed_generation=generation
        )
        if condition_changed or before != (available, generation):
            await self.client.update_status(foo)
        return condition_changed


def log_of(foo: Foo) -> StructuredLogger:
    """Return a logger that adds the Foo to each line."""
    return log.bind(namespace=foo.metadata.namespace, foo=foo.metadata.name)


async def cancel(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks and wait until they end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
