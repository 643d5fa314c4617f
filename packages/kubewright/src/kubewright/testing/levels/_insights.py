"""Level IV: metrics, alert rules, dashboards and Events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject, is_array, is_object
from kubewright.testing.levels._documents import at
from kubewright.testing.levels._lab import Lab, NotApplicable, NotShown, counted, name_of
from kubewright.testing.levels._promql import PromQLError, metrics_in
from kubewright.testing.levels._recorder import Version

_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_SAMPLE: Final = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL: Final = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
_OTHERS: Final = re.compile(r"(up|ALERTS|ALERTS_FOR_STATE|(kube|container|node|kubelet|apiserver|prometheus)_\w+)$")
"""Metrics of Prometheus itself, kube-state-metrics, the nodes and the API server."""
_SEVERITIES: Final = ("critical", "warning", "info")
_VARIABLE: Final = re.compile(r"\$\{?\w+(?::\w+)?\}?")
"""A variable of Grafana."""
_RANGE_VARIABLE: Final = re.compile(r"\[\s*\$\{?\w+(?::\w+)?\}?\s*(:|\])")


@dataclass(frozen=True, slots=True)
class _Sample:
    name: str
    labels: dict[str, str]
    value: str


@dataclass(frozen=True, slots=True)
class _Metrics:
    """What an endpoint serves."""

    helps: dict[str, str]
    types: dict[str, str]
    samples: tuple[_Sample, ...]

    @property
    def names(self) -> set[str]:
        """All names by which expressions can refer to these metrics."""
        found = {each.name for each in self.samples} | self.types.keys()
        for name, kind in self.types.items():
            found |= {f"{name}{suffix}" for suffix in ("_bucket", "_sum", "_count") if kind in ("histogram", "summary")}
        return found


def _parsed(text: str) -> _Metrics:
    helps: dict[str, str] = {}
    types: dict[str, str] = {}
    samples: list[_Sample] = []
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, _, help_text = line.removeprefix("# HELP ").partition(" ")
            helps[name] = help_text
        elif line.startswith("# TYPE "):
            name, _, kind = line.removeprefix("# TYPE ").partition(" ")
            types[name] = kind.strip()
        elif line.strip() and not line.startswith("#"):
            matched = _SAMPLE.match(line)
            assert matched, f"a line of the metrics is not valid: {line}"
            samples.append(_Sample(matched[1], dict(_LABEL.findall(matched[2] or "")), matched[3]))
    return _Metrics(helps, types, tuple(samples))


async def _scraped(lab: Lab) -> _Metrics:
    try:
        text = await lab.metrics()
    except OSError as error:
        raise AssertionError(f"the metrics cannot be read: {error}") from error
    if text is None:
        raise NotShown("The operator serves no metrics.")
    return _parsed(text)


async def metrics(lab: Lab) -> str:
    """Read the operator's metrics: each has a help text and a type, and counters are named as such."""
    found = await _scraped(lab)
    assert found.samples, "the endpoint of the metrics serves none"
    for name, kind in found.types.items():
        assert found.helps.get(name), f"the metric {name} has no help text"
        assert kind != "counter" or name.endswith("_total"), f"the counter {name} does not end in _total"
    untyped = sorted(each.name for each in found.samples if _family(each.name, found.types) is None)
    assert not untyped, f"the metric {untyped[0]} has no type and no help text"
    lab.saw(f"{len(found.types)} metrics: {', '.join(sorted(found.types)[:8])}, ...")
    return f"The operator serves {len(found.types)} metrics, each with a type and a help text."


def _family(name: str, types: dict[str, str]) -> str | None:
    candidates = (name, *(name.removesuffix(suffix) for suffix in ("_bucket", "_sum", "_count", "_total", "_created")))
    return next((each for each in candidates if each in types), None)


