"""Whether the API server can call the webhooks of an operator, and what to do if it cannot.

Follows a call: the configuration or CRD names a Service and a CA, the Service has ready Pods, and their certificate is
for that Service and signed by that CA. If all of that holds, requests without an effect show whether calls arrive. Also
finds what the API server calls although nothing answers: configurations and conversions of past deployments, and of
local runs that were killed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from kubewright.apis.admissionregistration.v1 import (
    MutatingWebhook,
    MutatingWebhookConfiguration,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
)
from kubewright.apis.core.v1 import Secret, Service
from kubewright.apis.discovery.v1 import EndpointSlice
from kubewright.client import Client, PartialObjectMetadata, Unstructured, decode_object
from kubewright.machinery.errors import APIError, ConfigError, Forbidden, InternalError, NotFound
from kubewright.machinery.json import JSONObject
from kubewright.models import CustomResource
from kubewright.webhooks import AdmissionWebhook, WebhookConfiguration, webhook_objects
from kubewright.webhooks._local_objects import is_of_other_host, local_prefix
from kubewright_cli.deployment import conversions
from kubewright_cli.deployment.apply import is_of_deployment
from kubewright_cli.deployment.certificates import ServingCertificate
from kubewright_cli.deployment.crds import api_of, installed_crd, served_versions
from kubewright_cli.deployment.finding import Finding
from kubewright_cli.deployment.objects import Objects
from kubewright_cli.manifests import Manifests
from kubewright_cli.manifests.samples import sample
from kubewright_cli.manifests.settings import CERT_MANAGER
from kubewright_cli.manifests.webhooks import WebhookDeployment

_DEPLOY: Final = "run `kubewright deploy`"
_RUN_DEAD: Final = "run `kubewright deploy`, or start `kubewright run` again and stop it with Ctrl-C"
_REACH: Final = "see `kubewright logs`, and whether the API server reaches the Pods (network policies, firewalls)"
_SOON: Final = timedelta(days=30)
_PROBE: Final = "kubewright-probe"
"""The name of objects that are sent as a dry run."""


@dataclass(frozen=True, slots=True)
class WebhookProblem(Finding):
    """A problem of webhooks, and its remedy."""

    calls_fail: bool = True
    """Whether the API server's calls fail because of it."""


async def webhook_problems(
    client: Client, manifests: Manifests, *, deployed: bool, probe: bool = True
) -> AsyncGenerator[WebhookProblem]:
    """Yield the problems of the webhooks.

    deployed: the operator should run now. probe: send requests that have no effect.

    Raises APIError if the objects cannot be read.
    """
    check = _Check(client, manifests, deployed=deployed)
    failing = False
    async for each in check.problems():
        failing = failing or each.calls_fail
        yield each
    if deployed and probe and not failing:
        async for each in _unanswered(client, manifests):
            yield each


async def outdated_configurations(client: Client, manifests: Manifests) -> AsyncGenerator[WebhookProblem]:
    """Yield the webhook configurations that differ from what the program declares."""
    objects = Objects(client)
    for document in manifests.objects():
        if document["kind"].endswith("WebhookConfiguration"):
            name = f"{document['kind'].lower()}/{document['metadata']['name']}"
            if await objects.differs(document):
                yield WebhookProblem(name, "differs from the program's", _DEPLOY, calls_fail=False)


