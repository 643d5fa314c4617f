"""The documents that tell an API server of webhooks, as controller-gen writes them.

A webhook whose failure fails requests could lock out its own operator: if it reviews Pods and the operator does not
run, the API server rejects each new Pod of the operator. So a webhook with `failure_policy="Fail"` that reviews what an
operator needs to start leaves out the operator's own namespace and `kube-system`. A `namespace_selector` of the webhook
replaces that; an empty one selects all namespaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from kubewright.apis.admissionregistration.v1 import (
    MatchCondition,
    MutatingWebhook,
    MutatingWebhookConfiguration,
    RuleWithOperations,
    ServiceReference,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
    WebhookClientConfig,
)
from kubewright.machinery.errors import ConfigError
from kubewright.models._meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from kubewright.webhooks._declaration import AdmissionWebhook
from kubewright.webhooks._names import CONVERT_PATH, MUTATING_CONFIGURATION, SERVICE, VALIDATING_CONFIGURATION
from kubewright.webhooks._registration import DEFAULT_TIMEOUT, Registration
from kubewright.webhooks._webhooks import Webhook, check_webhooks

# Both groups have the classes ServiceReference and WebhookClientConfig.
from kubewright.apis.apiextensions import v1 as apiextensions  # isort: skip

_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
_SYSTEM: Final = "kube-system"
"""The namespace of the cluster's DNS and network, without which no webhook can be called."""
_STARTUP: Final = {
    "": {
        "configmaps", "endpoints", "events", "persistentvolumeclaims", "pods", "secrets", "serviceaccounts", "services",
    },
    "apps": {"controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"},
    "autoscaling": {"horizontalpodautoscalers"},
    "batch": {"cronjobs", "jobs"},
    "cert-manager.io": {"certificaterequests", "certificates", "issuers"},
    "coordination.k8s.io": {"leases"},
    "discovery.k8s.io": {"endpointslices"},
    "events.k8s.io": {"events"},
    "networking.k8s.io": {"networkpolicies"},
    "policy": {"poddisruptionbudgets"},
    "rbac.authorization.k8s.io": {"rolebindings", "roles"},
}  # fmt: skip
"""What an operator, its certificate and its Service need to start, by group."""

WebhookConfiguration: TypeAlias = MutatingWebhookConfiguration | ValidatingWebhookConfiguration
"""The webhooks of one type, as an API server keeps them."""


class WebhookService(msgspec.Struct, frozen=True):
    """The Service through which an API server reaches a manager. The defaults are kubebuilder's."""

    name: str = SERVICE
    namespace: str = "system"
    port: int | None = None
    """The port of the Service. Default: 443."""


def webhook_configurations(
    webhooks: Sequence[Webhook],
    *,
    address: WebhookService | str,
    ca_bundle: bytes | None = None,
    prefix: str = "",
    operator_namespace: str = "",
) -> list[WebhookConfiguration]:
    """Return the configurations of the admission webhooks among `webhooks`: none, one for each type, or one.

    address: a Service, or the URL of a server outside of the cluster, such as `https://192.168.1.5:9443`.
    ca_bundle: the certificates, in PEM, by which the API server recognizes the server. Default: none; another program,
    such as cert-manager, adds them.
    prefix: the start of the names, before `mutating-webhook-configuration` and `validating-webhook-configuration`.
    operator_namespace: the namespace that webhooks leave out so that they cannot lock out the operator. Default: that
    of the Service.

    Raises ConfigError for webhooks with the same name or path, and for a URL that an API server would reject.
    """
    check_webhooks(webhooks)
    namespace = operator_namespace or (address.namespace if isinstance(address, WebhookService) else "")
    admission = sorted((each for each in webhooks if isinstance(each, AdmissionWebhook)), key=lambda each: each.name)
    mutating: list[MutatingWebhook] = []
    validating: list[ValidatingWebhook] = []
    for each in admission:
        made = each.registration
        client = _client(made, address, ca_bundle)
        if made.mutating:
            again = made.reinvocation_policy if made.reinvocation_policy != "Never" else None
            mutating.append(MutatingWebhook(reinvocation_policy=again, **_common(made, client, namespace)))
        else:
            validating.append(ValidatingWebhook(**_common(made, client, namespace)))
    found: list[WebhookConfiguration] = []
    if mutating:
        metadata = ObjectMeta(name=f"{prefix}{MUTATING_CONFIGURATION}")
        found.append(MutatingWebhookConfiguration(metadata=metadata, webhooks=mutating))
    if validating:
        metadata = ObjectMeta(name=f"{prefix}{VALIDATING_CONFIGURATION}")
        found.append(ValidatingWebhookConfiguration(metadata=metadata, webhooks=validating))
    return found


