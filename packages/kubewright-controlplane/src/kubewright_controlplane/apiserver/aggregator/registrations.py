"""The APIServices of the group versions that this server serves itself.

Those of built-in groups are created at the start, and restored then; a user may change them meanwhile. Those of custom
resources are kept as they must be while a CustomResourceDefinition serves the version.

Follows k8s.io/kube-aggregator pkg/controllers/autoregister and pkg/controlplane/controller/crdregistration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from kubewright.machinery.gvk import GroupVersion
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.endpoints.extensions import DEFAULT, Priority
from kubewright_controlplane.apiserver.registry.registry import Registry
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.storage.events import Event

API_SERVICES: Final = "apiservices.apiregistration.k8s.io"
_DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
_LABEL: Final = "kube-aggregator.kubernetes.io/automanaged"
_ON_START: Final = "onstart"
_ALWAYS: Final = "true"

_GROUPS: Final = {
    "": 18000,
    "apps": 17800,
    "events.k8s.io": 17750,
    "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200,
    "policy": 17100,
    "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800,
    "apiextensions.k8s.io": 16700,
    "admissionregistration.k8s.io": 16700,
    "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500,
    "node.k8s.io": 16300,
    "discovery.k8s.io": 16200,
    "resource.k8s.io": 16200,
    "flowcontrol.apiserver.k8s.io": 16100,
    "storagemigration.k8s.io": 15800,
}
"""The priorities of built-in groups, as a real API server has them."""
_VERSIONS: Final = {
    GroupVersion("", "v1"): 1,
    GroupVersion("autoscaling", "v2"): 30,
    GroupVersion("flowcontrol.apiserver.k8s.io", "v1"): 21,
    GroupVersion("resource.k8s.io", "v1"): 21,
    GroupVersion("storagemigration.k8s.io", "v1beta1"): 9,
}
"""The priorities of their versions that are not 15."""


_TOGETHER: Final = 16
"""APIServices that are updated before others are served."""


class _Version(msgspec.Struct):
    name: str
    served: bool


class _Spec(msgspec.Struct):
    group: str
    versions: list[_Version]


class _Definition(msgspec.Struct):
    """The part of a stored CustomResourceDefinition that says what it serves."""

    spec: _Spec


_decoder: Final = msgspec.json.Decoder(_Definition)


class LocalAPIServices:
    """Creates, restores and deletes the APIServices of this server's own group versions."""

    def __init__(self, resources: ResourceSet) -> None:
        self._resources = resources
        self._served: dict[str, set[GroupVersion]] = {}
        """The group versions that each CustomResourceDefinition serves."""
        self._changed: dict[GroupVersion, None] = {}
        """Group versions whose APIServices may be out of date."""
        self._next: asyncio.Handle | None = None

    def start(self) -> None:
        built_in = dict(self._built_in())
        for gv, priority in built_in.items():
            self._register(gv, priority, _ON_START)
        self._resources.observe(_DEFINITIONS, self._on_definition)
        self._remove_outdated(built_in)
        self._resources.observe(API_SERVICES, self._on_api_service)

    def close(self) -> None:
        """Leave the APIServices as they are."""
        self._changed.clear()

    @property
    def _registry(self) -> Registry:
        return self._resources.registry(API_SERVICES)

    def _built_in(self) -> Iterator[tuple[GroupVersion, Priority]]:
        for gv in dict.fromkeys(each.group_version for each in self._resources if not each.custom):
            if gv.group in _GROUPS:
                yield gv, Priority(_GROUPS[gv.group], _VERSIONS.get(gv, 15))

    def _remove_outdated(self, built_in: dict[GroupVersion, Priority]) -> None:
        """Delete the APIServices of group versions that an earlier server on the same data served."""
        for entry in self._registry.entries():
            gv = group_version(entry.name)
            is_own = entry.labels.get(_LABEL) in (_ON_START, _ALWAYS)
            if is_own and gv not in built_in and not self._is_defined(gv):
                self._registry.remove(self._resources.decode(entry.data))

    def _on_definition(self, event: Event) -> None:
        before = self._served.pop(event.entry.name, set())
        now: set[GroupVersion] = set()
        if event.type != "DELETED":
            spec = _decoder.decode(event.entry.data).spec
            now = {GroupVersion(spec.group, each.name) for each in spec.versions if each.served}
            self._served[event.entry.name] = now
        self._changed |= dict.fromkeys(sorted(before ^ now, key=str))
        self._sync_some()

    def _sync_some(self) -> None:
        """Update some APIServices, and others when the event loop has served other requests."""
        for gv in list(islice(self._changed, _TOGETHER)):
            del self._changed[gv]
            self._sync(gv)
        if self._next is not None:
            self._next.cancel()
        self._next = asyncio.get_running_loop().call_soon(self._sync_some) if self._changed else None

    def _on_api_service(self, event: Event) -> None:
        """Undo what a user changes in an APIService that follows a CustomResourceDefinition."""
        gv = group_version(event.entry.name)
        if self._is_defined(gv) or event.entry.labels.get(_LABEL) == _ALWAYS:
            self._sync(gv)

    def _is_defined(self, gv: GroupVersion) -> bool:
        return any(gv in versions for versions in self._served.values())

    def _sync(self, gv: GroupVersion) -> None:
        """Create, restore or delete the APIService of a version of custom resources."""
        if self._is_defined(gv):
            self._register(gv, DEFAULT, _ALWAYS)
            return
        present = self._registry.read(api_service_name(gv))
        if present is not None and _label(present) == _ALWAYS:
            self._registry.remove(present)

    def _register(self, gv: GroupVersion, priority: Priority, managed: str) -> None:
        name, spec = api_service_name(gv), _spec(gv, priority)
        present = self._registry.read(name)
        if present is None:
            self._registry.create({"metadata": {"name": name, "labels": {_LABEL: managed}}, "spec": spec})
        elif _label(present) in (_ON_START, _ALWAYS) and present["spec"] != spec:
            target = self._registry.open(name)
            self._registry.replace(target, {**target.draft(), "spec": spec})


def api_service_name(gv: GroupVersion) -> str:
    return f"{gv.version}.{gv.group}"


def group_version(name: str) -> GroupVersion:
    """Return the group version of an APIService's name."""
    version, _, group = name.partition(".")
    return GroupVersion(group, version)


def _label(obj: JSONObject) -> str:
    label: str = (obj["metadata"].get("labels") or {}).get(_LABEL, "")
    return label


def _spec(gv: GroupVersion, priority: Priority) -> JSONObject:
    spec: JSONObject = {
        "version": gv.version,
        "groupPriorityMinimum": priority.group,
        "versionPriority": priority.version,
    }
    return {"group": gv.group, **spec} if gv.group else spec
