"""The extension servers of a server: which APIServices they have, whether they answer, and their requests.

Each has a task of its own, which checks it every 30 seconds, sooner after a failure, and when its Service or its
endpoints change. What it serves is read after each success. So no request waits for an extension server but its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from kubewright._runtime.clock import Clock
from kubewright._runtime.log import get_logger
from kubewright.http.message import Handler, Request, Response
from kubewright.machinery import time
from kubewright.machinery.errors import ConfigError, ConnectionFailed
from kubewright.machinery.gvk import GroupVersion
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.aggregator.availability import availability
from kubewright_controlplane.apiserver.aggregator.client import ExtensionClients, ExtensionServer
from kubewright_controlplane.apiserver.aggregator.documents import DocumentFailed, read_documents
from kubewright_controlplane.apiserver.aggregator.frontproxy import FrontProxy
from kubewright_controlplane.apiserver.aggregator.registrations import API_SERVICES, LocalAPIServices, group_version
from kubewright_controlplane.apiserver.endpoints import answers
from kubewright_controlplane.apiserver.endpoints.extensions import Extensions, ExtensionVersion, Priority
from kubewright_controlplane.apiserver.registry.objects import has_condition, set_condition
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.storage.events import Event
from kubewright_controlplane.apiserver.user import UserInfo
from kubewright_controlplane.apiserver.webhooks.client import reason_of
from kubewright_controlplane.apiserver.webhooks.services import SERVICE_LABEL, SLICES, ServiceNotReady, ServiceResolver

_INTERVAL: Final = 30.0
_FIRST_RETRY: Final = 0.1

_log = get_logger(__name__)


@dataclass(eq=False)
class Extension:
    """An APIService with an extension server."""

    name: str
    server: ExtensionServer
    is_available: bool = False
    """As its condition says."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    @property
    def gv(self) -> GroupVersion:
        return group_version(self.name)


class Aggregator:
    """Observes APIServices, and passes requests on to their extension servers."""

    def __init__(
        self, resources: ResourceSet, front_proxy: FrontProxy, handlers: Mapping[str, Handler], clock: Clock
    ) -> None:
        """`handlers` are extension servers in this process, by `<service>.<namespace>.svc`."""
        self.extensions: Final = Extensions()
        self._resources = resources
        self._clock = clock
        self._clients = ExtensionClients(ServiceResolver(resources), handlers, front_proxy)
        self._local = LocalAPIServices(resources)
        self._extensions: dict[GroupVersion, Extension] = {}
        self._observes_services = False
        self._ending: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Register this server's own group versions, and begin to check extension servers."""
        self._local.start()
        self._resources.observe(API_SERVICES, self._on_api_service)

    async def close(self) -> None:
        """Stop all checks, and close all connections."""
        self._local.close()
        for each in list(self._extensions.values()):
            self._forget(each)
        await asyncio.gather(*self._ending, return_exceptions=True)
        await self._clients.close()

    def find(self, path: str) -> Extension | None:
        """Return the APIService whose extension server answers requests for the path; None if this server does."""
        return self._extension_of(path) if self._extensions else None

    async def forward(self, extension: Extension, request: Request, user: UserInfo) -> Response:
        """Return the answer of an extension server."""
        if not extension.is_available:
            return answers.text(503, "service unavailable\n")
        try:
            return await self._clients.forward(extension.server, request, user)
        except ServiceNotReady:
            return answers.text(503, "service unavailable\n")
        except ConfigError as error:
            return answers.text(500, f"{error}\n")
        except (ConnectionFailed, TimeoutError, ValueError) as error:
            return answers.text(503, f"error trying to reach service: {reason_of(error)}\n")

    def _extension_of(self, path: str) -> Extension | None:
        parts = [part for part in path.split("/") if part]
        if parts[:2] == ["openapi", "v3"]:
            parts = parts[2:]
        match parts:
            case ["apis", group, version, *_]:
                return self._extensions.get(GroupVersion(group, version))
            case ["api", version, *_]:
                return self._extensions.get(GroupVersion("", version))
            case _:
                return None

    # What is stored

    def _on_api_service(self, event: Event) -> None:
        gv = group_version(event.entry.name)
        known = self._extensions.get(gv)
        if event.type == "DELETED":
            self.extensions.set_priority(gv, None)
            if known is not None:
                self._forget(known)
            return
        obj = self._resources.decode(event.entry.data)
        spec = obj["spec"]
        self.extensions.set_priority(gv, Priority(spec["groupPriorityMinimum"], spec["versionPriority"]))
        server = ExtensionServer.of(spec) if spec.get("service") is not None else None
        if known is not None and known.server != server:
            self._forget(known)
            known = None
        if server is not None:
            known = known or self._begin(event.entry.name, server)
            known.is_available = has_condition(obj, "Available")
            known.changed.set()

    def _begin(self, name: str, server: ExtensionServer) -> Extension:
        extension = self._extensions[group_version(name)] = Extension(name, server)
        self.extensions.set_version(extension.gv, ExtensionVersion())
        self._observe_services()
        extension.task = asyncio.create_task(self._follow(extension), name=f"check {name}")
        return extension

    def _forget(self, extension: Extension) -> None:
        self._extensions.pop(extension.gv, None)
        self.extensions.set_version(extension.gv, None)
        if extension.task is not None:
            extension.task.cancel()
            self._ending.add(extension.task)
            extension.task.add_done_callback(self._ending.discard)

    def _observe_services(self) -> None:
        """Observe Services and EndpointSlices from the first extension server on."""
        if not self._observes_services:
            self._observes_services = True
            self._resources.observe("services", lambda event: self._check(event.entry.namespace, event.entry.name))
            self._resources.observe(
                SLICES, lambda event: self._check(event.entry.namespace, event.entry.labels.get(SERVICE_LABEL, ""))
            )

    def _check(self, namespace: str, service: str) -> None:
        for each in self._extensions.values():
            if (each.server.namespace, each.server.name) == (namespace, service):
                each.changed.set()

    # Checks

    async def _follow(self, extension: Extension) -> None:
        """Check an extension server until it is forgotten."""
        retry = _FIRST_RETRY
        while True:
            extension.changed.clear()
            is_passed = await self._check_once(extension)
            pause = _INTERVAL if is_passed else retry
            retry = _FIRST_RETRY if is_passed else min(2 * retry, _INTERVAL)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await extension.changed.wait()

    async def _check_once(self, extension: Extension) -> bool:
        """Record whether the server answers, and what it serves. Returns whether both succeeded."""
        try:
            condition = await availability(self._resources, self._clients, extension.server, extension.gv)
        except ConfigError as error:
            _log.warning("APIService not checked", name=extension.name, error=str(error))
            return False
        self._record(extension, condition)
        try:
            if condition["status"] != "True":
                raise DocumentFailed(condition["message"])
            found = await read_documents(self._clients, extension.server, extension.gv)
        except DocumentFailed:
            found = replace(self.extensions.versions[extension.gv], fresh=False)
            self.extensions.set_version(extension.gv, found)
            return False
        self.extensions.set_version(extension.gv, found)
        return True

    def _record(self, extension: Extension, condition: JSONObject) -> None:
        registry = self._resources.registry(API_SERVICES)
        if not registry.has(extension.name):
            return
        target = registry.open(extension.name, subresource="status")
        obj = target.draft()
        set_condition(obj, condition, time.format(self._clock.now()))
        if obj["status"] != target.old.get("status"):
            registry.replace(target, obj)