def conversion_strategy(
    *, address: WebhookService | str, ca_bundle: bytes | None = None
) -> apiextensions.CustomResourceConversion:
    """Return `spec.conversion` of the CRD of a kind with a `Conversion`. The arguments are those of
    `webhook_configurations`.
    """
    client = apiextensions.WebhookClientConfig(ca_bundle=ca_bundle)
    if isinstance(address, WebhookService):
        client.service = apiextensions.ServiceReference(
            name=address.name, namespace=address.namespace, path=CONVERT_PATH, port=address.port
        )
    else:
        client.url = _url(address, CONVERT_PATH)
    webhook = apiextensions.WebhookConversion(client_config=client, conversion_review_versions=["v1"])
    return apiextensions.CustomResourceConversion(strategy="Webhook", webhook=webhook)


def _client(made: Registration, address: WebhookService | str, ca_bundle: bytes | None) -> WebhookClientConfig:
    if isinstance(address, str):
        return WebhookClientConfig(ca_bundle=ca_bundle, url=_url(address, made.path))
    port = made.service_port or address.port
    service = ServiceReference(name=address.name, namespace=address.namespace, path=made.path, port=port)
    return WebhookClientConfig(ca_bundle=ca_bundle, service=service)


def _url(server: str, path: str) -> str:
    """Return the URL of a path. Source: the API server's ValidateWebhookURL."""
    parts = urlsplit(server)
    if parts.scheme != "https" or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise ConfigError(f"address={server!r}: write the URL of a server, https://host:port, without user and query")
    return server.rstrip("/") + path


def _common(made: Registration, client: WebhookClientConfig, namespace: str) -> dict[str, Any]:
    """Return the fields that both types of webhooks have, without those that have the API server's default."""
    rule = RuleWithOperations(
        operations=list(made.operations),
        api_groups=list(made.groups),
        api_versions=list(made.versions),
        resources=list(made.resources),
        scope=made.scope if made.scope != "*" else None,
    )
    conditions = [MatchCondition(name=name, expression=text) for name, text in made.match_conditions.items()]
    return {
        "name": made.name,
        "admission_review_versions": list(made.admission_review_versions),
        "client_config": client,
        "failure_policy": made.failure_policy,
        "match_conditions": conditions,
        "match_policy": made.match_policy if made.match_policy != "Equivalent" else None,
        "namespace_selector": made.namespace_selector or _left_out(made, namespace),
        "object_selector": made.object_selector,
        "rules": [rule],
        "side_effects": made.side_effects,
        "timeout_seconds": made.timeout_seconds if made.timeout_seconds != DEFAULT_TIMEOUT else None,
    }


def _left_out(made: Registration, namespace: str) -> LabelSelector | None:
    """Return the selector that keeps a webhook from locking out its operator; None if it cannot."""
    if not namespace or made.failure_policy != "Fail" or made.scope == "Cluster" or not _blocks_startup(made):
        return None
    names = list(dict.fromkeys([namespace, _SYSTEM]))
    return LabelSelector(
        match_expressions=[LabelSelectorRequirement(key=_NAMESPACE_NAME, operator="NotIn", values=names)]
    )


def _blocks_startup(made: Registration) -> bool:
    resources = {each.partition("/")[0] for each in made.resources}
    groups = _STARTUP if "*" in made.groups else made.groups
    return any("*" in resources or resources & _STARTUP.get(group, set()) for group in groups)
