"""NamespaceLifecycle: rejects creates in missing and terminating namespaces, and deletes of system namespaces."""

from __future__ import annotations

from typing import Final

from kubewright.machinery.errors import Forbidden, NotFound, StatusCause, StatusDetails
from kubewright_controlplane.apiserver.admission.plugin import Plugin, object_name, rejection
from kubewright_controlplane.apiserver.registry.model import Attributes
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.storage.events import Event

_IMMORTAL: Final = frozenset({"default", "kube-system", "kube-public"})


class NamespaceLifecycle(Plugin):
    name = "NamespaceLifecycle"

    def __init__(self, resources: ResourceSet) -> None:
        self._terminating: dict[str, bool] = {}
        resources.observe("namespaces", self._on_commit)

    def admit(self, attributes: Attributes) -> None:
        if attributes.resource.qualified == "namespaces":
            if attributes.operation == "DELETE" and attributes.name in _IMMORTAL:
                raise rejection(attributes, "this namespace may not be deleted")
            return
        self.validate(attributes)

    def validate(self, attributes: Attributes) -> None:
        """Check the namespace, a second time for writes that have waited."""
        namespace = attributes.namespace
        if not namespace or attributes.operation != "CREATE" or attributes.resource.qualified == "namespaces":
            return
        terminating = self._terminating.get(namespace)
        if terminating is None:
            details = StatusDetails(name=namespace, kind="namespaces")
            raise NotFound(f'namespaces "{namespace}" not found', details=details)
        if terminating:
            raise self._terminating_error(attributes)

    def _terminating_error(self, attributes: Attributes) -> Forbidden:
        resource, namespace = attributes.resource, attributes.namespace
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        cause = StatusCause("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace")
        details = StatusDetails(
            name=object_name(attributes), group=resource.group, kind=resource.plural, causes=(cause,)
        )  # fmt: skip
        return Forbidden(rejection(attributes, why).status.message, details=details)

    def _on_commit(self, event: Event) -> None:
        if event.type == "DELETED":
            self._terminating.pop(event.entry.name, None)
        else:
            self._terminating[event.entry.name] = event.entry.fields.get("status.phase") == "Terminating"