async def object_metrics(lab: Lab) -> str:
    """Read the health metric of a sample, break a member, and read it again."""
    name = lab.declaration.health_metric
    if not name:
        raise NotShown("No metric is declared that tells the health of each object.")
    await lab.settle()
    for sample in lab.samples:
        value = await _health_of(lab, name, sample.metadata.name)
        lab.saw(f"{name} is {value:g}", name_of(sample))
        assert value == 1, f"{name} of {name_of(sample)} is {value:g}, although the object is ready; 1 is expected"
    victim = _victim(lab)
    async with lab.pods_on_hold():
        await lab.delete(victim)

        async def check() -> None:
            values = {each.metadata.name: await _health_of(lab, name, each.metadata.name) for each in lab.samples}
            assert 0 in values.values(), f"{name} is still 1 for every object, although {victim.name} is missing"

        await lab.until(check)
        lab.saw(f"{name} is 0 without the Pod", victim.name)
    await lab.until_ready()
    return f"{name} tells for each object whether it is healthy."


def _victim(lab: Lab) -> Version:
    pods = [each for each in lab.pods() if at(each.document, "status.phase") == "Running"]
    if not pods:
        raise NotShown("The operator runs no Pods, so no health can be changed.")
    return pods[-1]


async def _health_of(lab: Lab, metric: str, name: str) -> float:
    found = await _scraped(lab)
    values = [
        float(each.value)
        for each in found.samples
        if each.name == metric and name in each.labels.values() and _of_namespace(each, lab.namespace)
    ]
    assert values, f'no sample of {metric} has a label with the value "{name}"'
    return min(values)


def _of_namespace(sample: _Sample, namespace: str) -> bool:
    return sample.labels.get("namespace", namespace) == namespace


async def operand_metrics(lab: Lab) -> str:
    """Read the metrics of an operand."""
    if not lab.pods():
        raise NotApplicable("The operator runs no Pods of its own.")
    reading = lab.declaration.operand_metrics
    if reading is None:
        raise NotShown("No way to read the metrics of an operand is declared.")
    found = _parsed(await reading(lab))
    assert found.samples, "the operand serves no metrics"
    lab.saw(f"{len(found.names)} metrics: {', '.join(sorted(found.names)[:8])}")
    return f"The operand serves {len(found.names)} metrics."


async def _known_metrics(lab: Lab) -> set[str]:
    known = (await _scraped(lab)).names
    if lab.declaration.operand_metrics is not None and lab.pods():
        known |= _parsed(await lab.declaration.operand_metrics(lab)).names
    return known


# ---- alerts and dashboards


async def alerts(lab: Lab) -> str:
    """Each alert rule has a severity and a runbook, and its expression refers to metrics that exist."""
    groups = [
        group
        for document in (*lab.operator.documents, *(each.document for each in lab.recorder.now("PrometheusRule")))
        if document.get("kind") == "PrometheusRule"
        for group in document["spec"].get("groups") or []
    ]
    rules = [each for group in groups for each in group.get("rules") or []]
    own = [each for each in rules if each.get("alert")]
    if not own:
        raise NotShown("There are no alert rules, neither in the bundle nor in the namespace.")
    known = await _known_metrics(lab) | {str(each["record"]) for each in rules if each.get("record")}
    for each in own:
        _check_alert(lab, each, known)
    critical = [each for each in own if (each.get("labels") or {}).get("severity") == "critical"]
    assert critical, "no alert is critical; an alert that the operand is down has to be"
    return f"A severity, a runbook and metrics that exist: {counted(len(own), 'alert')}."


def _check_alert(lab: Lab, rule: JSONObject, known: set[str]) -> None:
    name = rule["alert"]
    severity = (rule.get("labels") or {}).get("severity")
    assert severity in _SEVERITIES, f"the alert {name} has the severity {severity}; it must be one of {_SEVERITIES}"
    annotations = rule.get("annotations") or {}
    runbook = annotations.get("runbook_url")
    assert runbook, f"the alert {name} has no annotation runbook_url"
    _check_runbook(lab, name, str(runbook))
    assert annotations.get("summary") or annotations.get("description"), f"the alert {name} has no summary"
    used = _check_expression(str(rule.get("expr", "")), known, f"the alert {name}")
    lab.saw(f"{severity}, runbook {runbook}, metrics {', '.join(sorted(used))}", f"Alert/{name}")


