"""Install or upgrade a bundle: apply its objects in order, wait for its Pods, remove what it no longer has.

Guarantees
    Before the first write everything is checked that can be: see `preflight`.
    A second run changes nothing. A run after an interruption, at any point, ends as if there had been none.
    No object is changed or deleted that another one has made.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from kubewright.apis.core.v1 import Namespace
from kubewright.apis.discovery.v1 import EndpointSlice
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.client import Client
from kubewright.machinery.json import JSONObject
from kubewright_cli.deployment import crds
from kubewright_cli.deployment.apply import until_free
from kubewright_cli.deployment.objects import Change, Objects, called
from kubewright_cli.deployment.pods import Workload
from kubewright_cli.deployment.rollout import RolloutFailed, replace_pods, wait_for_workload
from kubewright_cli.installation import preflight
from kubewright_cli.installation.certificates import WebhookCertificates, ensure_certificates
from kubewright_cli.installation.inventory import Entry, Inventory, State, definition_of, merged, owner_of
from kubewright_cli.installation.modes import target_namespaces
from kubewright_cli.installation.render import OWNER, Placement, Rendered, render_bundle
from kubewright_cli.installation.source import InstallableBundle
from kubewright_cli.olm.catalog import properties_of
from kubewright_cli.olm.parts import mapping, text
from kubewright_cli.olm.validation.document import CRD

_PAUSE: Final = 0.25
_DELETED_WITHIN: Final = 60.0
"""Seconds for the deletion of objects that a bundle no longer has."""


@dataclass(frozen=True, slots=True)
class InstallOptions:
    """How to install a bundle."""

    namespace: str
    watched: Sequence[str] = ()
    """The namespaces to watch; if empty, those of the last run, or what the bundle supports."""
    unsafe_crds: bool = False
    """Do not check whether the CRDs are compatible with those in the cluster."""
    timeout: float | None = 180.0
    """Seconds to wait for the Pods; None to not wait."""
    adapt: Callable[[JSONObject], None] = field(default=lambda _: None)
    """Changes a Deployment before it is applied."""
    report: Callable[[str], None] = field(default=lambda _: None)
    """Receives what the installation waits for."""
    warn: Callable[[str], None] = field(default=lambda _: None)
    """Receives warnings."""

    def in_namespace(self, namespace: str) -> InstallOptions:
        """Return the same options for a namespace."""
        return replace(self, namespace=namespace)


async def install_bundle(
    client: Client, bundle: InstallableBundle, options: InstallOptions, installed: Inventory | None
) -> AsyncGenerator[Change]:
    """Install a bundle, or continue that. `installed` is what the namespace has of its package.

    Raises ConfigError before anything is changed if the bundle cannot be installed, RolloutFailed if its Pods do not
    start, APIError and DeadlineExceeded.
    """
    await until_free(client, options.namespace)
    watched = options.watched or (installed.watched_namespaces if installed is not None else ())
    targets = target_namespaces(bundle, options.namespace, watched)
    work = _Installation(client, bundle, options, targets, installed)
    await work.check()
    async for change in work.apply():
        yield change


class _Installation:
    """One run for one bundle."""

    def __init__(
        self,
        client: Client,
        bundle: InstallableBundle,
        options: InstallOptions,
        targets: tuple[str, ...],
        installed: Inventory | None,
    ) -> None:
        self._client = client
        self._objects = Objects(client)
        self._bundle = bundle
        self._options = options
        self._targets = targets
        self._before = installed.objects if installed is not None else []
        self._trusted = installed.trusted if installed is not None else {}
        self._owner = f"{options.namespace}/{bundle.package}"

    async def check(self) -> None:
        """Raise ConfigError for everything that prevents the installation."""
        rendered = self._render(WebhookCertificates({}))
        await preflight.require_namespaces(self._client, self._targets, self._options.namespace)
        await preflight.require_requirements(self._client, self._bundle)
        await preflight.require_served(self._objects, rendered.documents)
        await preflight.require_own(self._objects, self._owner, rendered, self._secrets(rendered))
        await preflight.require_upgradeable_crds(self._client, rendered.crds, unsafe=self._options.unsafe_crds)

    async def apply(self) -> AsyncGenerator[Change]:
        """Write everything."""
        planned = self._render(WebhookCertificates({}))
        wanted = [*self._secrets(planned), *map(Entry.of, planned.documents)]
        async for change in self._namespace():
            yield change
        await self._record("installing", merged(wanted, self._before), self._trusted)
        certificates = await ensure_certificates(
            self._client,
            planned.secrets,
            namespace=self._options.namespace,
            owner=self._owner,
            trusted=self._trusted,
        )
        for change in certificates.changes:
            yield change
        rendered = self._render(certificates)
        async for change in crds.install(self._client, rendered.crds, namespace=self._options.namespace):
            yield change
        for each in rendered.objects:
            yield await self._objects.apply(each)
        if self._options.timeout is not None:
            await self._wait(rendered, self._options.timeout)
        for each in rendered.configurations:
            yield await self._objects.apply(each)
        kept: list[Entry] = []
        async for change in self._prune(wanted, kept):
            yield change
        await self._record("installed", merged(wanted, kept), certificates.trusted)

    def _render(self, certificates: WebhookCertificates) -> Rendered:
        placement = Placement(self._options.namespace, self._targets, certificates.bundles, certificates.digests)
        rendered = render_bundle(self._bundle, placement)
        for each in rendered.objects:
            if each["kind"] == "Deployment":
                self._options.adapt(each)
        return rendered

    def _secrets(self, rendered: Rendered) -> list[Entry]:
        return [Entry("v1", "Secret", name, self._options.namespace) for name in rendered.secrets]

    async def _namespace(self) -> AsyncGenerator[Change]:
        """Create the namespace if it does not exist. One that exists is not changed, and remains after a cleanup."""
        name = self._options.namespace
        if await self._client.get_or_none(Namespace, name) is None:
            await self._client.apply(Namespace(metadata=ObjectMeta(name=name, annotations={OWNER: self._owner})))
            yield Change(called(Namespace.__api__, name), "created")

    async def _record(self, state: State, objects: Sequence[Entry], trusted: Mapping[str, str]) -> None:
        """Write the inventory."""
        await Inventory(
            package=self._bundle.package,
            namespace=self._options.namespace,
            bundle=self._bundle.name,
            version=str(self._bundle.version),
            state=state,
            watched_namespaces=list(self._targets),
            objects=list(objects),
            properties=properties_of(self._bundle.released),
            trusted=dict(trusted),
        ).write(self._client)

    # ---- waiting

    async def _wait(self, rendered: Rendered, timeout: float) -> None:
        """Wait until the Pods run, and until the API server can call their webhooks."""
        for workload in (_workload(each) for each in rendered.objects if each["kind"] == "Deployment"):
            await replace_pods(self._client, workload, failing=True, timeout=timeout)
            await wait_for_workload(self._client, workload, timeout=timeout, report=self._options.report)
        for name in rendered.services:
            await self._until_reachable(name, timeout)

    async def _until_reachable(self, service: str, timeout: float) -> None:
        """Wait until a Service has a ready endpoint, because the API server calls webhooks through it."""
        deadline = self._client.clock.monotonic() + timeout
        labels, namespace = {"kubernetes.io/service-name": service}, self._options.namespace
        while True:
            slices = await self._client.list(EndpointSlice, namespace=namespace, labels=labels)
            endpoints = [each for one in slices for each in one.endpoints]
            if any(each.conditions is None or each.conditions.ready is not False for each in endpoints):
                return
            if self._client.clock.monotonic() > deadline:
                raise RolloutFailed(f"Service {namespace}/{service} has no ready endpoint after {timeout:g} s", [])
            self._options.report(f"Service {service} has no ready endpoint yet")
            await self._client.clock.sleep(_PAUSE)

    # ---- what the bundle no longer has

    async def _prune(self, wanted: Sequence[Entry], kept: list[Entry]) -> AsyncGenerator[Change]:
        """Delete objects of an earlier version that are not `wanted`. Adds CRDs that have objects to `kept`."""
        keys = {each.key for each in wanted}
        surplus = [each for each in reversed(self._before) if each.key not in keys]
        own = [each for each in surplus if await owner_of(self._objects, each) == self._owner]
        others = [each.document for each in own if each.kind != CRD]
        async for change in self._objects.delete_all(others, timeout=self._options.timeout or _DELETED_WITHIN):
            yield change
        for each in (entry for entry in own if entry.kind == CRD):
            definition = await definition_of(self._client, each)
            if definition is None:
                continue
            if await crds.customs(self._client, [definition]):
                kept.append(each)
                self._options.warn(
                    f"CRD {each.name} remains, because it has objects; {self._bundle.name} no longer has it"
                )
                continue
            async for change in crds.uninstall(self._client, [definition], timeout=_DELETED_WITHIN):
                yield change


def _workload(deployment: JSONObject) -> Workload:
    metadata, selector = deployment["metadata"], mapping(deployment["spec"].get("selector"))
    labels = {key: text(value) for key, value in mapping(selector.get("matchLabels")).items()}
    return Workload(metadata["name"], metadata["namespace"], metadata["name"], labels)
