"""Registers the webhooks of one run with an API server that reaches this process by URL; see `LocalWebhooks`.

Each configuration has one more entry, whose webhook denies an object that only this run sends, as a dry run. So the
manager knows when the API server uses the configuration, and why it does not reach this process if it does not.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Any, Final

import msgspec

from kubewright._runtime.log import get_logger
from kubewright.apis.admissionregistration.v1 import (
    MutatingWebhook,
    MutatingWebhookConfiguration,
    RuleWithOperations,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
    WebhookClientConfig,
)
from kubewright.apis.apiextensions.v1 import CustomResourceConversion, CustomResourceDefinition
from kubewright.apis.core.v1 import ConfigMap
from kubewright.client._client import Client
from kubewright.http.tls import server_context
from kubewright.machinery.errors import (
    APIError,
    ConfigError,
    Conflict,
    Forbidden,
    InternalError,
    NotFound,
)
from kubewright.models._meta import LabelSelector, ObjectMeta
from kubewright.webhooks._certificates import Certificates
from kubewright.webhooks._configurations import WebhookConfiguration, conversion_strategy, webhook_configurations
from kubewright.webhooks._context import RawAdmissionContext
from kubewright.webhooks._conversion import Conversion
from kubewright.webhooks._declaration import admission_handler
from kubewright.webhooks._deployment import webhook_objects
from kubewright.webhooks._local import LocalWebhooks
from kubewright.webhooks._local_conversions import ProbedConversion, probe_name, until_converted
from kubewright.webhooks._local_objects import (
    PROBE_LABEL,
    PROBE_PREFIX,
    REGISTERED_WITHIN,
    answers_to,
    delete_own,
    deregister,
    local_prefix,
    of_run,
    other_process,
    registrar,
)
from kubewright.webhooks._names import CONVERSION_BEFORE_LOCAL_RUN, MUTATING_CONFIGURATION, VALIDATING_CONFIGURATION
from kubewright.webhooks._provider import ServerCertificate
from kubewright.webhooks._review import AdmissionResponse
from kubewright.webhooks._webhooks import Webhook

_CALLED: Final = "the webhooks of this run are called"
_NOT_DEREGISTERED: Final = "Webhooks not deregistered"
_ATTEMPTS: Final = 5
_REMEDY: Final = (
    "it must reach this process: give LocalWebhooks(url=...) or --webhook-url an address that it reaches, "
    "https://host:port, or run without webhooks: --webhook-port=-1"
)


@admission_handler(
    "/kubewright-probe",
    name="probe.local.kubewright.dev",
    groups=[""],
    versions=["v1"],
    resources=["configmaps"],
    operations=["CREATE"],
)
def _probe(ctx: RawAdmissionContext) -> AdmissionResponse:
    raise Forbidden(_CALLED)


class LocalRegistration:
    """The registration of one run."""

    def __init__(self, local: LocalWebhooks, webhooks: Sequence[Webhook], name: str, now: datetime) -> None:
        """`name` is that of the manager."""
        made = Certificates.made([local.host], now)
        self.certificate = ServerCertificate(server_context(made.certificate, made.key))
        """The certificate of the server."""
        self._run = uuid.uuid4().hex
        probed = (ProbedConversion(each, self._run) if isinstance(each, Conversion) else each for each in webhooks)
        self.webhooks: Sequence[Webhook] = (*probed, _probe)
        """What the server serves."""
        self._local = local
        self._declared = webhooks
        self._prefix = local_prefix(name)
        self._ca_bundle = made.bundle
        self._url = ""
        self._registrar: Client | None = None
        self._log = get_logger("kubewright.webhook.local")

    @asynccontextmanager
    async def converting(self, client: Client, port: int) -> AsyncGenerator[None]:
        """Let the CRDs of the conversions call the server on `port` while the block runs.

        `client` registers, unless `LocalWebhooks` has credentials of its own.
        """
        self._url = self._local.url.rstrip("/") or f"https://{self._local.host}:{port}"
        self._log = self._log.bind(url=self._url)
        names = webhook_objects(self._declared).definitions
        conversion = conversion_strategy(address=self._url, ca_bundle=self._ca_bundle)
        async with self._registering(client):
            try:
                for name in names:
                    await self._take_over(name, conversion)
                await self._until_converted()
                yield
            finally:
                await deregister([self._give_back(name) for name in names], self._log, _NOT_DEREGISTERED)

    @asynccontextmanager
    async def reviewing(self) -> AsyncGenerator[None]:
        """Have the configurations of this run in use while the block runs. Raises ConfigError if they are not used."""
        configurations = self._configurations()
        try:
            await self._warn_of_other_run(configurations)
            await self._delete_others(configurations)
            for each in configurations:
                await self._apply(each)
            for each in configurations:
                await self._until_called(each)
            self._log.info("Webhooks registered", webhooks=len(self._declared))
            yield
        finally:
            steps = [delete_own(self._client, type(each), each.metadata.name, self._run) for each in configurations]
            await deregister(steps, self._log, _NOT_DEREGISTERED)

    @asynccontextmanager
    async def _registering(self, client: Client) -> AsyncGenerator[None]:
        """Have the client that registers while the block runs."""
        async with registrar(client, self._local.config) as self._registrar:
            yield

    @property
    def _client(self) -> Client:
        assert self._registrar is not None
        return self._registrar

    # ---- configurations

    def _configurations(self) -> list[WebhookConfiguration]:
        """Return the configurations. Conversions alone have one with the probe only."""
        found: list[WebhookConfiguration] = webhook_configurations(
            self._declared, address=self._url, ca_bundle=self._ca_bundle, prefix=self._prefix
        )
        if not found:
            name = f"{self._prefix}{VALIDATING_CONFIGURATION}"
            found = [ValidatingWebhookConfiguration(metadata=ObjectMeta(name=name))]
        for each in found:
            each.metadata.annotations |= of_run(self._run)
            for webhook in each.webhooks:
                webhook.failure_policy = "Ignore"
            self._add_probe(each)
        return found

    def _add_probe(self, configuration: WebhookConfiguration) -> None:
        made = _probe.registration
        rule = RuleWithOperations(
            operations=list(made.operations),
            api_groups=list(made.groups),
            api_versions=list(made.versions),
            resources=list(made.resources),
        )
        fields: dict[str, Any] = {
            "name": made.name,
            "admission_review_versions": ["v1"],
            "client_config": WebhookClientConfig(url=f"{self._url}{made.path}", ca_bundle=self._ca_bundle),
            "failure_policy": "Fail",
            "object_selector": LabelSelector(match_labels=self._probe_labels(configuration)),
            "rules": [rule],
            "side_effects": "None",
        }
        if isinstance(configuration, MutatingWebhookConfiguration):
            configuration.webhooks = [MutatingWebhook(**fields), *configuration.webhooks]
        else:
            configuration.webhooks = [ValidatingWebhook(**fields), *configuration.webhooks]

    def _probe_labels(self, configuration: WebhookConfiguration) -> dict[str, str]:
        return {PROBE_LABEL: f"{self._run}-{configuration.kind}"}

    async def _apply(self, configuration: WebhookConfiguration) -> None:
        try:
            await self._client.apply(configuration)
        except Forbidden as error:
            raise self._not_allowed(error) from error

    async def _until_called(self, configuration: WebhookConfiguration) -> None:
        """Wait until the API server uses a configuration. Raises ConfigError if it does not reach this process."""
        labels = self._probe_labels(configuration)
        probe = ConfigMap(metadata=ObjectMeta(generate_name=PROBE_PREFIX, namespace="default", labels=labels))
        async for answer in answers_to(probe, self._client):
            if isinstance(answer, InternalError):
                raise ConfigError(f"the API server cannot call {self._url}: {answer}; {_REMEDY}") from answer
            if isinstance(answer, APIError):
                if _CALLED not in str(answer):  # another policy, or no permission for ConfigMaps
                    self._log.warning("Webhook registration not confirmed", error=str(answer))
                return
        raise ConfigError(
            f"the API server did not call {self._url} within {REGISTERED_WITHIN:g} s after the webhooks were "
            f"registered; {_REMEDY}"
        )

    async def _warn_of_other_run(self, configurations: Sequence[WebhookConfiguration]) -> None:
        """Warn if another process uses the names of this run: only the later one is called."""
        for each in configurations:
            with suppress(Forbidden):
                found = await self._client.get_or_none(type(each), each.metadata.name)
                process = None if found is None else other_process(found.metadata.annotations)
                if process is not None:
                    self._log.warning("Webhooks of another run replaced", process=process)
                    return

    async def _delete_others(self, configurations: Sequence[WebhookConfiguration]) -> None:
        """Delete what an earlier run left and this run does not replace."""
        names = {each.metadata.name for each in configurations}
        known = (
            (MutatingWebhookConfiguration, f"{self._prefix}{MUTATING_CONFIGURATION}"),
            (ValidatingWebhookConfiguration, f"{self._prefix}{VALIDATING_CONFIGURATION}"),
            (MutatingWebhookConfiguration, probe_name(self._prefix)),
        )
        for kind, name in known:
            if name not in names:
                with suppress(NotFound, Forbidden):
                    await self._client.delete(kind, name)

    # ---- CRDs

    async def _take_over(self, name: str, conversion: CustomResourceConversion) -> None:
        for _ in range(_ATTEMPTS):
            crd = await self._client.get_or_none(CustomResourceDefinition, name)
            if crd is None:
                raise ConfigError(
                    f"CustomResourceDefinition {name}, whose objects a Conversion converts, is not installed; install "
                    f"it first: kubewright install, or kubewright run --install"
                )
            crd.metadata.annotations.setdefault(
                CONVERSION_BEFORE_LOCAL_RUN, msgspec.json.encode(crd.spec.conversion).decode()
            )
            crd.spec.conversion = conversion
            try:
                await self._client.update(crd)
            except Conflict:
                continue
            except Forbidden as error:
                raise self._not_allowed(error) from error
            return
        raise ConfigError(f"CustomResourceDefinition {name} changes all the time; start again")

    async def _until_converted(self) -> None:
        """Wait until the API server converts by this run: the lists of caches, and writes, would lose fields before."""
        url = f"{self._url}/kubewright-conversion-probe"
        for each in self._declared:
            if isinstance(each, Conversion):
                unknown = await until_converted(self._client, each, prefix=self._prefix, url=url, run=self._run)
                if unknown:
                    self._log.warning("Conversion not confirmed", kind=each.hub.__api__.kind, reason=unknown)

    async def _give_back(self, name: str) -> None:
        """Restore the strategy of a CRD, unless another one has replaced that of this run."""
        for _ in range(_ATTEMPTS):
            crd = await self._client.get_or_none(CustomResourceDefinition, name)
            if crd is None or not self._calls_this_run(crd):
                return
            previous = crd.metadata.annotations.pop(CONVERSION_BEFORE_LOCAL_RUN, "null")
            crd.spec.conversion = msgspec.json.decode(previous, type=CustomResourceConversion | None)
            with suppress(Conflict):
                await self._client.update(crd)
                return

    def _calls_this_run(self, crd: CustomResourceDefinition) -> bool:
        webhook = crd.spec.conversion.webhook if crd.spec.conversion is not None else None
        client = webhook.client_config if webhook is not None else None
        return client is not None and client.ca_bundle == self._ca_bundle

    # ---- both

    def _not_allowed(self, error: Forbidden) -> ConfigError:
        return ConfigError(
            f"the webhooks cannot be registered: {error}; use credentials that may write webhook configurations and "
            f"CustomResourceDefinitions, LocalWebhooks(config=...), or turn the webhooks off: webhook_port=-1"
        )