def _check_runbook(lab: Lab, alert: str, runbook: str) -> None:
    """Check that a runbook is a URL, or a file of the project with the anchor."""
    if re.match(r"https?://[^/\s]+", runbook):
        return
    path, _, anchor = runbook.partition("#")
    folder = lab.operator.folder
    file = folder / path if folder is not None else Path(path)
    assert file.is_file(), f"the runbook {runbook} of the alert {alert} is neither a URL nor a file of the project"
    titles = re.findall(r"^#+\s+(.*)$", file.read_text(), re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", each).strip().lower().replace(" ", "-") for each in titles}
    assert not anchor or anchor.lower() in slugs, f"the runbook {path} of the alert {alert} has no section #{anchor}"


def _check_expression(expression: str, known: Iterable[str], where: str) -> frozenset[str]:
    try:
        used = metrics_in(expression)
    except PromQLError as error:
        raise AssertionError(f"the expression of {where} does not parse: {error}") from error
    unknown = sorted(each for each in used if each not in known and not _OTHERS.match(each))
    assert not unknown, f"{where} refers to the metric {unknown[0]}, which neither the operator nor the operand serves"
    assert used, f"the expression of {where} refers to no metric"
    return used


async def dashboard(lab: Lab) -> str:
    """Each query of each dashboard parses, and refers to metrics that exist."""
    found = list(_dashboards(lab))
    if not found:
        raise NotShown("There is no dashboard, neither declared nor in a ConfigMap with the label grafana_dashboard.")
    known = await _known_metrics(lab)
    for name, document in found:
        queries = list(_queries(document))
        assert queries, f"the dashboard {name} has no query"
        for query in queries:
            filled = _VARIABLE.sub("x", _RANGE_VARIABLE.sub(r"[5m\1", query))
            lab.saw(f"queries {', '.join(sorted(_check_expression(filled, known, name)))}", name)
    return f"All queries of {counted(len(found), 'dashboard')} refer to metrics that exist."


def _dashboards(lab: Lab) -> Iterator[tuple[str, JSONObject]]:
    folder = lab.operator.folder or Path()
    for pattern in lab.declaration.dashboards:
        files = sorted(folder.glob(pattern))
        if not files:
            raise ConfigError(f'the declaration names the dashboards "{pattern}", but {folder} has no such file')
        for file in files:
            yield file.name, json.loads(file.read_text())
    documents = (*lab.operator.documents, *(each.document for each in lab.recorder.now("ConfigMap")))
    for document in documents:
        if document.get("kind") == "ConfigMap" and "grafana_dashboard" in (document["metadata"].get("labels") or {}):
            for key, text in (document.get("data") or {}).items():
                yield key, json.loads(text)


def _queries(value: object) -> Iterator[str]:
    if is_object(value):
        if isinstance(value.get("expr"), str):
            yield value["expr"]
        for each in value.values():
            yield from _queries(each)
    elif is_array(value):
        for each in value:
            yield from _queries(each)


async def events(lab: Lab) -> str:
    """Each sample with managed objects has an Event that the operator recorded."""
    await lab.settle()
    recorded = [each for versions in lab.recorder.all_objects() for each in versions[:1] if each.kind == "Event"]
    for sample in lab.samples:
        own = [each.document for each in recorded if at(each.document, "regarding.uid") == sample.metadata.uid]
        own = [each for each in own if each.get("reason") not in ("ReconcileFailed", "ReconcileSucceeded")]
        assert own, f"no Event was recorded for {name_of(sample)}"
        lab.saw(f"{own[0].get('type')} {own[0].get('reason')}: {own[0].get('note')}", name_of(sample))
    return "The operator records Events of its changes."
