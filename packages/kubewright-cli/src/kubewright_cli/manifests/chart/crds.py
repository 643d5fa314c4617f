"""Templates of the CRDs: in `templates/`, so that an upgrade updates them. By default an uninstall keeps them.

Source: https://helm.sh/docs/chart_best_practices/custom_resource_definitions/.
"""

from __future__ import annotations

from kubewright.machinery import yaml
from kubewright.machinery.json import JSONObject
from kubewright_cli.manifests.generated import HEADER
from kubewright_cli.manifests.manifests import Manifests


def templates(manifests: Manifests) -> dict[str, str]:
    """Return the templates by path."""
    return {f"crd/{crd['metadata']['name']}.yaml": _template(crd) for crd in manifests.crds}


def _template(crd: JSONObject) -> str:
    metadata = crd["metadata"]
    labels = {"labels": metadata["labels"]} if "labels" in metadata else {}
    lines = [
        HEADER,
        "{{- if $.Values.crd.enabled }}",
        f"apiVersion: {crd['apiVersion']}",
        f"kind: {crd['kind']}",
        "metadata:",
        f"  name: {metadata['name']}",
        *_indented(labels, 2),
        *_annotations(metadata.get("annotations") or {}),
        _escaped(yaml.dump({"spec": crd["spec"]})).rstrip("\n"),
        "{{- end }}",
    ]
    return "\n".join(lines) + "\n"


def _annotations(own: JSONObject) -> list[str]:
    keep = "    helm.sh/resource-policy: keep"
    if own:
        return ["  annotations:", *_indented(own, 4), "    {{- if $.Values.crd.keep }}", keep, "    {{- end }}"]
    return ["  {{- if $.Values.crd.keep }}", "  annotations:", keep, "  {{- end }}"]


def _indented(content: JSONObject, by: int) -> list[str]:
    if not content:
        return []
    return [" " * by + line for line in _escaped(yaml.dump(content)).splitlines()]


def _escaped(text: str) -> str:
    """Escape braces that Helm would interpret."""
    return text.replace("{{", '{{ "{{" }}')
