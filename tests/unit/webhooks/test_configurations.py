"""The documents that tell an API server of the webhooks."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright import ConfigError
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import Node, Pod
from kubewright.apis.meta.v1 import LabelSelector
from kubewright.models import codec
from kubewright.models._values import plain
from kubewright.webhooks import (
    AdmissionContext,
    AdmissionResponse,
    AdmissionWebhook,
    RawAdmissionContext,
    WebhookService,
    admission_handler,
    conversion_strategy,
    defaulter,
    validator,
    webhook_configurations,
)

from .served import WebServer

SERVICE = WebhookService(name="shop-webhook-service", namespace="shop-system")


def check(ctx: AdmissionContext[Any]) -> None: ...


def documents(*webhooks: AdmissionWebhook, address: WebhookService | str = SERVICE) -> list[dict[str, Any]]:
    return [codec.to_dict(each) for each in webhook_configurations(webhooks, address=address)]


def only(webhook: AdmissionWebhook, address: WebhookService | str = SERVICE) -> dict[str, Any]:
    found: dict[str, Any] = documents(webhook, address=address)[0]["webhooks"][0]
    return found


def test_the_configurations_are_those_of_controller_gen() -> None:
    mutating, validating = documents(
        defaulter(WebServer)(check), validator(WebServer, operations=["CREATE", "UPDATE", "DELETE"])(check)
    )
    assert mutating == {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "mutating-webhook-configuration"},
        "webhooks": [
            {
                "admissionReviewVersions": ["v1"],
                "clientConfig": {
                    "service": {
                        "name": "shop-webhook-service",
                        "namespace": "shop-system",
                        "path": "/mutate-my-domain-v1-webserver",
                    }
                },
                "failurePolicy": "Fail",
                "name": "mwebserver-v1.kb.io",
                "rules": [
                    {
                        "apiGroups": ["my.domain"],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["webservers"],
                    }
                ],
                "sideEffects": "None",
            }
        ],
    }
    assert validating["kind"] == "ValidatingWebhookConfiguration"
    assert validating["webhooks"][0]["rules"][0]["operations"] == ["CREATE", "UPDATE", "DELETE"]


def test_every_option_is_in_the_document() -> None:
    found = only(
        defaulter(
            WebServer,
            failure_policy="Ignore",
            match_policy="Exact",
            side_effects="NoneOnDryRun",
            timeout=3,
            reinvocation_policy="IfNeeded",
            match_conditions={"big": "object.spec.replicas > 3"},
            namespace_selector=LabelSelector(match_labels={"a": "b"}),
            object_selector=LabelSelector(match_labels={"c": "d"}),
            scope="Namespaced",
            admission_review_versions=["v1", "v1beta1"],
            service_port=8443,
        )(check)
    )
    assert found["clientConfig"]["service"]["port"] == 8443
    assert {key: found[key] for key in found if key not in ("clientConfig", "name")} == {
        "admissionReviewVersions": ["v1", "v1beta1"],
        "failurePolicy": "Ignore",
        "matchConditions": [{"name": "big", "expression": "object.spec.replicas > 3"}],
        "matchPolicy": "Exact",
        "namespaceSelector": {"matchLabels": {"a": "b"}},
        "objectSelector": {"matchLabels": {"c": "d"}},
        "reinvocationPolicy": "IfNeeded",
        "rules": [
            {
                "apiGroups": ["my.domain"],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["webservers"],
                "scope": "Namespaced",
            }
        ],
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": 3,
    }


def test_webhooks_are_ordered_by_name() -> None:
    late = validator(WebServer)(check)
    early = validator(Pod)(check)
    (found,) = documents(late, early)
    assert [each["name"] for each in found["webhooks"]] == ["vpod-v1.kb.io", "vwebserver-v1.kb.io"]


def test_a_server_outside_of_the_cluster_has_a_url_and_a_ca_bundle() -> None:
    (found,) = webhook_configurations(
        [validator(WebServer)(check)], address="https://127.0.0.1:9443/", ca_bundle=b"PEM", prefix="test-"
    )
    assert found.metadata.name == "test-validating-webhook-configuration"
    assert plain(found.webhooks[0].client_config) == {
        "caBundle": "UEVN",
        "url": "https://127.0.0.1:9443/validate-my-domain-v1-webserver",
    }


@pytest.mark.parametrize("url", ["http://a:1", "https://u:p@a", "https://a?b", "https://a#b", "a:9443"])
def test_a_url_that_an_api_server_rejects_is_an_error(url: str) -> None:
    with pytest.raises(ConfigError, match="write the URL of a server"):
        documents(validator(WebServer)(check), address=url)


LEFT_OUT = {
    "matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["shop-system", "kube-system"]}
    ]
}


@pytest.mark.parametrize("kind", [Pod, Deployment])
def test_a_webhook_that_could_lock_out_its_operator_leaves_its_namespace_out(kind: Any) -> None:
    assert only(validator(kind)(check))["namespaceSelector"] == LEFT_OUT


def test_a_webhook_for_all_kinds_leaves_the_operators_namespace_out() -> None:
    @admission_handler(
        "/all", name="all.my.domain", groups=["*"], versions=["*"], resources=["*"], operations=["CREATE"]
    )
    def allow(ctx: RawAdmissionContext) -> AdmissionResponse:
        return AdmissionResponse()

    assert only(allow)["namespaceSelector"] == LEFT_OUT


@pytest.mark.parametrize(
    "webhook",
    [
        validator(WebServer)(check),
        validator(Pod, failure_policy="Ignore")(check),
        validator(Node, scope="Cluster")(check),
    ],
)
def test_other_webhooks_select_all_namespaces(webhook: AdmissionWebhook) -> None:
    assert "namespaceSelector" not in only(webhook)


def test_a_namespace_selector_of_the_webhook_is_kept() -> None:
    assert only(validator(Pod, namespace_selector=LabelSelector())(check))["namespaceSelector"] == {}


def test_a_crd_is_converted_by_the_same_server() -> None:
    assert plain(conversion_strategy(address=SERVICE)) == {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {
                "service": {"name": "shop-webhook-service", "namespace": "shop-system", "path": "/convert"}
            },
            "conversionReviewVersions": ["v1"],
        },
    }
    assert conversion_strategy(address="https://localhost:1", ca_bundle=b"PEM").webhook is not None
