"""The values of a chart: their meaning comes from the schema, their defaults come from the settings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.resources import files as package_files
from typing import Any

from kubewright.machinery import yaml
from kubewright.machinery.json import JSONObject, is_array, is_object
from kubewright.models._values import plain
from kubewright_cli.manifests.manifests import Manifests
from kubewright_cli.manifests.workload import (
    HEALTH_PORT,
    METRICS_PORT,
    environment,
    image_parts,
    pod_security_context,
    security_context,
)


def schema_text(manifests: Manifests) -> str:
    """Return the content of values.schema.json, without the values that mean nothing for the program."""
    text, program = _schema_text(), manifests.program
    for key, has_any in (("webhook", program.webhooks), ("policy", program.manager.policies)):
        if not has_any:
            text = re.sub(rf' {{4}}"{key}": \{{\n.*?\n {{4}}\}},\n', "", text, flags=re.DOTALL)
    return text


def schema() -> JSONObject:
    """Return the JSON schema of all values, with descriptions."""
    found: JSONObject = json.loads(_schema_text())
    return found


def _schema_text() -> str:
    return (package_files("kubewright_cli.manifests.chart") / "values.schema.json").read_text()


def text(manifests: Manifests) -> str:
    """Return the content of values.yaml: the default values with their descriptions."""
    return "\n".join(_lines(defaults(manifests), schema(), 0)).lstrip("\n") + "\n"


def defaults(manifests: Manifests) -> JSONObject:
    """Return the default values, from the settings."""
    settings = manifests.settings
    name, tag, digest = image_parts(settings.image)
    own_environment = [each for each in environment(settings) if each["name"] in settings.env]
    return {
        "nameOverride": "",
        "fullnameOverride": "",
        "commonLabels": settings.labels,
        "commonAnnotations": settings.annotations,
        "manager": {
            "replicas": settings.replicas,
            "image": {
                "repository": name,
                "tag": tag,
                "digest": digest,
                "pullPolicy": settings.image_pull_policy or "",
            },
            "imagePullSecrets": [{"name": each} for each in settings.image_pull_secrets],
            "args": list(settings.args),
            "env": own_environment,
            "resources": plain(settings.resources),
            "pod": {"labels": settings.pod_labels, "annotations": settings.pod_annotations},
            "podSecurityContext": pod_security_context(),
            "securityContext": security_context(),
            "nodeSelector": settings.node_selector,
            "tolerations": [plain(each) for each in settings.tolerations],
            "affinity": plain(settings.affinity) if settings.affinity else {},
            "topologySpreadConstraints": [plain(each) for each in settings.topology_spread_constraints],
            "priorityClassName": settings.priority_class,
            "terminationGracePeriodSeconds": manifests.program.termination_grace_period,
            "healthProbe": {"port": HEALTH_PORT},
            "extraVolumes": [],
            "extraVolumeMounts": [],
        },
        "leaderElection": {"enabled": settings.leader_election},
        "watchNamespaces": _watched(manifests),
        "rbac": {"helpers": {"enabled": settings.rbac_helpers}},
        "serviceAccount": {"enabled": True, "name": "", "annotations": {}},
        "crd": {"enabled": True, "keep": True},
        "metrics": {
            "enabled": settings.metrics != "off",
            "secure": settings.metrics != "http",
            "port": METRICS_PORT,
            "certificateSecret": settings.metrics_certificate,
        },
        **({"webhook": _webhook(manifests)} if manifests.program.webhooks else {}),
        **({"policy": {"enabled": True}} if manifests.program.manager.policies else {}),
        "prometheus": {"enabled": settings.prometheus},
        "networkPolicy": {"enabled": settings.network_policy},
    }


def _webhook(manifests: Manifests) -> JSONObject:
    settings = manifests.settings
    return {
        "enabled": True,
        "port": manifests.program.webhook_port,
        "certificate": settings.webhook_certificate,
        "caBundle": settings.webhook_ca_bundle,
    }


def _watched(manifests: Manifests) -> str | list[str]:
    chosen = manifests.settings.watch_namespaces
    if chosen == "all" and manifests.program.namespaces:
        return list(manifests.program.namespaces)
    return chosen if isinstance(chosen, str) else list(chosen)


def _lines(values: JSONObject, known: JSONObject, depth: int) -> Iterator[str]:
    """YAML with a comment before each key, and an empty line before each top-level key."""
    indent = "  " * depth
    for key, value in values.items():
        about = known["properties"][key]
        if depth == 0:
            yield ""
        yield f"{indent}# {about['description']}"
        if "properties" in about:
            yield f"{indent}{key}:"
            yield from _lines(value, about, depth + 1)
        else:
            yield from (f"{indent}{line}" for line in _plain(key, value))


def _plain(key: str, value: Any) -> list[str]:
    if value == "" or (not value and (is_object(value) or is_array(value))):
        return [f"{key}: {json.dumps(value)}"]
    return yaml.dump({key: value}).splitlines()
