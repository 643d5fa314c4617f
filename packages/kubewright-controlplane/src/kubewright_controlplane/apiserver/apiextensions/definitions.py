"""Observes CustomResourceDefinitions: accepts their names, serves their kinds, and deletes their objects.

kube-apiserver does this in separate controllers. Here it happens right after the commit: before a client can send its
next request, a definition without conflicts is established and its kind is served. Follows
k8s.io/apiextensions-apiserver pkg/controller/{status,establish,finalizer}.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec

from kubewright._runtime.clock import Clock
from kubewright._runtime.log import get_logger
from kubewright.machinery import time
from kubewright.machinery.errors import NotFound, TooManyRequests
from kubewright.machinery.json import JSONObject, copied
from kubewright_controlplane.apiserver.apiextensions.conversion import WebhookConverter
from kubewright_controlplane.apiserver.apiextensions.naming import (
    NamesInUse,
    accept_names,
    is_established,
    set_terminating,
)
from kubewright_controlplane.apiserver.apiextensions.serving import resources_of, schema_loaders, stored_resource
from kubewright_controlplane.apiserver.endpoints.worker import LARGE, Worker
from kubewright_controlplane.apiserver.registry.model import Resource
from kubewright_controlplane.apiserver.registry.objects import decode_json, from_stored, to_stored
from kubewright_controlplane.apiserver.registry.options import DeleteOptions
from kubewright_controlplane.apiserver.registry.registry import Registry
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.registry.writes import Target
from kubewright_controlplane.apiserver.storage.events import Entry, Event
from kubewright_controlplane.apiserver.webhooks.client import WebhookClients

CLEANUP_FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"

_RESOURCE: Final = "customresourcedefinitions.apiextensions.k8s.io"
_TOGETHER: Final = 50
"""Objects that are changed in one step."""
_USER: Final = "system:apiserver"
"""The user whose turn it is on the worker."""

_log = get_logger(__name__)


class _Stored(msgspec.Struct):
    """A stored definition whose spec is not decoded."""

    kind: str
    apiVersion: str
    metadata: JSONObject
    spec: msgspec.Raw
    status: JSONObject | None = None


_decoder: Final = msgspec.json.Decoder(_Stored)


class Definitions:
    """The definitions of a server, and the resources that it serves for them.

    After `start`, changes of many or large objects are made in the background: they follow the commit soon.
    """

    def __init__(self, resources: ResourceSet, webhooks: WebhookClients, worker: Worker, clock: Clock) -> None:
        """`webhooks` calls conversion webhooks."""
        self._resources = resources
        self._webhooks = webhooks
        self._worker = worker
        self._clock = clock
        self._known: dict[str, JSONObject] = {}
        self._specs: dict[str, bytes] = {}
        """The hashes of the encoded specs of known definitions."""
        self._jobs: set[asyncio.Task[None]] | None = None
        self._served: dict[str, list[tuple[str, str, str]]] = {}
        self._terminating: set[str] = set()
        resources.observe(_RESOURCE, self._on_commit)

    def start(self) -> None:
        """Begin to change objects in the background."""
        self._jobs = set()

    def close(self) -> None:
        for job in self._jobs or ():
            job.cancel()

    def _on_commit(self, event: Event) -> None:
        name = event.entry.name
        if event.type == "DELETED":
            gone = self._known.pop(name, None)
            self._specs.pop(name, None)
            self._stop_serving(name)
            self._terminating.discard(name)
            if gone is not None:
                self._accept_names_of_group(gone["spec"]["group"])
            return
        before = self._known.get(name)
        crd = self._known[name] = self._decode(event.entry)
        if crd["metadata"].get("deletionTimestamp"):
            self._delete(crd)
        elif not self._accept_names(crd) and is_established(crd) and not _serves_the_same(crd, before):
            self._serve(crd)

    def _decode(self, entry: Entry) -> JSONObject:
        """Decode a definition. One with the spec that is known shares it, since decoding a spec may take long."""
        stored, name = _decoder.decode(entry.data), entry.name
        digest = hashlib.blake2b(stored.spec).digest()
        known = self._known.get(name)
        spec: JSONObject
        if known is not None and self._specs[name] == digest:
            spec = known["spec"]
        else:
            spec = decode_json(bytes(stored.spec))
            self._specs[name] = digest
        first = {"kind": stored.kind, "apiVersion": stored.apiVersion, "metadata": stored.metadata, "spec": spec}
        return first if stored.status is None else first | {"status": stored.status}

    def _open(self, name: str) -> tuple[Target, JSONObject]:
        """Open the status of a stored definition. Returns a document whose metadata and status may be changed."""
        registry = self._resources.registry(_RESOURCE)
        entry = registry.entry(name)
        crd = self._decode(entry)
        draft = crd | {"metadata": copied(crd["metadata"]), "status": copied(crd.get("status") or {})}
        return registry.open_decoded(entry, crd, "status"), draft

    def _accept_names(self, crd: JSONObject) -> bool:
        """Write the status that follows from the names. Returns False if it is unchanged."""
        name, group = crd["metadata"]["name"], crd["spec"]["group"]
        if crd["spec"]["names"] == (crd.get("status") or {}).get("acceptedNames") and is_established(crd):
            return False
        others = (each for key, each in self._known.items() if key != name and each["spec"]["group"] == group)
        taken = NamesInUse.of((each.get("status") or {}).get("acceptedNames") or {} for each in others)
        registry = self._resources.registry(_RESOURCE)
        if not registry.has(name):
            return False
        target, settled = self._open(name)
        accept_names(settled, taken=taken, now=self._now())
        if settled.get("status") == target.old.get("status"):
            return False
        registry.write_status(target, settled)
        return True

    def _accept_names_of_group(self, group: str) -> None:
        """Names are free again: accept them for the definitions that wait for them."""
        for crd in list(self._known.values()):
            if crd["spec"]["group"] == group and not crd["metadata"].get("deletionTimestamp"):
                self._accept_names(crd)

    def _serve(self, crd: JSONObject) -> None:
        name = crd["metadata"]["name"]
        by_webhook = crd["spec"]["conversion"]["strategy"] == "Webhook"
        converter = WebhookConverter(crd, self._webhooks, schema_loaders(crd)) if by_webhook else None
        resources = resources_of(crd, converter, lambda: name in self._terminating)
        wanted = [(each.group, each.version, each.plural) for each in resources]
        for place in self._served.get(name, ()):
            if place not in wanted:
                self._resources.remove(*place)
        for resource in resources:
            self._resources.install(resource)
            if resource.converter is not None or resource.from_storage is None:
                self._conform_stored(resource)
        self._served[name] = wanted

    def _conform_stored(self, resource: Resource) -> None:
        """Convert stored objects to the storage version by name, prune and default them by the new schema, at the
        resource version they have. With a conversion webhook this happens whenever they are read, from the form of
        their last write.
        """
        store = self._resources.store
        entries = store.scan(resource.storage)
        if resource.converter is not None:
            store.rewrite(resource.storage, entries, [each.last_write for each in entries])
        elif entries and self._jobs is not None and self._is_much(resource.storage, entries):
            self._in_background(self._conform_slowly(resource, entries))
        else:
            store.rewrite(resource.storage, entries, _conformed(resource, entries))

    def _is_much(self, name: str, entries: Iterable[Entry]) -> bool:
        """Return whether the definition with this name is large, or these objects of it are."""
        schema_size = self._resources.registry(_RESOURCE).stored_size(name, "")
        return schema_size > LARGE or sum(len(each.data) for each in entries) > LARGE

    async def _conform_slowly(self, resource: Resource, entries: list[Entry]) -> None:
        for some in _in_steps(entries):
            made = await self._on_worker(resource, some)
            registry = self._resources.find(resource.group, resource.version, resource.plural)
            if registry is None or registry.resource is not resource:
                return  # the definition has changed again
            self._resources.store.rewrite(resource.storage, some, made)

    async def _on_worker(self, resource: Resource, entries: list[Entry]) -> list[bytes]:
        while True:
            try:
                return await self._worker.run(lambda: _conformed(resource, entries), _USER)
            except TooManyRequests:
                await self._clock.sleep(1)

    def _in_background(self, job: Coroutine[Any, Any, None]) -> None:
        assert self._jobs is not None
        task = asyncio.get_running_loop().create_task(job)
        self._jobs.add(task)
        task.add_done_callback(self._end_job)

    def _end_job(self, task: asyncio.Task[None]) -> None:
        assert self._jobs is not None
        self._jobs.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("Change of stored objects failed", exc_info=error)

    def _stop_serving(self, name: str) -> None:
        for place in self._served.pop(name, ()):
            self._resources.remove(*place)

    def _delete(self, crd: JSONObject) -> None:
        """Delete the objects of a definition that is being deleted, then remove its finalizer."""
        name = crd["metadata"]["name"]
        if CLEANUP_FINALIZER not in (crd["metadata"].get("finalizers") or ()):
            return
        if is_established(crd) and name not in self._served:
            self._serve(crd)
        if name not in self._terminating:
            self._terminating.add(name)
            if name in self._served:
                self._begin_deletion(name)
                self._resources.observe(name, partial(self._instance_changed, name))
                self._delete_instances(crd)
        self._remove_finalizer(name)

    def _begin_deletion(self, name: str) -> None:
        target, crd = self._open(name)
        message = "CustomResource deletion is in progress"
        set_terminating(crd, "InstanceDeletionInProgress", message, self._now(), holds=True)
        self._resources.registry(_RESOURCE).write_status(target, crd)

    def _delete_instances(self, crd: JSONObject) -> None:
        registry = self._resources.unserved(stored_resource(crd))
        steps = _in_steps(registry.entries())
        _delete_all(registry, next(steps, ()))
        if self._jobs is not None:
            self._in_background(_delete_slowly(registry, steps))
        else:
            for some in steps:
                _delete_all(registry, some)

    def _instance_changed(self, name: str, event: Event) -> None:
        if event.type == "DELETED" and name in self._terminating:
            self._remove_finalizer(name)

    def _remove_finalizer(self, name: str) -> None:
        """Remove the finalizer, unless objects are left."""
        if name not in self._known or self._resources.store.count(name):
            return
        registry = self._resources.registry(_RESOURCE)
        if not registry.has(name):
            return
        target, crd = self._open(name)  # an update of the whole object could fail validation
        finalizers: list[str] = crd["metadata"].get("finalizers") or []
        if CLEANUP_FINALIZER not in finalizers:
            return
        reason, message = "InstanceDeletionCompleted", "removed all instances"
        if name not in self._served:
            reason, message = "NeverEstablished", "resource was never established"
        set_terminating(crd, reason, message, self._now(), holds=False)
        crd["metadata"]["finalizers"] = [each for each in finalizers if each != CLEANUP_FINALIZER]
        registry.write_status(target, crd)

    def _now(self) -> str:
        return time.format(self._clock.now())


def _in_steps(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Divide entries into steps that hold up others only shortly."""
    some: list[Entry] = []
    size = 0
    for entry in entries:
        some.append(entry)
        size += len(entry.data)
        if len(some) >= _TOGETHER or size > LARGE:
            yield some
            some, size = [], 0
    if some:
        yield some


def _conformed(resource: Resource, entries: Iterable[Entry]) -> list[bytes]:
    return [_conformed_data(resource, entry.last_write) for entry in entries]


def _conformed_data(resource: Resource, data: bytes) -> bytes:
    obj = from_stored(resource, data)
    resource.schema.prune(obj)
    resource.schema.default(obj)
    return to_stored(resource, obj)


def _delete_all(registry: Registry, entries: Iterable[Entry]) -> None:
    for entry in entries:
        with suppress(NotFound):  # a client was faster
            registry.delete(entry.name, entry.namespace, DeleteOptions())


async def _delete_slowly(registry: Registry, steps: Iterable[list[Entry]]) -> None:
    for some in steps:
        await asyncio.sleep(0)  # let others be served
        _delete_all(registry, some)


def _serves_the_same(crd: JSONObject, before: JSONObject | None) -> bool:
    if before is None or not is_established(before):
        return False
    names = [(each.get("status") or {}).get("acceptedNames") for each in (crd, before)]
    return bool(crd["spec"] == before["spec"] and names[0] == names[1])
