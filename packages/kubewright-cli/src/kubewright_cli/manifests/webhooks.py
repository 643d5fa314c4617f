"""The folders `webhook` and `certmanager`: how an API server reaches the webhooks of a program, and which CA it trusts.

The certificate comes from the manager (`ManagedCertificate`), from cert-manager, or from an existing Secret. With the
first, the manager writes its CA into the configurations and CRDs. With cert-manager, an annotation asks it to.

In `config/`, kustomize completes the name and the namespace of the Service wherever an object refers to it. It knows no
other references, so the Secret, the Issuer, the annotations, RBAC and flags have complete names there, too. The folder
`replacements` changes these names in overlays.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec.structs import replace

from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject
from kubewright.manager import Certificate
from kubewright.models import APIResource, cluster_role, codec, role
from kubewright.models._values import plain
from kubewright.webhooks import (
    AdmissionWebhook,
    ManagedCertificate,
    WebhookObjects,
    webhook_objects,
)
from kubewright_cli.manifests.names import MANAGER, Names
from kubewright_cli.manifests.program import Program
from kubewright_cli.manifests.settings import CERT_MANAGER, Settings
from kubewright_cli.manifests.workload import selector

if TYPE_CHECKING:
    from kubewright.webhooks import WebhookService

CertificateSource: TypeAlias = Literal["manager", "program", "cert-manager", "secret"]
"""Where the certificate comes from: the manager makes it, or the program names its files, or cert-manager makes it, or
the settings name a Secret."""

CERTIFICATE: Final = APIResource("cert-manager.io", "v1", "Certificate", "certificates")
ISSUER: Final = APIResource("cert-manager.io", "v1", "Issuer", "issuers")
INJECT: Final = "cert-manager.io/inject-ca-from"
"""The annotation that names the Certificate whose CA cert-manager writes into an object."""
CERTIFICATE_ROLE: Final = "webhook-certificate-role"
ISSUER_NAME: Final = "selfsigned-issuer"
CERTIFICATE_NAME: Final = "serving-cert"
_HTTPS: Final = 443


def certificate_source(program: Program, settings: Settings) -> CertificateSource | None:
    """Return where the certificate comes from; None if the program serves no webhooks.

    Raises ConfigError if there is no certificate, or if the API server would look for it elsewhere.
    """
    if not program.webhooks:
        return None
    if settings.webhook_certificate:
        return "cert-manager" if settings.webhook_certificate == CERT_MANAGER else "secret"
    declared = program.manager.options.webhook_certificate
    if declared is None:
        raise ConfigError(
            "the Manager has webhooks, and nothing provides a certificate for them; write "
            "Manager(webhook_certificate=ManagedCertificate()), or set webhook-certificate in [tool.kubewright] to "
            f'"{CERT_MANAGER}" or to the name of a Secret'
        )
    if isinstance(declared, ManagedCertificate) and declared.namespace not in ("", settings.namespace):
        raise ConfigError(
            f'ManagedCertificate(namespace="{declared.namespace}"): the manager is deployed in namespace '
            f"{settings.namespace}, and so are the Service and the Secret of its webhooks; remove the argument"
        )
    return "program" if isinstance(declared, Certificate) else "manager"


@dataclass(frozen=True, slots=True)
class WebhookDeployment:
    """The webhooks of a deployed program, as documents."""

    program: Program
    names: Names
    """The names of objects, which kustomize may complete."""
    prefix: str
    """The start of the complete names."""
    namespace: str
    """The namespace of the manager in the cluster."""
    selector: dict[str, str]
    """The labels of the manager's Pods."""
    injected: bool = False
    """Whether cert-manager writes the CA into configurations and CRDs."""
    ca_bundle: bytes | None = None

    @classmethod
    def of(cls, program: Program, settings: Settings, names: Names) -> WebhookDeployment:
        """Return the webhooks of a program that has some, deployed as in `settings`."""
        injected = settings.webhook_certificate == CERT_MANAGER
        ca_bundle = settings.webhook_ca_bundle.encode() or None
        return cls(program, names, settings.name_prefix, settings.namespace, selector(settings), injected, ca_bundle)

    @property
    def objects(self) -> WebhookObjects:
        """The complete names of the objects by which an API server reaches the webhooks."""
        return webhook_objects(self.program.webhooks, prefix=self.prefix)

    def configurations(self) -> list[JSONObject]:
        """Return the configurations of the admission webhooks."""
        from kubewright.webhooks import webhook_configurations  # only for programs with webhooks

        found = webhook_configurations(
            self.program.webhooks,
            address=self._address,
            ca_bundle=self.ca_bundle,
            operator_namespace=self.namespace,
        )
        documents = [codec.to_dict(each) for each in found]
        for each in documents:
            each["metadata"] = {"name": self.names.of(each["metadata"]["name"]), **self._annotations}
        return documents

    def conversions(self) -> dict[str, JSONObject]:
        """Return what the CRDs of converted kinds have in addition, by the name of the CRD: `spec.conversion`, and
        metadata if there is any.
        """
        from kubewright.webhooks import conversion_strategy  # only for programs with webhooks

        strategy = plain(conversion_strategy(address=self._address, ca_bundle=self.ca_bundle))
        metadata = {"metadata": self._annotations} if self._annotations else {}
        return {name: {**metadata, "spec": {"conversion": strategy}} for name in self.objects.definitions}

    def service(self) -> JSONObject:
        """Return the Service, with each port that a webhook names."""
        admission = [each for each in self.program.webhooks if isinstance(each, AdmissionWebhook)]
        numbers = {each.registration.service_port or _HTTPS for each in admission}
        if self.objects.definitions:
            numbers.add(_HTTPS)
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self._metadata(self._short.service),
            "spec": {
                "ports": [
                    {
                        "name": "https" if len(numbers) == 1 else f"https-{each}",
                        "port": each,
                        "protocol": "TCP",
                        "targetPort": self.program.webhook_port,
                    }
                    for each in sorted(numbers)
                ],
                "selector": self.selector,
            },
        }

    def policy(self) -> JSONObject:
        """Return a NetworkPolicy by which every client reaches the webhooks: an API server is not a Pod that a policy
        could select.
        """
        return {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": self._metadata("allow-webhook-traffic"),
            "spec": {
                "podSelector": {"matchLabels": self.selector},
                "policyTypes": ["Ingress"],
                "ingress": [{"ports": [{"port": self.program.webhook_port, "protocol": "TCP"}]}],
            },
        }

    def roles(self) -> list[JSONObject]:
        """Return the roles of a manager that makes the certificate itself: a ClusterRole for the configurations and
        CRDs, and a Role for the Secret.
        """
        options = self.program.manager.options
        provider = options.webhook_certificate
        if provider is None or isinstance(provider, Certificate):
            return []
        if isinstance(provider, ManagedCertificate):
            provider = replace(provider, prefix=self.prefix)
        name, rules, own = (
            self.names.of(CERTIFICATE_ROLE),
            provider.rbac_rules(options.webhooks),
            provider.namespace_rules(),
        )
        cluster = [cluster_role(name, rules)] if rules else []
        return [*cluster, *([role(name, self.names.namespace, own)] if own else [])]

    def issuer(self) -> JSONObject:
        """Return cert-manager's Issuer of a certificate that signs itself."""
        return {
            "apiVersion": ISSUER.api_version,
            "kind": ISSUER.kind,
            "metadata": self._metadata(ISSUER_NAME),
            "spec": {"selfSigned": {}},
        }

    def certificate(self) -> JSONObject:
        """Return cert-manager's Certificate for the Service."""
        service = f"{self.objects.service}.{self.namespace}.svc"
        return {
            "apiVersion": CERTIFICATE.api_version,
            "kind": CERTIFICATE.kind,
            "metadata": self._metadata(CERTIFICATE_NAME),
            "spec": {
                "dnsNames": [service, f"{service}.cluster.local"],
                "issuerRef": {"kind": ISSUER.kind, "name": f"{self.prefix}{ISSUER_NAME}"},
                "secretName": self.objects.secret,
            },
        }

    @property
    def injected_from(self) -> str:
        """The Certificate whose CA cert-manager injects: its namespace and name."""
        return f"{self.namespace}/{self.prefix}{CERTIFICATE_NAME}"

    @property
    def _short(self) -> WebhookObjects:
        return webhook_objects(self.program.webhooks)

    @property
    def _address(self) -> WebhookService:
        from kubewright.webhooks import WebhookService  # only for programs with webhooks

        return WebhookService(name=self.names.of(self._short.service), namespace=self.names.namespace)

    @property
    def _annotations(self) -> JSONObject:
        return {"annotations": {INJECT: self.injected_from}} if self.injected else {}

    def _metadata(self, name: str) -> JSONObject:
        return {"name": self.names.of(name), "namespace": self.names.namespace, "labels": {"control-plane": MANAGER}}


def converted(crds: Iterable[JSONObject], conversions: dict[str, JSONObject]) -> list[JSONObject]:
    """Return the CRDs with their conversions."""
    return [_merged(crd, conversions.get(crd["metadata"]["name"], {})) for crd in crds]


def _merged(crd: JSONObject, addition: JSONObject) -> JSONObject:
    if not addition:
        return crd
    found = deepcopy(crd)
    found["spec"] |= addition["spec"]
    metadata = found["metadata"]
    annotations = {**metadata.get("annotations", {}), **addition.get("metadata", {}).get("annotations", {})}
    return {**found, "metadata": {**metadata, **({"annotations": annotations} if annotations else {})}}
