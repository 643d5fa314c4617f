"""Templates of the CRDs: in `templates/`, so that an upgrade updates them. By default an uninstall keeps them.

Source: https://helm.sh/docs/chart_best_practices/custom_resource_definitions/.
"""

from __future__ import annotations

from typing import Final

from kubewright.machinery import yaml
from kubewright.machinery.json import JSONObject
from kubewright_cli.manifests.chart.documents import escaped
from kubewright_cli.manifests.chart.webhooks import in_chart, with_ca
from kubewright_cli.manifests.generated import HEADER
from kubewright_cli.manifests.manifests import Manifests

_KEEP: Final = "    helm.sh/resource-policy: keep"
_INJECTED: Final = (
    '    {{- with include "chart.injectedCA" $ }}',
    "    {{- . | nindent 4 }}",
    "    {{- end }}",
)


def templates(manifests: Manifests) -> dict[str, str]:
    """Return the templates by path."""
    webhooks = in_chart(manifests)
    conversions = webhooks.conversions() if webhooks is not None else {}
    made = {crd["metadata"]["name"]: _template(crd, conversions.get(crd["metadata"]["name"])) for crd in manifests.crds}
    return {f"crd/{name}.yaml": text for name, text in made.items()}


def _template(crd: JSONObject, conversion: JSONObject | None) -> str:
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
        *_annotations(metadata.get("annotations") or {}, injected=conversion is not None),
        escaped(yaml.dump({"spec": crd["spec"]})).rstrip("\n"),
        *_conversion(conversion),
        "{{- end }}",
    ]
    return "\n".join(lines) + "\n"


def _conversion(conversion: JSONObject | None) -> list[str]:
    if conversion is None:
        return []
    return ["  " + line for line in with_ca(yaml.dump(conversion["spec"])).splitlines()]


def _annotations(own: JSONObject, *, injected: bool) -> list[str]:
    keep = ["    {{- if $.Values.crd.keep }}", _KEEP, "    {{- end }}"]
    if own or injected:
        return ["  annotations:", *_indented(own, 4), *keep, *(_INJECTED if injected else ())]
    return ["  {{- if $.Values.crd.keep }}", "  annotations:", _KEEP, "  {{- end }}"]


def _indented(content: JSONObject, by: int) -> list[str]:
    if not content:
        return []
    return [" " * by + line for line in escaped(yaml.dump(content)).splitlines()]
