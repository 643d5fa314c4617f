"""The table in docs/observability.md lists the metrics of a manager."""

from __future__ import annotations

import re

from docs.scraping import scraped
from docs.snippets import ROOT
from kubewright.testing import Cluster

OF_THE_PROCESS = ("process_", "python_")
SUFFIXES = ("_bucket", "_count", "_sum", "_created")


def rows() -> dict[str, set[str]]:
    """Return the metrics of the table, with their labels."""
    section = (ROOT / "docs/observability.md").read_text().split("\n## Metrics\n")[1].split("\n## ")[0]
    cells = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]
    return {name.strip(" `"): set(re.findall("`([^`]+)`", labels)) for name, labels in cells}


def family(name: str) -> str:
    for suffix in SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name


async def test_every_metric_is_in_the_table_with_its_labels(cluster: Cluster, namespace: str) -> None:
    shown: dict[str, set[str]] = {}
    for name, labels in (await scraped(cluster, namespace)).items():
        if not name.startswith(OF_THE_PROCESS):
            shown.setdefault(family(name), set()).update(labels - {"le"})
    assert rows() == shown
