"""The dashboard uses the metrics of a manager."""

import json
import re
from pathlib import Path
from typing import Any

from docs.scraping import scraped
from kubewright.testing import Cluster

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana" / "kubewright.json"

_METRIC = re.compile(r"\b([a-z_]+)\{(?:job|namespace)=")
_LABELS = re.compile(r"by \(([a-z_, ]+)\)")
OF_PROMETHEUS = {"le", "pod", "job", "namespace"}
"""Labels that Prometheus adds, and the label of buckets."""


def panels() -> list[dict[str, Any]]:
    dashboard = json.loads(DASHBOARD.read_text())
    return [each for each in dashboard["panels"] if each["type"] != "row"]


def queries() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel["targets"]]


async def test_every_metric_and_label_of_the_dashboard_exists(cluster: Cluster, namespace: str) -> None:
    shown = await scraped(cluster, namespace)
    assert len(queries()) > 20
    for query in queries():
        names = _METRIC.findall(query)
        assert names, query
        for name in names:
            assert name in shown, f"{name} is queried and not measured: {query}"
            grouped = {each.strip() for group in _LABELS.findall(query) for each in group.split(",")}
            assert grouped - OF_PROMETHEUS <= shown[name], query


def test_each_panel_has_its_own_position_and_id() -> None:
    ids = [each["id"] for each in panels()]
    assert len(set(ids)) == len(ids)
    places = [(each["gridPos"]["x"], each["gridPos"]["y"]) for each in panels()]
    assert len(set(places)) == len(places)
    assert all(each["gridPos"]["x"] + each["gridPos"]["w"] <= 24 for each in panels())
