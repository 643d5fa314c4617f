"""Templates from documents: the content comes from the program, names and conditions from Helm values."""

from __future__ import annotations

from typing import Final

from kubewright.machinery import yaml
from kubewright.machinery.json import JSONObject
from kubewright_cli.manifests.names import Names

NAMES: Final = Names(
    pattern='{{ include "chart.resourceName" (dict "suffix" "%s" "context" $) }}',
    namespace="{{ $.Release.Namespace }}",
    account='{{ include "chart.serviceAccountName" $ }}',
)
COMMON: Final = "$.Values.commonAnnotations"
"""The annotations of every object."""


def escaped(text: str) -> str:
    """Return a text with braces that Helm would interpret."""
    return text.replace("{{", "{{ `{{` }}")


def when(condition: str, text: str) -> str:
    """Return a template of `text`, or of nothing unless the condition holds."""
    return f"{{{{- if {condition} }}}}\n{text}\n{{{{- end }}}}\n"


def document(content: JSONObject, annotations: str = COMMON) -> str:
    """Return the template of a document, with the labels of the release and `annotations`, a Helm expression."""
    metadata = content["metadata"]
    lines = [
        f"apiVersion: {content['apiVersion']}",
        f"kind: {content['kind']}",
        "metadata:",
        f"  name: {metadata['name']}",
        "  labels:",
        '    {{- include "chart.labels" $ | nindent 4 }}',
        *(f"    {key}: {value}" for key, value in metadata.get("labels", {}).items()),
        f"  {{{{- with {annotations} }}}}",
        "  annotations:",
        "    {{- toYaml . | nindent 4 }}",
        "  {{- end }}",
    ]
    if "namespace" in metadata:
        lines.append(f"  namespace: '{metadata['namespace']}'")
    rest = {key: value for key, value in content.items() if key not in ("apiVersion", "kind", "metadata")}
    return "\n".join([*lines, yaml.dump(rest).rstrip("\n")])