class _Check:
    """Looks at the objects by which the API server calls webhooks."""

    def __init__(self, client: Client, manifests: Manifests, *, deployed: bool) -> None:
        self._client = client
        self._manifests = manifests
        self._settings = manifests.settings
        self._webhooks: WebhookDeployment | None = manifests.webhooks
        self._deployed = deployed
        self._services: dict[tuple[str, str], bool] = {}
        """Which Services exist, by namespace and name."""

    async def problems(self) -> AsyncGenerator[WebhookProblem]:
        certificate = None
        if self._webhooks is not None and self._deployed:
            async for each in self._service(self._webhooks):
                yield each
            certificate, found = await self._certificate(self._webhooks)
            for each in found:
                yield each
        async for each in self._configurations(certificate):
            yield each
        for crd in self._manifests.crds:
            async for each in self._conversion(crd, certificate):
                yield each

    # ---- the server

    async def _service(self, webhooks: WebhookDeployment) -> AsyncGenerator[WebhookProblem]:
        name, namespace = webhooks.objects.service, self._settings.namespace
        subject = f"service/{name}"
        if not await self._exists(namespace, name):
            yield WebhookProblem(subject, f"does not exist in namespace {namespace}", _DEPLOY)
            return
        slices = await self._client.list(
            EndpointSlice, namespace=namespace, labels={"kubernetes.io/service-name": name}
        )
        endpoints = [each for one in slices for each in one.endpoints]
        if not any(each.conditions is None or each.conditions.ready is not False for each in endpoints):
            why = "has no ready endpoint, so the API server reaches no webhook"
            yield WebhookProblem(subject, why, "see `kubewright status` and `kubewright logs` for why no Pod is ready")

    async def _certificate(self, webhooks: WebhookDeployment) -> tuple[ServingCertificate | None, list[WebhookProblem]]:
        """Return the certificate that the server has; None if it is not in a Secret, or there is none."""
        if self._manifests.certificate_source == "program":
            return None, []
        chosen = self._settings.webhook_certificate
        name = chosen if chosen not in ("", CERT_MANAGER) else webhooks.objects.secret
        subject, remedy = f"secret/{name}", self._certificate_remedy(name)
        try:
            secret = await self._client.get_or_none(Secret, name, namespace=self._settings.namespace)
        except Forbidden:  # the probes show whether the API server trusts it
            return None, []
        if secret is None:
            return None, [WebhookProblem(subject, f"does not exist in namespace {self._settings.namespace}", remedy)]
        try:
            found = ServingCertificate.read(secret.data.get("tls.crt", b""))
        except ValueError as error:
            return None, [WebhookProblem(subject, f"tls.crt has no certificate: {error}", remedy)]
        host = f"{webhooks.objects.service}.{self._settings.namespace}.svc"
        errors: list[WebhookProblem] = []
        if not found.is_for(host):
            errors.append(WebhookProblem(subject, f"its certificate is not for {host}", remedy))
        left = found.ends - self._client.clock.now()
        if left <= timedelta():
            errors.append(WebhookProblem(subject, f"its certificate expired on {found.ends:%Y-%m-%d}", remedy))
        elif left <= _SOON:
            text = f"its certificate expires on {found.ends:%Y-%m-%d}, and was not renewed"
            errors.append(WebhookProblem(subject, text, remedy, calls_fail=False))
        return found, errors

    def _certificate_remedy(self, secret: str) -> str:
        namespace = self._settings.namespace
        match self._manifests.certificate_source:
            case "cert-manager":
                return f"see `kubectl describe certificate --namespace {namespace}`; cert-manager must be installed"
            case "secret":
                return "replace it: tls.crt and tls.key must be a valid certificate and its key"
            case _:
                return (
                    "the manager makes it: see `kubewright logs`; to renew it, "
                    f"`kubectl delete secret {secret} --namespace {namespace}`"
                )

    # ---- what calls it

    async def _configurations(self, certificate: ServingCertificate | None) -> AsyncGenerator[WebhookProblem]:
        expected, seen = self._expected(), set[str]()
        for each in await self._installed_configurations():
            subject = f"{each.__api__.kind.lower()}/{each.metadata.name}"
            seen.add(subject)
            is_own = subject in expected
            problems = self._own(subject, each, certificate) if is_own else self._left_over(subject, each)
            async for found in problems:
                yield found
        for subject in sorted(expected - seen) if self._deployed else ():
            yield WebhookProblem(subject, "does not exist, so the webhooks review nothing", _DEPLOY)

    def _expected(self) -> set[str]:
        """Return the configurations of the program: `validatingwebhookconfiguration/shop-...`."""
        objects = self._webhooks.objects if self._webhooks is not None else webhook_objects(())
        named = (
            (MutatingWebhookConfiguration, objects.mutating_configuration),
            (ValidatingWebhookConfiguration, objects.validating_configuration),
        )
        return {f"{kind.__api__.kind.lower()}/{name}" for kind, name in named if name}

    async def _installed_configurations(self) -> list[WebhookConfiguration]:
        mutating = await self._client.list(MutatingWebhookConfiguration)
        return [*mutating, *await self._client.list(ValidatingWebhookConfiguration)]

    async def _own(
        self, subject: str, found: WebhookConfiguration, certificate: ServingCertificate | None
    ) -> AsyncGenerator[WebhookProblem]:
        if not self._deployed:
            remedy = "run `kubewright deploy`, or `kubewright undeploy`, which deletes the configuration"
            for missing in await self._missing_services(found):
                yield WebhookProblem(subject, f"calls Service {missing}, which does not exist", remedy)
            return
        bundles = {each.client_config.ca_bundle or b"" for each in _webhooks_of(found)}
        for error in self._ca_errors(bundles, certificate):
            yield WebhookProblem(subject, error, self._ca_remedy)

    async def _left_over(self, subject: str, found: WebhookConfiguration) -> AsyncGenerator[WebhookProblem]:
        """Yield the problem of a configuration that no webhook of the program belongs to."""
        name, remedy = found.metadata.name, f"delete it: `kubectl delete {subject.replace('/', ' ')}`"
        manager = self._manifests.program.manager.name
        urls = [each.client_config.url for each in _webhooks_of(found) if each.client_config.url]
        if name.startswith(local_prefix(manager)) and urls:
            if not is_of_other_host(found.metadata.annotations) and not await conversions.answers(urls[0]):
                text = f"was left by `kubewright run`, which no longer answers at {_server(urls[0])}"
                also = f"{remedy}; the next `kubewright run` replaces it, too"
                yield WebhookProblem(subject, text, also, calls_fail=False)
        elif is_of_deployment(self._settings, found.__api__, found.metadata):
            yield WebhookProblem(subject, "the program has no such webhooks", remedy, calls_fail=False)
        elif missing := await self._missing_services(found):
            text = f"calls Service {', '.join(missing)}, which does not exist"
            yield WebhookProblem(subject, text, remedy, calls_fail=False)

    async def _conversion(
        self, crd: JSONObject, certificate: ServingCertificate | None
    ) -> AsyncGenerator[WebhookProblem]:
        installed = await installed_crd(self._client, crd)
        if installed is None:
            return
        subject, present = f"crd/{installed.metadata.name}", conversions.conversion_of(installed)
        url, is_wanted = conversions.url_of(present), self._is_converted(installed.metadata.name)
        if url:
            if not await conversions.answers(url):
                who = "`kubewright run`" if conversions.is_local(installed) else "a process"
                yield WebhookProblem(subject, _unread(f"{who} at {_server(url)}, which does not answer"), _RUN_DEAD)
        elif present.get("strategy") == "Webhook":
            for found in await self._conversion_by_service(subject, present, certificate, is_wanted=is_wanted):
                yield found
        elif is_wanted and self._deployed:
            text = "its objects are not converted (spec.conversion.strategy is None): other versions lose fields"
            yield WebhookProblem(subject, text, _DEPLOY)

    async def _conversion_by_service(
        self, subject: str, present: JSONObject, certificate: ServingCertificate | None, *, is_wanted: bool
    ) -> list[WebhookProblem]:
        service = conversions.service_of(present)
        shown, is_own = "/".join(service), is_wanted and service == self._own_service
        if is_own and self._deployed:
            errors = self._ca_errors({conversions.ca_bundle_of(present)}, certificate)
            return [WebhookProblem(subject, each, self._ca_remedy) for each in errors]
        if not await self._exists(*service):
            remedy = f"{_DEPLOY}; or set spec.conversion.strategy to None, with which other versions lose fields"
            return [WebhookProblem(subject, _unread(f"Service {shown}, which does not exist"), remedy)]
        if self._deployed:
            what = "not by this operator" if is_wanted else "and the program has no Conversion for them"
            return [WebhookProblem(subject, f"its objects are converted by Service {shown}, {what}", _DEPLOY)]
        return []

    def _is_converted(self, crd: str) -> bool:
        """Return whether the program converts the objects of a CRD."""
        return self._webhooks is not None and crd in self._webhooks.objects.definitions

    @property
    def _own_service(self) -> tuple[str, str]:
        """The namespace and name of the Service of the webhooks."""
        return self._settings.namespace, self._webhooks.objects.service if self._webhooks is not None else ""

    def _ca_errors(self, bundles: set[bytes], certificate: ServingCertificate | None) -> Iterator[str]:
        """Yield why the API server does not trust the certificate, if that is known."""
        if certificate is None:
            return
        if b"" in bundles:
            yield "caBundle is empty, so the API server does not trust the webhooks"
        elif not all(certificate.is_trusted_by(each) for each in bundles):
            yield "caBundle is not the CA of the webhooks' certificate, so the API server does not trust them"

    @property
    def _ca_remedy(self) -> str:
        match self._manifests.certificate_source:
            case "cert-manager":
                return "cert-manager's cainjector writes it: see its log, and `kubectl get certificate`"
            case "secret":
                return "write the CA of the Secret: webhook-ca-bundle in [tool.kubewright], and `kubewright deploy`"
            case _:
                return "the manager writes it: see `kubewright logs` for Webhook CA not injected"

    async def _missing_services(self, found: WebhookConfiguration) -> list[str]:
        """Return the Services of a configuration that should be in the manager's namespace, and do not exist."""
        services = [each.client_config.service for each in _webhooks_of(found)]
        named = {each.name for each in services if each is not None and each.namespace == self._settings.namespace}
        namespace = self._settings.namespace
        return [f"{namespace}/{name}" for name in sorted(named) if not await self._exists(namespace, name)]

    async def _exists(self, namespace: str, name: str) -> bool:
        key = (namespace, name)
        if key not in self._services:
            found = await self._client.get_or_none(PartialObjectMetadata.of(Service), name, namespace=namespace)
            self._services[key] = found is not None
        return self._services[key]


