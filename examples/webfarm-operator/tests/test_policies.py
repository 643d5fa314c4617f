"""The policies, without a server."""

from kubewright import ObjectMeta
from kubewright.apis.core.v1 import Namespace
from kubewright.testing import evaluate

from webfarm_operator.api.v1.webserver import ServiceSettings, ServiceType, WebServer, WebServerSpec
from webfarm_operator.webhook.policies import load_balancers

ALLOWED = Namespace(metadata=ObjectMeta(name="shop", labels={"load-balancers": "allowed"}))


def webserver(type: ServiceType) -> WebServer:
    spec = WebServerSpec(image="nginx:1", service=ServiceSettings(type=type))
    return WebServer(metadata=ObjectMeta(name="web", namespace="shop"), spec=spec)


def test_a_load_balancer_needs_a_label_of_the_namespace() -> None:
    refused = evaluate(load_balancers, create=webserver("LoadBalancer"))
    assert not refused.allowed
    assert "label the namespace load-balancers=allowed" in refused.message
    assert evaluate(load_balancers, create=webserver("LoadBalancer"), namespace=ALLOWED).allowed


def test_other_types_are_allowed_everywhere() -> None:
    assert evaluate(load_balancers, create=webserver("NodePort")).allowed
