"""The controller of Foo, by hand: client, informers, listers and a work queue, and no Manager.

An event says that something has changed, and never what: it becomes a request, the name of a Foo, in the queue. A worker
takes it, looks at what there is now, and does what is missing. The page reads in that order.
"""

import asyncio
import socket
from contextlib import suppress
from datetime import timedelta
from typing import Final, Literal

from kubewright import AlreadyExists, Backoff, Client, Conflict, KubewrightError, NotFound, set_condition
from kubewright._runtime.log import StructuredLogger, get_logger
from kubewright.apis.apps.v1 import Deployment
from kubewright.cache import Event, Informer
from kubewright.controllers import QueueClosed, RateLimit, Request, WorkQueue, is_controlled_by
from kubewright.manager._events import EventWriter

from sample_controller.api.v1alpha1.foo import Foo
from sample_controller.controller.deployment import deployment_for, deployment_of, differences

NAME: Final = "sample-controller"
"""Who reports Events, and who owns the fields that are written."""
SYNCED: Final = "Synced"
"""The condition, and the reason of the Event when it becomes true."""
RESOURCE_EXISTS: Final = "ErrResourceExists"
"""The reason why it is false."""

BY_DEPLOYMENT: Final = "deployment"
"""An index of Foos: by namespace and name of the Deployment that each asks for."""
RESYNC: Final = timedelta(minutes=10)
SYNC_TIMEOUT: Final = 60.0
"""Seconds for the caches to be complete."""
GRACE: Final = 30.0
"""Seconds that a sync has to end when the program stops."""

log = get_logger(NAME)


class NameTaken(Exception):
    """The Deployment is not this Foo's."""


class SyncFailed(Exception):
    """The Foo comes again after its backoff; what went wrong has been told."""


