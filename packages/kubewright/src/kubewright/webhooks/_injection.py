"""Writes the CA bundle into the objects by which an API server calls the webhooks of one manager.

Guarantees
    Only entries with the name of a webhook of this manager that call its Service are changed, and of them only
    `caBundle`. An entry that changes or moves meanwhile is read again.
    Objects that cert-manager fills are not changed: those with one of its annotations `cert-manager.io/inject-...`.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from kubewright.apis.admissionregistration.v1 import (
    MutatingWebhook,
    MutatingWebhookConfiguration,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
    WebhookClientConfig,
)
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.cache._entry import Event
from kubewright.cache._informer import Informer
from kubewright.client._client import Client
from kubewright.client._patch import JSONPatch
from kubewright.machinery.errors import Conflict, Invalid, NotFound
from kubewright.models import Object
from kubewright.webhooks._deployment import WebhookObjects
from kubewright.webhooks._names import CONVERSION_BEFORE_LOCAL_RUN

# Both groups have a class WebhookClientConfig.
from kubewright.apis.apiextensions import v1 as apiextensions  # isort: skip

Injected: TypeAlias = MutatingWebhookConfiguration | ValidatingWebhookConfiguration | CustomResourceDefinition
T = TypeVar("T", bound=Object)


class _Entry(NamedTuple):
    """One `clientConfig` of this manager."""

    path: str
    client: WebhookClientConfig | apiextensions.WebhookClientConfig
    name: str = ""
    """The name of the webhook; empty for a conversion."""


_CERT_MANAGER: Final = "cert-manager.io/inject-"
_ATTEMPTS: Final = 5


class Injection:
    """Injects the CA bundle of the Service `objects.service` in `namespace`."""

    def __init__(self, client: Client, objects: WebhookObjects, namespace: str) -> None:
        self._client = client
        self._objects = objects
        self._namespace = namespace
        mutating, validating = objects.mutating_configuration, objects.validating_configuration
        self._targets: list[tuple[type[Injected], str]] = [
            *([(MutatingWebhookConfiguration, mutating)] if mutating else []),
            *([(ValidatingWebhookConfiguration, validating)] if validating else []),
            *((CustomResourceDefinition, each) for each in objects.definitions),
        ]

    async def inject(self, bundle: bytes) -> list[str]:
        """Write `bundle` wherever it is not. Returns the reasons for which an API server may not trust it yet.

        Raises APIError if the objects cannot be read or written.
        """
        found = [await self._inject_into(kind, name, bundle) for kind, name in self._targets]
        return [each for each in found if each]

    @asynccontextmanager
    async def watching(self, on_change: Callable[[], None]) -> AsyncGenerator[None]:
        """Call `on_change` whenever one of the objects may have changed."""
        async with AsyncExitStack() as informers:
            for kind, name in self._targets:
                await informers.enter_async_context(watching(self._client, kind, name, None, on_change))
            yield

    async def _inject_into(self, kind: type[Injected], name: str, bundle: bytes) -> str:
        """Return the reason for which an API server may not trust the bundle; "" if there is none."""
        described = f"{kind.__api__.kind} {name}"
        for _ in range(_ATTEMPTS):
            obj = await self._client.get_or_none(kind, name)
            if obj is None:
                return f"{described} does not exist; apply the manifests of the operator"
            if any(each.startswith(_CERT_MANAGER) for each in obj.metadata.annotations):
                return "" if _is_everywhere(bundle, self._entries(obj)) else _filled_by_cert_manager(described)
            if CONVERSION_BEFORE_LOCAL_RUN in obj.metadata.annotations:
                return ""  # it calls a process outside of the cluster, until that process stops
            if isinstance(obj, CustomResourceDefinition) and not list(self._entries(obj)):
                return (
                    f"{described}: spec.conversion does not call Service {self._namespace}/{self._objects.service}; "
                    f"apply the manifests of the operator"
                )
            operations = [each for entry in self._entries(obj) for each in _operations(entry, bundle)]
            if not operations:
                return ""
            try:
                await self._client.patch(kind, JSONPatch(operations), name=name)
            except (Conflict, NotFound):
                continue
            except Invalid as error:
                if not error.patch_did_not_apply:
                    raise
        return f"{described} changes all the time"

    def _entries(self, obj: Injected) -> Iterator[_Entry]:
        if isinstance(obj, CustomResourceDefinition):
            webhook = obj.spec.conversion.webhook if obj.spec.conversion is not None else None
            if webhook is not None and webhook.client_config is not None and self._is_own(webhook.client_config):
                yield _Entry("/spec/conversion/webhook", webhook.client_config)
            return
        own = {*self._objects.mutating, *self._objects.validating}
        webhooks: Sequence[MutatingWebhook | ValidatingWebhook] = obj.webhooks
        for index, each in enumerate(webhooks):
            if each.name in own and self._is_own(each.client_config):
                yield _Entry(f"/webhooks/{index}", each.client_config, each.name)

    def _is_own(self, client: WebhookClientConfig | apiextensions.WebhookClientConfig) -> bool:
        service = client.service
        return service is not None and service.name == self._objects.service and service.namespace == self._namespace


@asynccontextmanager
async def watching(
    client: Client, kind: type[T], name: str, namespace: str | None, on_change: Callable[[], None]
) -> AsyncGenerator[None]:
    """Call `on_change` whenever the object of that name may have changed."""
    fields = {"metadata.name": name}
    informer = Informer(client, kind, namespaces=namespace, fields=fields, only=())

    def changed(event: Event[T]) -> None:
        on_change()

    informer.add_handler(on_add=changed, on_update=changed, on_delete=changed)
    informer.start()
    try:
        yield
    finally:
        await informer.stop()


def _operations(entry: _Entry, bundle: bytes) -> list[dict[str, Any]]:
    """Return the operations that write the bundle, none if it is there. They fail if the entry has changed by then."""
    client, service = entry.client, entry.client.service
    if client.ca_bundle == bundle or service is None:
        return []
    path = f"{entry.path}/clientConfig"
    expected = {f"{path}/service/name": service.name, f"{path}/service/namespace": service.namespace}
    if entry.name:
        expected[f"{entry.path}/name"] = entry.name
    return [
        *({"op": "test", "path": key, "value": value} for key, value in expected.items()),
        {"op": "add", "path": f"{path}/caBundle", "value": base64.b64encode(bundle).decode()},
    ]


def _is_everywhere(bundle: bytes, entries: Iterator[_Entry]) -> bool:
    """Return whether all entries trust the newest CA of the bundle."""
    end = b"-----END CERTIFICATE-----"
    newest = bundle.partition(end)[0] + end
    return all(newest in (each.client.ca_bundle or b"") for each in entries)


def _filled_by_cert_manager(described: str) -> str:
    return (
        f"{described} has an annotation of cert-manager, which writes another CA than this manager has; remove the "
        f"annotation, or mount cert-manager's certificate and name its folder with --webhook-cert-path"
    )
