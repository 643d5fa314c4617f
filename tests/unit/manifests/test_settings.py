"""`[tool.kubewright]`: its meaning, and the errors for mistakes in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubewright.machinery.errors import ConfigError
from kubewright_cli.manifests import Settings


def write(folder: Path, table: str, name: str = "webserver-operator") -> Path:
    path = folder / "pyproject.toml"
    path.write_text(f'[project]\nname = "{name}"\n[tool.kubewright]\nmanager = "web.main:manager"\n{table}')
    return path


def test_names_follow_from_the_project(tmp_path: Path) -> None:
    found = Settings.read(write(tmp_path, "", name="Webserver_Operator"))
    assert found.name == "webserver-operator"
    assert found.namespace == "webserver-operator-system"
    assert found.full_name("manager-role") == "webserver-operator-manager-role"
    assert found.package == "web"
    assert found.image == "webserver-operator:latest"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("replica = 2", 'tool.kubewright: unknown setting "replica"; did you mean "replicas"?'),
        ('zzz = ""', 'tool.kubewright: unknown setting "zzz"; known settings: affinity, annotations, args, '),
        ('name = "x"', 'tool.kubewright: unknown setting "name"; did you mean '),
        ('resources.limit.cpu = "1"', 'tool.kubewright.resources: unknown setting "limit"; did you mean "limits"?'),
        (
            'tolerations = [{key = "spot", operater = "Exists"}]',
            'tool.kubewright.tolerations[0]: unknown setting "operater"; did you mean "operator"?',
        ),
        (
            'env.PASSWORD.secretKeyref = {name = "db", key = "password"}',
            'tool.kubewright.env.PASSWORD: unknown setting "secretKeyref"; did you mean "secretKeyRef"?',
        ),
        ('replicas = "2"', "tool.kubewright.replicas: expected int, got str"),
        ("replicas = -1", "tool.kubewright.replicas: must not be negative, got -1"),
        (
            "replicas = 2\nleader-election = false",
            "tool.kubewright.replicas: 2 replicas need leader election; remove leader-election = false",
        ),
        ('watch-namespaces = "both"', "tool.kubewright.watch-namespaces: invalid enum value 'both'"),
        ('bundle.install-modes = ["Own"]', "bundle.install-modes[0]: invalid enum value 'Own'; known values: AllName"),
        ("watch-namespaces = []", 'watch-namespaces: the list is empty; name namespaces, or write "all" or "own"'),
        ('watch-namespaces = ["A"]', 'watch-namespaces: "A": a lowercase RFC 1123 label must'),
        ('metrics = "off"\nprometheus = true', "prometheus: metrics are off"),
        (
            'metrics = "http"\nmetrics-certificate = "cert"',
            'tool.kubewright.metrics-certificate: metrics = "http" does not use a certificate',
        ),
        ('webhook-certificate = "My_Secret"', 'tool.kubewright.webhook-certificate: "My_Secret": a lowercase'),
        ('webhook-ca-bundle = "x"', "webhook-ca-bundle: the program provides the certificate and its CA"),
        (
            'webhook-certificate = "mine"\nwebhook-ca-bundle = "x"',
            "webhook-ca-bundle: must be certificates in PEM, which begin with -----BEGIN CERTIFICATE-----",
        ),
        ('labels = {control-plane = "mine"}', 'labels."control-plane": the label is reserved'),
        ('labels = {team = "a b"}', 'labels."team": a valid label must be'),
        ('namespace = "a.b"', 'tool.kubewright.namespace: "a.b": must not contain dots'),
        ('name-prefix = "a-prefix-that-leaves-no-room-for-names-"', "must be no more than 63 characters"),
        (
            'kinds = "x.api"',
            "tool.kubewright.kinds: the kinds of a program with a Manager are found in its package api",
        ),
        ('image = "Bad Image"', 'tool.kubewright.image: image "Bad Image" is not a valid name'),
    ],
)
def test_a_mistake_is_reported_with_key_and_remedy(tmp_path: Path, table: str, said: str) -> None:
    path = write(tmp_path, table)
    with pytest.raises(ConfigError) as refused:
        Settings.read(path)
    assert said in str(refused.value)
    assert str(refused.value).startswith(f"{path}: tool.kubewright")


def test_an_error_shows_how_to_name_a_manager(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text('[project]\nname = "x"\n')
    with pytest.raises(ConfigError, match="names no manager; add manager ="):
        Settings.read(path)


def test_an_invalid_manager_reference_is_refused() -> None:
    with pytest.raises(ConfigError, match=r'"web/main\.py" must be like "package\.module:variable"'):
        Settings(name="web", manager="web/main.py")


def test_an_invalid_kinds_module_is_refused() -> None:
    with pytest.raises(ConfigError, match=r'kinds: "web/api" must be like "package\.module"'):
        Settings(name="web", kinds="web/api")


def test_a_namespace_with_other_pods_enforces_the_baseline_standard() -> None:
    assert Settings(name="web", manager="web").enforced_pod_security == "restricted"
    assert Settings(name="web", manager="web", watch_namespaces="own").enforced_pod_security == "baseline"