class FooController:
    """Keeps a Deployment for each Foo. `run` does the work, until it is cancelled."""

    def __init__(self, client: Client, *, workers: int = 2) -> None:
        self.client = client
        self.workers = workers
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

    # ---- 1. from events to requests: on the event loop, without waiting

    def foo_changed(self, event: Event[Foo]) -> None:
        self.queue.add(event.key)

    def deployment_changed(self, event: Event[Deployment]) -> None:
        """Ask for the Foo that controls the Deployment, or did; and for those that wait for its name, when it goes."""
        old, new = event.old, event.new
        if old is not None and new is not None and old.resource_version == new.resource_version:
            return  # a resync shows it once more; Foos have a resync of their own
        for entry in (old, new):
            owner = entry.controller if entry is not None else None
            if owner is not None and (owner.kind, owner.api_version) == (Foo.__api__.kind, Foo.__api__.api_version):
                self.queue.add(Request(event.key.namespace, owner.name))
        if new is None:
            for key in self.foos.lister.keys_by_index(BY_DEPLOYMENT, str(event.key)):
                self.queue.add(key)

    # ---- 2. caches first, then workers; at the end the same backwards

    async def run(self) -> None:
        """Sync Foos until cancelled, then finish what is in hand.

        Raises ConfigError when the kind or a right is missing, DeadlineExceeded when a cache stays incomplete.
        """
        writing = asyncio.create_task(self.events.run())
        self.foos.start()
        self.deployments.start()
        try:
            await self.foos.wait_synced(SYNC_TIMEOUT)
            await self.deployments.wait_synced(SYNC_TIMEOUT)
            log.info("Caches are complete", foos=len(self.foos.lister), deployments=len(self.deployments.lister))
            workers = [asyncio.create_task(self.work()) for _ in range(self.workers)]
            try:
                await asyncio.wait(workers)  # until cancelled: they end when the queue is closed
            finally:
                self.queue.close()
                _, late = await asyncio.wait(workers, timeout=GRACE)
                await end(*late)
        finally:
            await self.foos.stop()
            await self.deployments.stop()
            await end(writing)
            log.info("Stopped")

    async def work(self) -> None:
        """Take requests from the queue, one after the other. No other worker has the same one at the same time.

        What leaves the block gives the request back: after a success its failures are forgotten; after an exception it
        is handed out again, when its backoff and the rate limit let it.
        """
        with suppress(QueueClosed):
            while True:
                with suppress(SyncFailed):
                    async with self.queue.take() as request:
                        await self.attempt(request)

    async def attempt(self, request: Request) -> None:
        """One sync, and what is told of its failure. Raises SyncFailed."""
        try:
            await self.sync(request)
        except Conflict as error:  # our copy was not the latest: nothing is wrong
            log.debug("Changed meanwhile", namespace=request.namespace, foo=request.name, error=str(error))
            raise SyncFailed from error
        except Exception as error:
            trace = None if isinstance(error, KubewrightError | NameTaken) else error
            log.error("Sync failed", namespace=request.namespace, foo=request.name, error=str(error), exc_info=trace)
            raise SyncFailed from error

    # ---- 3. one sync: what is, beside what should be

    async def sync(self, request: Request) -> None:
        """Bring the Deployment of a Foo about, and say in the Foo how it is. Raises NameTaken; what the API server says."""
        foo = self.foos.lister.get(request.name, request.namespace)
        if foo is None or foo.metadata.deletion_timestamp is not None:
            return  # its Deployment goes with it, by the owner reference
        try:
            deployment = await self.bring_about(foo)
        except NameTaken as taken:
            self.events.warning(foo, RESOURCE_EXISTS, str(taken))
            await self.report(foo, 0, "False", RESOURCE_EXISTS, str(taken))
            raise
        await self.delete_renamed(foo)
        message = f'Foo synced successfully: Deployment "{deployment.metadata.name}" is as the spec says'
        if await self.report(foo, deployment.status.available_replicas or 0, "True", SYNCED, message):
            self.events.normal(foo, SYNCED, message)

    async def bring_about(self, foo: Foo) -> Deployment:
        """The Deployment of `foo`, created or changed if need be. Raises NameTaken.

        The lister may be late. A `create` is refused where it is, and an `apply` that names a uid: each says what the
        cache could not know.
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
        wanted.metadata.uid = found.metadata.uid  # this one, and no namesake made since
        applied = await self.client.apply(wanted)
        for path, (before, after) in changes.items():
            log_of(foo).info(f"Deployment {path} change", deployment=name, before=before, after=after)
        return applied

    async def delete_renamed(self, foo: Foo) -> None:
        """Delete the Deployments that `foo` had under other names."""
        meta, name = foo.metadata, foo.spec.deployment_name
        owned = [each for each in self.deployments.lister.owned_by(meta.uid) if is_controlled_by(each, foo)]
        renamed = [each for each in owned if each.metadata.name != name and each.metadata.deletion_timestamp is None]
        if not renamed:
            return
        live = await self.client.get(Foo, meta.name, namespace=meta.namespace)
        if live.spec.deployment_name != name:
            return  # our Foo is out of date; what is deleted is gone, so that a cache alone is not believed
        for each in renamed:
            with suppress(NotFound):
                await self.client.delete(each)
                log_of(foo).info("Deployment of an earlier name deleted", deployment=each.metadata.name)

    async def report(
        self, foo: Foo, available: int, synced: Literal["True", "False"], reason: str, message: str
    ) -> bool:
        """Write the status, if it differs; whether the condition does. Raises Conflict when `foo` is not the latest."""
        status, generation = foo.status, foo.metadata.generation
        before = (status.available_replicas, status.observed_generation)
        status.available_replicas, status.observed_generation = available, generation
        is_news = set_condition(
            status.conditions, SYNCED, synced, reason=reason, message=message, observed_generation=generation
        )
        if is_news or before != (available, generation):
            await self.client.update_status(foo)
        return is_news


def log_of(foo: Foo) -> StructuredLogger:
    """Says in each line which Foo it is about."""
    return log.bind(namespace=foo.metadata.namespace, foo=foo.metadata.name)


async def end(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks, and wait for their end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
