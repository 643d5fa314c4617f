"""`[tool.kubewright]`: what it means, and what is said of a mistake in it."""

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


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("replica = 2", 'tool.kubewright: there is no setting "replica"; did you mean "replicas"?'),
        ('zzz = ""', 'tool.kubewright: there is no setting "zzz"; there are affinity, annotations, args, '),
        ('name = "x"', 'tool.kubewright: there is no setting "name"; did you mean '),
        ('resources.limit.cpu = "1"', 'tool.kubewright.resources: there is no setting "limit"; did you mean "limits"?'),
        (
            'tolerations = [{key = "spot", operater = "Exists"}]',
            'tool.kubewright.tolerations[0]: there is no setting "operater"; did you mean "operator"?',
        ),
        (
            'env.PASSWORD.secretKeyref = {name = "db", key = "password"}',
            'tool.kubewright.env.PASSWORD: there is no setting "secretKeyref"; did you mean "secretKeyRef"?',
        ),
        ('replicas = "2"', "tool.kubewright.replicas: expected int, got str"),
        ("replicas = -1", "tool.kubewright.replicas: -1 is fewer than none"),
        (
            "replicas = 2\nleader-election = false",
            "tool.kubewright.replicas: 2 of them would all work at once; leave out leader-election = false",
        ),
        ('watch-namespaces = "both"', "tool.kubewright.watch-namespaces: invalid enum value 'both'"),
        ("watch-namespaces = []", 'watch-namespaces: the list is empty; name some, or write "all" or "own"'),
        ('watch-namespaces = ["A"]', 'watch-namespaces: "A": a lowercase RFC 1123 label must'),
        ('metrics = "off"\nprometheus = true', "prometheus: there are no metrics to reach"),
        (
            'metrics = "http"\nmetrics-certificate = "cert"',
            'tool.kubewright.metrics-certificate: metrics = "http" has no use for one',
        ),
        ('labels = {control-plane = "mine"}', 'labels."control-plane": it is how the manager is found'),
        ('labels = {team = "a b"}', 'labels."team": a valid label must be'),
        ('namespace = "a.b"', 'tool.kubewright.namespace: "a.b": must not contain dots'),
        ('name-prefix = "a-prefix-that-leaves-no-room-for-names-"', "must be no more than 63 characters"),
        (
            'kinds = "x.api"',
            "tool.kubewright.kinds: those of a program with a Manager are found beside it; leave it out",
        ),
        ('image = "Bad Image"', 'tool.kubewright.image: image "Bad Image" is not a name'),
    ],
)
def test_a_mistake_is_told_with_its_key_and_the_way_out(tmp_path: Path, table: str, said: str) -> None:
    path = write(tmp_path, table)
    with pytest.raises(ConfigError) as refused:
        Settings.read(path)
    assert said in str(refused.value)
    assert str(refused.value).startswith(f"{path}: tool.kubewright")


def test_a_project_without_a_manager_is_told_what_to_write(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text('[project]\nname = "x"\n')
    with pytest.raises(ConfigError, match="names no manager; add manager ="):
        Settings.read(path)


def test_a_manager_that_is_no_reference_is_refused() -> None:
    with pytest.raises(ConfigError, match=r'"web/main\.py" is not like "package\.module:variable"'):
        Settings(name="web", manager="web/main.py")


def test_kinds_that_are_no_module_are_refused() -> None:
    with pytest.raises(ConfigError, match=r'kinds: "web/api" is not like "package\.module"'):
        Settings(name="web", kinds="web/api")


def test_pods_of_others_in_the_managers_namespace_keep_a_milder_standard() -> None:
    assert Settings(name="web", manager="web").enforced_pod_security == "restricted"
    assert Settings(name="web", manager="web", watch_namespaces="own").enforced_pod_security == "baseline"
