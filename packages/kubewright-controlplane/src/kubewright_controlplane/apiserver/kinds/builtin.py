"""The built-in kinds: facts from the catalog, behavior from the module of their group.

A group's module is named after its Go package. Kinds of a group without a module have no behavior beyond their
schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from types import ModuleType

from kubewright.machinery.gvk import GroupVersionKind
from kubewright_controlplane.apiserver import catalog, printers
from kubewright_controlplane.apiserver.authentication.authentication import Authentication
from kubewright_controlplane.apiserver.authorization.nodes import NodesAndRBAC
from kubewright_controlplane.apiserver.catalog.facts import ResourceFacts, SubresourceFacts
from kubewright_controlplane.apiserver.kinds.generic import PlainStrategy, Unsupported
from kubewright_controlplane.apiserver.options import ServerOptions
from kubewright_controlplane.apiserver.registry.model import (
    Connection,
    Conversion,
    Resource,
    Strategy,
    Subresource,
    VersionedPlural,
)
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.registry.views import ScaleView, StatusView
from kubewright_controlplane.schema.node import Components
from kubewright_controlplane.schema.structural.schema import Schema

_MODULES = {
    "": "core",
    "admissionregistration.k8s.io": "admissionregistration",
    "apiextensions.k8s.io": "apiextensions",
    "apiregistration.k8s.io": "apiregistration",
    "apps": "apps",
    "authentication.k8s.io": "authentication",
    "authorization.k8s.io": "authorization",
    "autoscaling": "autoscaling",
    "batch": "batch",
    "certificates.k8s.io": "certificates",
    "coordination.k8s.io": "coordination",
    "discovery.k8s.io": "discovery",
    "events.k8s.io": "events",
    "flowcontrol.apiserver.k8s.io": "flowcontrol",
    "networking.k8s.io": "networking",
    "node.k8s.io": "node",
    "policy": "policy",
    "rbac.authorization.k8s.io": "rbac",
    "resource.k8s.io": "devices",
    "scheduling.k8s.io": "scheduling",
    "storage.k8s.io": "storage",
    "storagemigration.k8s.io": "storagemigration",
}


@dataclass(frozen=True, slots=True)
class ServerParts:
    """The parts of a server that the strategies of its kinds use."""

    options: ServerOptions
    resources: ResourceSet
    authentication: Authentication
    authorizer: NodesAndRBAC


def install(server: ServerParts) -> None:
    """Serve every built-in resource that is on, in the order of discovery."""
    load = _SchemaLoader()
    for group in catalog.groups():
        module = _module(group.name)
        strategies: Mapping[str, Strategy] = module.strategies(server) if module else {}
        conversions: Mapping[VersionedPlural, Conversion] = getattr(module, "CONVERSIONS", {})
        for gv in filter(server.options.is_on, group.group_versions):
            for facts in catalog.resources(gv):
                plural = facts.resource.resource
                strategy = strategies.get(plural) or PlainStrategy()
                conversion = conversions.get((gv.version, plural))
                server.resources.install(_resource(facts, strategy, conversion, partial(load, facts.kind)))


class _SchemaLoader:
    """Builds the schemas of built-in kinds, which share their components."""

    def __init__(self) -> None:
        self._components: Components | None = None

    def __call__(self, kind: GroupVersionKind) -> Schema:
        if self._components is None:
            self._components = Components(catalog.components())
        return Schema.from_openapi(catalog.schema_ref(kind), self._components)


def _module(group: str) -> ModuleType | None:
    name = _MODULES.get(group)
    return import_module(f"kubewright_controlplane.apiserver.kinds.{name}") if name else None


def _resource(
    facts: ResourceFacts, strategy: Strategy, conversion: Conversion | None, load_schema: partial[Schema]
) -> Resource:
    gvr = facts.resource
    subresources = {each.name: _subresource(each, strategy) for each in facts.subresources}
    return Resource(
        group=gvr.group,
        version=gvr.version,
        kind=facts.kind.kind,
        plural=gvr.resource,
        namespaced=facts.namespaced,
        load_schema=load_schema,
        strategy=strategy,
        singular=facts.singular,
        list_kind=facts.list_kind,
        short_names=facts.short_names,
        categories=facts.categories,
        verbs=facts.verbs,
        subresources=subresources,
        has_status="status" in subresources,
        storage=conversion.storage if conversion else gvr.qualified_resource,
        storage_api_version=conversion.storage_api_version if conversion else "",
        to_storage=conversion.to_storage if conversion else None,
        from_storage=conversion.from_storage if conversion else None,
        load_printer=partial(printers.printer, gvr),
        selectable_fields=strategy.selectable_fields,
        storage_version_hash=facts.storage_version_hash,
        deprecation_warning=strategy.deprecation_warning,
    )


def _subresource(facts: SubresourceFacts, strategy: Strategy) -> Subresource:
    own = strategy.subresources.get(facts.name)
    if isinstance(own, Connection):
        return replace(own, kind=facts.kind, verbs=facts.verbs)
    if own is not None:
        return own
    if facts.name == "status":
        return StatusView()
    return ScaleView() if facts.name == "scale" else Unsupported(facts.kind, facts.verbs)