async def _unanswered(client: Client, manifests: Manifests) -> AsyncGenerator[WebhookProblem]:
    """Yield the calls that do not arrive: of conversions, by listing objects in each version, and of admission
    webhooks, by creating an object as a dry run.
    """
    for crd in manifests.crds:
        for error in await _unconvertible_versions(client, crd):
            yield WebhookProblem(f"crd/{crd['metadata']['name']}", error, _REACH)
    for cls in _reviewed(manifests):
        if error := await _uncalled(client, manifests, cls):
            yield WebhookProblem(f"webhooks of {cls.__api__.kind}", error, _REACH)


async def _unconvertible_versions(client: Client, crd: JSONObject) -> list[str]:
    """Return why the objects of a CRD cannot be read in some version: at most one reason."""
    installed = await installed_crd(client, crd)
    for version in served_versions(installed) if installed is not None else ():
        try:
            await client.list(PartialObjectMetadata.of(replace(api_of(crd), version=version)))
        except NotFound:
            continue
        except InternalError as error:
            if not conversions.is_conversion_failure(error):
                raise
            return [str(error)]
    return []


def _reviewed(manifests: Manifests) -> list[type[CustomResource]]:
    """Return the kinds of the program whose creation its webhooks review, in one version each."""
    hooks = [each.registration for each in manifests.program.webhooks if isinstance(each, AdmissionWebhook)]
    found: dict[tuple[str, str], type[CustomResource]] = {}
    for cls in (each for each in manifests.program.classes if each.__served_as__.served):
        api = cls.__api__
        for each in hooks:
            named = {api.group, "*"} & set(each.groups) and {api.plural, "*"} & set(each.resources)
            if named and {"CREATE", "*"} & set(each.operations) and {api.version, "*"} & set(each.versions):
                found.setdefault((api.group, api.kind), cls)
    return list(found.values())


async def _uncalled(client: Client, manifests: Manifests, cls: type[CustomResource]) -> str:
    """Return why a webhook of the program is not called; empty if it is, also if it rejects the object."""
    document = {**sample(cls), "metadata": {"name": _PROBE}}
    if cls.__api__.namespaced:
        document["metadata"]["namespace"] = manifests.settings.namespace
    try:
        await client.create(decode_object(Unstructured.of(cls.__api__), msgspec.json.encode(document)), dry_run=True)
    except InternalError as error:
        webhooks, namespace = manifests.webhooks, manifests.settings.namespace
        own = f"//{webhooks.objects.service}.{namespace}.svc" if webhooks is not None else ""
        return str(error) if own and "failed calling webhook" in str(error) and own in str(error) else ""
    except (APIError, ConfigError):
        return ""
    return ""


def _webhooks_of(found: WebhookConfiguration) -> Sequence[MutatingWebhook | ValidatingWebhook]:
    return found.webhooks


def _unread(by: str) -> str:
    return f"its objects are converted by {by}: other versions than the stored one cannot be read"


def _server(url: str) -> str:
    """Return a URL without its path."""
    return "/".join(url.split("/")[:3])
