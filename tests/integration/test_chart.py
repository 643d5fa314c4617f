"""The chart of `kubewright generate chart`, tested with helm and an API server."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import subprocess
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest

from integration.kubectl import Kubectl
from integration.manifests import GOLDEN, PROJECTS, by_name, each_project, installer, name, needs_kubectl
from integration.manifests import kubectl as kubectl
from kubewright.machinery import yaml
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject
from kubewright.testing import Cluster
from kubewright_cli.manifests import Settings
from kubewright_controlplane.real import find_binaries

OF_A_RELEASE = ("app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart")
"""Labels whose values Helm sets."""
FULL = GOLDEN / "full"
MINIMAL = GOLDEN / "minimal"
TENANTS = GOLDEN / "namespaced"


def find_helm() -> str | None:
    try:
        return str(find_binaries("helm") / "helm")
    except ConfigError:
        return shutil.which("helm")


HELM = find_helm()
pytestmark = [
    pytest.mark.skipif(HELM is None, reason="helm was not found; `make controlplane` builds it"),
    pytest.mark.xdist_group("golden manifests"),
]


def run(*arguments: str | Path, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
    own = {key: value for key, value in os.environ.items() if not key.startswith(("HELM_", "KUBE"))}
    own["KUBECONFIG"] = str(kubeconfig or os.devnull)
    if kubeconfig is not None:
        own["KUBECACHEDIR"] = str(kubeconfig.parent / "cache")
    return subprocess.run([str(HELM), *map(str, arguments)], capture_output=True, text=True, env=own, check=False)


def template(project: Path, *sets: str, release: str = "", namespace: str = "") -> list[JSONObject]:
    """Return the objects of a release, by default with the names of the installer."""
    settings = Settings.read(project / "pyproject.toml")
    if not release:
        release, sets = settings.name, (f"fullnameOverride={settings.name_prefix.rstrip('-')}", *sets)
    given = [part for each in sets for part in ("--set", each)]
    where = ("--namespace", namespace or settings.namespace)
    done = run("template", release, project / "dist/chart", *where, *given)
    assert done.returncode == 0, done.stderr
    return list(yaml.load_all(done.stdout))


def refused(project: Path, *sets: str) -> str:
    done = run("template", "x", project / "dist/chart", *(part for each in sets for part in ("--set-json", each)))
    assert done.returncode != 0, done.stdout
    return done.stderr


def kinds(documents: Sequence[JSONObject]) -> set[str]:
    return {each["kind"] for each in documents}


def manager(documents: Sequence[JSONObject]) -> JSONObject:
    [deployment] = [each for each in documents if each["kind"] == "Deployment"]
    pod: JSONObject = deployment["spec"]["template"]["spec"]
    return pod


def container(documents: Sequence[JSONObject]) -> JSONObject:
    [only] = manager(documents)["containers"]
    found: JSONObject = only
    return found


def without_release(value: object) -> object:
    """Return a document without the fields that only a chart has."""
    if isinstance(value, dict):
        dropped = (*OF_A_RELEASE, "helm.sh/resource-policy")
        rest = {key: without_release(each) for key, each in value.items() if key not in dropped}
        return {key: each for key, each in rest.items() if not (key == "annotations" and each == {})}
    return [without_release(each) for each in value] if isinstance(value, list) else value


@each_project
def test_helm_lint_reports_nothing(project: Path) -> None:
    done = run("lint", "--strict", project / "dist/chart")
    assert done.returncode == 0, done.stdout + done.stderr


@each_project
def test_a_chart_with_default_values_renders_the_installer(project: Path) -> None:
    made = {key: without_release(each) for key, each in by_name(template(project)).items()}
    written = {key: without_release(each) for key, each in by_name(installer(project)).items() if key[0] != "Namespace"}
    assert made == written


def test_names_are_derived_from_the_release() -> None:
    assert name(template(MINIMAL, release="blue", namespace="n")[-1]) == (
        "Deployment",
        "n",
        "blue-minimal-controller-manager",
    )
    assert name(template(MINIMAL, release="my-minimal", namespace="n")[-1])[2] == "my-minimal-controller-manager"
    long = template(MINIMAL, "fullnameOverride=" + "x" * 63, release="r", namespace="n")
    assert max(len(each["metadata"]["name"]) for each in long if each["kind"] in ("Service", "Deployment")) == 63


@pytest.mark.parametrize(
    ("project", "value", "gone"),
    [
        (FULL, "prometheus.enabled=false", {"ServiceMonitor"}),
        (FULL, "networkPolicy.enabled=false", {"NetworkPolicy"}),
        (FULL, "crd.enabled=false", {"CustomResourceDefinition"}),
        (MINIMAL, "metrics.enabled=false", {"Service"}),
        (MINIMAL, "leaderElection.enabled=false", {"Role", "RoleBinding"}),
    ],
)
def test_a_switch_removes_only_its_own_kinds(project: Path, value: str, gone: set[str]) -> None:
    assert kinds(template(project)) - kinds(template(project, value)) == gone


def test_names_that_look_like_other_yaml_types_stay_strings() -> None:
    found = template(FULL, release="1", namespace="no")
    assert {each["metadata"].get("namespace", "no") for each in found} == {"no"}
    labels = [each["metadata"]["labels"] for each in found if each["kind"] != "CustomResourceDefinition"]
    assert {each["app.kubernetes.io/instance"] for each in labels} == {"1"}
    assert {subject["namespace"] for each in found for subject in each.get("subjects", ())} == {"no"}


def test_a_release_names_the_objects_of_its_webhooks() -> None:
    found = {name(each): each for each in template(TENANTS, release="blue", namespace="n")}
    configuration = found["ValidatingWebhookConfiguration", "", "blue-tenants-validating-webhook-configuration"]
    service = {
        "name": "blue-tenants-webhook-service",
        "namespace": "n",
        "path": "/validate-tenants-example-com-v1-tenant",
    }
    assert configuration["webhooks"][0]["clientConfig"] == {"service": service}
    assert ("Service", "n", service["name"]) in found
    assert "--webhook-name-prefix=blue-tenants-" in container(list(found.values()))["args"]
    role = found["ClusterRole", "", "blue-tenants-webhook-certificate-role"]
    assert role["rules"][0]["resourceNames"] == [configuration["metadata"]["name"]]


def test_the_certificate_of_webhooks_comes_from_elsewhere() -> None:
    managed, by_cert_manager = template(TENANTS), template(TENANTS, "webhook.certificate=cert-manager")
    assert kinds(by_cert_manager) - kinds(managed) == {"Certificate", "Issuer"}
    assert not [each for each in by_cert_manager if "webhook-certificate-role" in each["metadata"]["name"]]
    [certificate] = [each for each in by_cert_manager if each["kind"] == "Certificate"]
    assert manager(by_cert_manager)["volumes"][-1]["secret"]["secretName"] == certificate["spec"]["secretName"]
    [configuration] = [each for each in by_cert_manager if each["kind"] == "ValidatingWebhookConfiguration"]
    injected = configuration["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
    assert injected == f"tenants-system/{certificate['metadata']['name']}"
    own = template(
        TENANTS, "webhook.certificate=mine", "webhook.caBundle=-----BEGIN CERTIFICATE-----", "webhook.port=1"
    )
    assert manager(own)["volumes"][-1]["secret"]["secretName"] == "mine"
    [configuration] = [each for each in own if each["kind"] == "ValidatingWebhookConfiguration"]
    bundle = base64.b64decode(configuration["webhooks"][0]["clientConfig"]["caBundle"])
    assert bundle == b"-----BEGIN CERTIFICATE-----"
    [service] = [each for each in own if each["metadata"]["name"] == "tenants-webhook-service"]
    assert service["spec"]["ports"][0]["targetPort"] == 1
    assert {"--webhook-port=1", "--webhook-cert-path=/etc/webhook-certificate"} <= set(container(own)["args"])


def test_webhooks_can_be_turned_off_if_nothing_needs_a_conversion() -> None:
    found = template(TENANTS, "webhook.enabled=false")
    assert "ValidatingWebhookConfiguration" not in kinds(found)
    assert not [each for each in found if "webhook" in each["metadata"]["name"]]
    assert "--webhook-port=-1" in container(found)["args"]
    assert "nothing would convert objects between the versions of ships" in refused(FULL, 'webhook={"enabled": false}')


def test_a_certificate_that_does_not_exist_is_refused() -> None:
    assert "the manager makes no certificate" in refused(FULL, 'webhook={"certificate": ""}')
    assert "name the Secret in webhook.certificate" in refused(
        TENANTS, 'webhook={"caBundle": "-----BEGIN CERTIFICATE-----"}'
    )


def test_helper_roles_can_be_disabled() -> None:
    found = {name(each)[2] for each in template(MINIMAL, "rbac.helpers.enabled=false") if each["kind"] == "ClusterRole"}
    assert found == {"minimal-manager-role", "minimal-metrics-auth-role", "minimal-metrics-reader"}


def test_metrics_can_be_served_without_tls_and_authorization() -> None:
    found = template(MINIMAL, "metrics.secure=false", "metrics.port=9000", "prometheus.enabled=true")
    assert "--metrics-secure=false" in container(found)["args"]
    assert "--metrics-bind-address=:9000" in container(found)["args"]
    assert not [each for each in found if "metrics" in name(each)[2] and "Role" in each["kind"]]
    by_kind = {each["kind"]: each for each in found}
    assert by_kind["Service"]["spec"]["ports"][0]["name"] == "http"
    assert by_kind["ServiceMonitor"]["spec"]["endpoints"] == [{"path": "/metrics", "port": "http", "scheme": "http"}]


def test_crds_are_kept_after_an_uninstall_unless_disabled() -> None:
    def policies(*sets: str) -> set[str]:
        crds = [each for each in template(FULL, *sets) if each["kind"] == "CustomResourceDefinition"]
        return {each["metadata"].get("annotations", {}).get("helm.sh/resource-policy", "") for each in crds}

    assert policies() == {"keep"}
    assert policies("crd.keep=false") == {""}


@pytest.mark.parametrize(
    ("value", "namespaces", "flag"),
    [
        ("watchNamespaces=own", {"tenants-system"}, "--namespace=$(POD_NAMESPACE)"),
        ("watchNamespaces={red,green}", {"red", "green"}, "--namespace=red,green"),
    ],
)
def test_roles_are_in_the_namespaces_of_the_manager(value: str, namespaces: set[str], flag: str) -> None:
    found = template(TENANTS, value)
    of_manager = [each for each in found if each["metadata"]["name"].startswith("tenants-manager-role")]
    assert {each["metadata"]["namespace"] for each in of_manager if each["kind"] == "Role"} == namespaces
    assert {each["metadata"]["namespace"] for each in of_manager if each["kind"] == "RoleBinding"} == namespaces
    [role] = [each for each in of_manager if each["kind"] == "ClusterRole"]
    assert {resource for rule in role["rules"] for resource in rule["resources"]} == {"nodes", "storageclasses"}
    assert flag in container(found)["args"]


def test_one_role_is_enough_for_all_namespaces() -> None:
    found = template(TENANTS, "watchNamespaces=all")
    of_manager = [each for each in found if each["metadata"]["name"].startswith("tenants-manager-role")]
    assert kinds(of_manager) == {"ClusterRole", "ClusterRoleBinding"}
    assert not [each for each in container(found)["args"] if each.startswith("--namespace")]


def test_the_manager_can_use_an_existing_service_account() -> None:
    found = template(MINIMAL, "serviceAccount.enabled=false", "serviceAccount.name=mine")
    assert "ServiceAccount" not in kinds(found)
    assert manager(found)["serviceAccountName"] == "mine"
    bindings = [each for each in found if each["kind"].endswith("Binding")]
    assert {subject["name"] for each in bindings for subject in each["subjects"]} == {"mine"}


def test_an_image_is_named_by_digest_or_by_the_version_of_the_chart() -> None:
    digest = f"sha256:{'0' * 64}"
    by_digest = template(MINIMAL, f"manager.image.digest={digest}", "manager.image.tag=")
    assert container(by_digest)["image"] == f"minimal@{digest}"
    by_both = template(MINIMAL, f"manager.image.digest={digest}")
    assert container(by_both)["image"] == f"minimal:latest@{digest}"
    assert container(template(MINIMAL, "manager.image.tag="))["image"] == "minimal:0.1.0"


def test_selector_labels_of_the_manager_do_not_change() -> None:
    odd = ("control-plane=x", "app\\.kubernetes\\.io/name=x", "team=blue")
    found = template(MINIMAL, *(f"{where}.{each}" for where in ("commonLabels", "manager.pod.labels") for each in odd))
    [deployment] = [each for each in found if each["kind"] == "Deployment"]
    selector = deployment["spec"]["selector"]["matchLabels"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert labels == {**selector, "team": "blue"}
    assert selector["control-plane"] == "controller-manager"
    assert deployment["metadata"]["labels"]["team"] == "blue"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("replicas=2", "additional properties 'replicas' not allowed"),
        ('manager={"replica": 2}', "additional properties 'replica' not allowed"),
        ('watchNamespaces="both"', "watchNamespaces"),
        ("watchNamespaces=[]", "watchNamespaces"),
        ('manager={"image": {"digest": "abc"}}', "does not match pattern"),
        ('serviceAccount={"enabled": false}', "name the ServiceAccount of the manager in serviceAccount.name"),
        ('prometheus={"enabled": true}|metrics={"enabled": false}', "there is nothing to scrape"),
        ('networkPolicy={"enabled": true}|metrics={"enabled": false}', "it restricts access to the metrics"),
        ('manager={"replicas": 2}|leaderElection={"enabled": false}', "several replicas need leaderElection.enabled"),
    ],
)
def test_an_invalid_value_is_rejected(value: str, said: str) -> None:
    assert said in refused(MINIMAL, *value.split("|"))


EVERYTHING = (
    "prometheus.enabled=true",
    "networkPolicy.enabled=true",
    "manager.replicas=2",
    "manager.priorityClassName=system-cluster-critical",
    "manager.pod.labels.team=blue",
    "manager.pod.annotations.note=x",
    "commonAnnotations.note=y",
    "serviceAccount.annotations.role=z",
    "manager.nodeSelector.zone=a",
    "manager.imagePullSecrets[0].name=registry",
    "manager.image.pullPolicy=Always",
    "manager.args={--log-level=debug}",
    "manager.env[0].name=A",
    "manager.env[0].value=b",
    "manager.tolerations[0].operator=Exists",
    "manager.topologySpreadConstraints[0].maxSkew=1",
    "manager.topologySpreadConstraints[0].topologyKey=zone",
    "manager.topologySpreadConstraints[0].whenUnsatisfiable=DoNotSchedule",
    "manager.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
    ".matchExpressions[0].key=zone",
    "manager.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
    ".matchExpressions[0].operator=Exists",
    "manager.extraVolumes[0].name=more",
    "manager.extraVolumes[0].emptyDir.medium=Memory",
    "manager.extraVolumeMounts[0].name=more",
    "manager.extraVolumeMounts[0].mountPath=/more",
)


SETS = {
    "as it is": (),
    "everything": (*EVERYTHING, "leaderElection.enabled=true", "metrics.enabled=true"),
    "own namespace": ("watchNamespaces=own", "metrics.secure=true", "metrics.enabled=true"),
    "some namespaces": ("watchNamespaces={default,kube-public}", "crd.keep=false"),
    "nothing": (
        "metrics.enabled=false",
        "prometheus.enabled=false",
        "networkPolicy.enabled=false",
        "manager.replicas=1",
        "leaderElection.enabled=false",
        "rbac.helpers.enabled=false",
    ),
}


def marks(project: Path, sets: str) -> list[pytest.MarkDecorator]:
    return [] if project == FULL or sets == "as it is" else [pytest.mark.long]


@needs_kubectl
@pytest.mark.parametrize(
    ("project", "sets"),
    [
        pytest.param(project, SETS[sets], id=f"{sets}-{project.name}", marks=marks(project, sets))
        for project, sets in product(PROJECTS, SETS)
    ],
)
async def test_an_api_server_accepts_a_release_with_strict_validation(
    kubectl: Kubectl, project: Path, sets: tuple[str, ...]
) -> None:
    made = template(project, *sets, namespace="default")
    made = [each for each in made if each["metadata"].get("namespace", "default") in ("default", "kube-public")]
    strict = ("--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
    said = await kubectl("apply", *strict, given=yaml.dump(*made))
    assert said.count("serverside-applied (server dry run)") == len(made)


@needs_kubectl
async def test_a_release_is_installed_upgraded_and_uninstalled(cluster: Cluster, namespace: str) -> None:
    kubeconfig = cluster.kubeconfig()

    async def helm(*arguments: str) -> str:
        done = await asyncio.to_thread(run, *arguments, "--namespace", namespace, kubeconfig=kubeconfig)
        assert done.returncode == 0, done.stderr
        return done.stdout

    chart = str(MINIMAL / "dist/chart")
    said = await helm("install", "notes", chart, "--wait", "--timeout", "120s")
    assert "It watches all namespaces." in said
    said = await helm("upgrade", "notes", chart, "--wait", "--timeout", "120s", "--set", "watchNamespaces=own")
    assert f"It watches {namespace}." in said
    kubectl = Kubectl(kubeconfig, namespace)
    assert "notes-minimal-controller-manager" in await kubectl("get", "deployments")
    await helm("uninstall", "notes", "--wait")
    assert "notes-minimal-controller-manager" not in await kubectl("get", "deployments")
    assert "notes.minimal.example.com" in await kubectl("get", "crds")
    await kubectl("delete", "crd", "notes.minimal.example.com")
