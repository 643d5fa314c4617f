"""The manifests of a program with webhooks, beyond the golden projects."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright import Context, CustomResource, Manager, Model, controller, field
from kubewright.apis.core.v1 import Pod
from kubewright.machinery import yaml
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject
from kubewright.webhooks import (
    AdmissionContext,
    Conversion,
    ManagedCertificate,
    Spoke,
    Webhook,
    defaulter,
    validator,
)
from kubewright_cli.manifests import Manifests, Settings, chart, kustomize, render


class Spec(Model):
    size: int = 1


class Ship(CustomResource, group="fleet.test", version="v1"):
    spec: Spec = field(default_factory=Spec)


class OldSpec(Model):
    length: int = 1


class OldShip(CustomResource, group="fleet.test", version="v1alpha1", kind="Ship", storage=False):
    spec: OldSpec = field(default_factory=OldSpec)


def to_v1(old: OldShip) -> Ship:
    return Ship(spec=Spec(size=old.spec.length))


def from_v1(new: Ship) -> OldShip:
    return OldShip(spec=OldSpec(length=new.spec.size))


@controller(Ship)
async def sail(ctx: Context[Ship]) -> None: ...


@defaulter(Ship)
def complete(ctx: AdmissionContext[Ship]) -> None: ...


@validator(Ship)
def check(ctx: AdmissionContext[Ship]) -> None: ...


@validator(Pod, service_port=8443)
def check_pods(ctx: AdmissionContext[Pod]) -> None: ...


CONVERSION = Conversion(Ship, Spoke(OldShip, convert_to=to_v1, convert_from=from_v1))
SELF_MADE: dict[str, Any] = {"webhook_certificate": ManagedCertificate(prefix="of-the-program-")}


def manifests(*webhooks: Webhook, settings: dict[str, Any] | None = None, **options: Any) -> Manifests:
    manager = Manager([sail], name="fleet", webhooks=webhooks, **options)
    return render(manager, [Ship, OldShip], Settings(name="fleet", manager="fleet", **(settings or {})))


def by_kind(made: Manifests) -> dict[str, list[JSONObject]]:
    found: dict[str, list[JSONObject]] = {}
    for each in made.objects():
        found.setdefault(each["kind"], []).append(each)
    return found


def container(made: Manifests) -> JSONObject:
    pod = by_kind(made)["Deployment"][0]["spec"]["template"]["spec"]
    found: JSONObject = pod["containers"][0]
    return found


def named(documents: list[JSONObject], name: str) -> JSONObject:
    [found] = [each for each in documents if each["metadata"]["name"] == name]
    return found


def granted(role: JSONObject) -> set[tuple[str, ...]]:
    return {tuple(rule.get("resourceNames", ())) for rule in role["rules"]}


def test_a_certificate_of_the_manager_has_permissions_by_the_names_of_the_deployment() -> None:
    made = manifests(complete, check, CONVERSION, **SELF_MADE)
    found = by_kind(made)
    assert "--webhook-name-prefix=fleet-" in container(made)["args"]
    assert granted(named(found["ClusterRole"], "fleet-webhook-certificate-role")) == {
        ("fleet-mutating-webhook-configuration",),
        ("fleet-validating-webhook-configuration",),
        ("ships.fleet.test",),
    }
    secrets = named(found["Role"], "fleet-webhook-certificate-role")
    assert secrets["metadata"]["namespace"] == "fleet-system"
    assert granted(secrets) == {(), ("fleet-webhook-server-cert",)}
    names = {each["metadata"]["name"] for each in (*found["ClusterRoleBinding"], *found["RoleBinding"])}
    assert "fleet-webhook-certificate-rolebinding" in names
    assert "admissionregistration" not in str(named(found["ClusterRole"], "fleet-manager-role"))


def test_the_api_server_calls_the_service_and_the_service_the_manager() -> None:
    made = manifests(check, CONVERSION, **SELF_MADE)
    found = by_kind(made)
    [configuration] = found["ValidatingWebhookConfiguration"]
    [crd] = found["CustomResourceDefinition"]
    assert configuration["webhooks"][0]["clientConfig"]["service"] == {
        "name": "fleet-webhook-service", "namespace": "fleet-system", "path": "/validate-fleet-test-v1-ship",
    }  # fmt: skip
    assert crd["spec"]["conversion"]["webhook"]["clientConfig"] == {
        "service": {"name": "fleet-webhook-service", "namespace": "fleet-system", "path": "/convert"}
    }
    service = named(found["Service"], "fleet-webhook-service")
    assert [(each["port"], each["targetPort"]) for each in service["spec"]["ports"]] == [(443, 9443)]
    assert {"name": "webhook-server", "containerPort": 9443, "protocol": "TCP"} in container(made)["ports"]
    assert "--webhook-port=9443" in container(made)["args"]
    assert service["spec"]["selector"] == found["Deployment"][0]["spec"]["selector"]["matchLabels"]


def test_the_service_has_each_port_that_a_webhook_names() -> None:
    found = by_kind(manifests(check_pods, check, webhook_port=10000, **SELF_MADE))
    service = named(found["Service"], "fleet-webhook-service")
    ports = [(each["name"], each["port"], each["targetPort"]) for each in service["spec"]["ports"]]
    assert ports == [("https-443", 443, 10000), ("https-8443", 8443, 10000)]


def test_a_webhook_of_pods_leaves_out_the_namespace_of_the_deployment() -> None:
    [configuration] = by_kind(manifests(check_pods, **SELF_MADE))["ValidatingWebhookConfiguration"]
    [expression] = configuration["webhooks"][0]["namespaceSelector"]["matchExpressions"]
    assert expression["values"] == ["fleet-system", "kube-system"]


def test_cert_manager_makes_the_certificate_and_injects_its_ca() -> None:
    made = manifests(complete, CONVERSION, settings={"webhook_certificate": "cert-manager"}, **SELF_MADE)
    found = by_kind(made)
    [certificate], [issuer] = found["Certificate"], found["Issuer"]
    assert certificate["spec"] == {
        "dnsNames": ["fleet-webhook-service.fleet-system.svc", "fleet-webhook-service.fleet-system.svc.cluster.local"],
        "issuerRef": {"kind": "Issuer", "name": issuer["metadata"]["name"]},
        "secretName": "fleet-webhook-server-cert",
    }
    for kind in ("MutatingWebhookConfiguration", "CustomResourceDefinition"):
        injected = found[kind][0]["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
        assert injected == f"fleet-system/{certificate['metadata']['name']}"
    assert "--webhook-cert-path=/etc/webhook-certificate" in container(made)["args"]
    volume = found["Deployment"][0]["spec"]["template"]["spec"]["volumes"][-1]
    assert volume["secret"] == {"secretName": "fleet-webhook-server-cert"}
    assert not [each for each in found["ClusterRole"] if "certificate" in each["metadata"]["name"]]


CA = "-----BEGIN CERTIFICATE-----\nZmxlZXQ=\n-----END CERTIFICATE-----\n"


def test_a_secret_is_mounted_and_its_ca_written_into_configurations_and_crds() -> None:
    made = manifests(check, CONVERSION, settings={"webhook_certificate": "mine", "webhook_ca_bundle": CA})
    found = by_kind(made)
    volume = found["Deployment"][0]["spec"]["template"]["spec"]["volumes"][-1]
    assert volume["secret"] == {"secretName": "mine"}
    [configuration], [crd] = found["ValidatingWebhookConfiguration"], found["CustomResourceDefinition"]
    bundles = (
        configuration["webhooks"][0]["clientConfig"]["caBundle"],
        crd["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"],
    )
    assert bundles[0] == bundles[1]
    assert "Certificate" not in found


def test_webhooks_without_a_certificate_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"nothing provides a certificate .*ManagedCertificate\(\).*cert-manager"):
        manifests(check)


def test_a_certificate_for_another_namespace_is_refused() -> None:
    with pytest.raises(ConfigError, match="the manager is deployed in namespace fleet-system"):
        manifests(check, webhook_certificate=ManagedCertificate(namespace="elsewhere"))


def test_a_program_whose_webhook_server_is_off_has_no_webhook_objects() -> None:
    found = by_kind(manifests(check, webhook_port=-1))
    assert "ValidatingWebhookConfiguration" not in found
    assert not [each for each in found["Service"] if "webhook" in each["metadata"]["name"]]


def test_a_network_policy_lets_api_servers_in() -> None:
    found = by_kind(manifests(check, settings={"network_policy": True}, **SELF_MADE))
    policy = named(found["NetworkPolicy"], "fleet-allow-webhook-traffic")
    assert policy["spec"]["ingress"] == [{"ports": [{"port": 9443, "protocol": "TCP"}]}]


def test_crds_alone_name_no_webhook() -> None:
    files = kustomize.files(manifests(CONVERSION, **SELF_MADE), [])
    assert "conversion" not in yaml.load(files["config/crd/bases/fleet.test_ships.yaml"])["spec"]
    default = yaml.load(files["config/default/kustomization.yaml"])
    assert default["patches"] == [{"path": "webhook_in_ships.yaml"}]


def test_braces_in_conditions_are_not_for_helm() -> None:
    @validator(Ship, match_conditions={"text": "object.metadata.name != '{{ x }}'"})
    def check_named(ctx: AdmissionContext[Ship]) -> None: ...

    text = chart.files(manifests(check_named, **SELF_MADE))["dist/chart/templates/webhook/manifests.yaml"]
    assert "object.metadata.name != '{{ `{{` }} x }}'" in text.replace("''", "'")


def test_kinds_of_the_same_plural_have_different_patches() -> None:
    class Navy(CustomResource, group="navy.test", version="v1", kind="Ship"): ...

    class OldNavy(CustomResource, group="navy.test", version="v1alpha1", kind="Ship", storage=False): ...

    other = Conversion(Navy, Spoke(OldNavy, convert_to=lambda old: Navy(), convert_from=lambda new: OldNavy()))
    made = manifests(CONVERSION, other, **SELF_MADE)
    assert set(made.crd_patches) == {"webhook_in_ships.fleet.test", "webhook_in_ships.navy.test"}
