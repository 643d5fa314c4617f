"""Observes CustomResourceDefinitions: accepts their names, serves their kinds, and deletes their objects.

kube-apiserver does this in separate controllers. Here it happens right after the commit: before a client can send its
next request, a definition without conflicts is established and its kind is served. Follows
k8s.io/apiextensions-apiserver pkg/controller/{status,establish,finalizer}.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from kubewright._runtime.clock import Clock
from kubewright.machinery import time
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.apiextensions.conversion import WebhookConverter
from kubewright_controlplane.apiserver.apiextensions.naming import (
    NamesInUse,
    accept_names,
    is_established,
    set_terminating,
)
from kubewright_controlplane.apiserver.apiextensions.serving import resources_of, schema_loaders, stored_resource
from kubewright_controlplane.apiserver.registry.options import DeleteOptions
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.storage.events import Event
from kubewright_controlplane.apiserver.webhooks.client import WebhookClients

CLEANUP_FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"

_RESOURCE: Final = "customresourcedefinitions.apiextensions.k8s.io"


class Definitions:
    """The definitions of a server, and the resources that it serves for them."""

    def __init__(self, resources: ResourceSet, webhooks: WebhookClients, clock: Clock) -> None:
        """`webhooks` calls conversion webhooks."""
        self._resources = resources
        self._webhooks = webhooks
        self._clock = clock
        self._known: dict[str, JSONObject] = {}
        self._served: dict[str, list[tuple[str, str, str]]] = {}
        self._terminating: set[str] = set()
        resources.observe(_RESOURCE, self._on_commit)

    def _on_commit(self, event: Event) -> None:
        name = event.entry.name
        if event.type == "DELETED":
            gone = self._known.pop(name, None)
            self._stop_serving(name)
            self._terminating.discard(name)
            if gone is not None:
                self._accept_names_of_group(gone["spec"]["group"])
            return
        crd = self._resources.decode(event.entry.data)
        before = self._known.get(name)
        self._known[name] = crd
        if crd["metadata"].get("deletionTimestamp"):
            self._delete(crd)
        elif not self._accept_names(crd) and is_established(crd) and not _serves_the_same(crd, before):
            self._serve(crd)

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
        target = registry.open(name, subresource="status")
        settled = target.draft()
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
        self._served[name] = wanted

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
        registry = self._resources.registry(_RESOURCE)
        target = registry.open(name, subresource="status")
        crd = target.draft()
        message = "CustomResource deletion is in progress"
        set_terminating(crd, "InstanceDeletionInProgress", message, self._now(), holds=True)
        registry.write_status(target, crd)

    def _delete_instances(self, crd: JSONObject) -> None:
        registry = self._resources.unserved(stored_resource(crd))
        for entry in registry.entries():
            registry.delete(entry.name, entry.namespace, DeleteOptions())

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
        target = registry.open(name, subresource="status")  # an update of the whole object could fail validation
        crd = target.draft()
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


def _serves_the_same(crd: JSONObject, before: JSONObject | None) -> bool:
    if before is None or not is_established(before):
        return False
    names = [(each.get("status") or {}).get("acceptedNames") for each in (crd, before)]
    return bool(crd["spec"] == before["spec"] and names[0] == names[1])
