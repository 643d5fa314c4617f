"""Alerts, runbooks and dashboard name metrics that exist, and each alert has a runbook."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from kubewright import Manager
from kubewright.machinery import yaml
from kubewright.testing import eventually
from prometheus_client import generate_latest

from clusters import Clusters
from etcd_operator.main import manager

FOLDER = Path(__file__).parents[1] / "monitoring"
ALERTS = yaml.load((FOLDER / "alerts.yaml").read_text())["spec"]["groups"][0]["rules"]


KUBECTL = shutil.which("kubectl")
PUBLISHED = "https://runbooks.team.example/etcd"


def names_in(expression: str) -> set[str]:
    return set(re.findall(r"\betcd_operator_\w+", expression))


def test_alerts_and_dashboard_use_metrics_that_exist() -> None:
    served = {
        sample
        for family in manager.metrics.registry.collect()
        if family.name.startswith("etcd_operator_")
        for sample in (family.name, f"{family.name}_total")
    }
    panels = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
    shown = {name for panel in panels for target in panel["targets"] for name in names_in(target["expr"])}
    alerted = {name for rule in ALERTS for name in names_in(rule["expr"])}
    assert alerted <= served
    assert shown <= served


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_each_alert_has_a_severity_and_a_runbook(rule: dict[str, dict[str, str] | str]) -> None:
    labels, annotations = rule["labels"], rule["annotations"]
    assert isinstance(labels, dict)
    assert isinstance(annotations, dict)
    assert labels["severity"] in ("critical", "warning")
    path, _, heading = annotations["runbook_url"].partition("#")
    assert heading == str(rule["alert"]).lower()
    assert f"## {rule['alert']}\n" in (FOLDER.parent / path).read_text()


def test_the_address_of_the_runbooks_is_one_setting(tmp_path: Path) -> None:
    if KUBECTL is None:
        pytest.skip("needs kubectl")
    copy = shutil.copytree(FOLDER, tmp_path / "monitoring")
    settings = copy / "kustomization.yaml"
    settings.write_text(settings.read_text().replace("runbooks=monitoring/runbooks.md", f"runbooks={PUBLISHED}"))
    built = subprocess.run((KUBECTL, "kustomize", copy), check=True, capture_output=True, text=True, timeout=60).stdout
    [rules] = list(yaml.load_all(built))
    urls = [rule["annotations"]["runbook_url"] for rule in rules["spec"]["groups"][0]["rules"]]
    assert urls == [f"{PUBLISHED}#{str(rule['alert']).lower()}" for rule in ALERTS]


@pytest.mark.timeout(300)
async def test_metrics_show_a_cluster_until_it_is_deleted(clusters: Clusters, operator: Manager) -> None:
    cluster = await clusters.create(size=1)
    await clusters.settles(1)
    labels = f'cluster="main",namespace="{clusters.namespace}"'

    def shown() -> str:
        return generate_latest(manager.metrics.registry).decode()

    assert f"etcd_operator_quorum{{{labels}}} 1.0" in shown()
    assert f"etcd_operator_members_ready{{{labels}}} 1.0" in shown()
    await clusters.client.delete(cluster)

    def forgotten() -> None:
        assert f"etcd_operator_quorum{{{labels}}}" not in shown()

    await eventually(forgotten)
