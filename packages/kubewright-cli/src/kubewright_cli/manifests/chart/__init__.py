"""`dist/chart`: the deployment as a Helm chart.

values     the default values, from settings, and values.yaml        version    a version of a project as SemVer
rbac, crds, webhooks, policies   templates from documents            templates/ templates shared by every chart

With default values, a release with the project's name in the settings' namespace has the objects of
`dist/install.yaml` except the Namespace, plus labels of the release. The templates are valid as they
are. In a chart, the names of their helpers begin with the chart's name instead of `chart`, because a chart and its
dependencies share one name space. What lies between `if webhooks` and `end` in a comment is for programs with webhooks,
and so on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files as package_files
from typing import Final

from kubewright.machinery import yaml
from kubewright.webhooks import ManagedCertificate
from kubewright_cli.manifests.chart import crds, policies, rbac, values, webhooks
from kubewright_cli.manifests.chart.version import semantic
from kubewright_cli.manifests.generated import HEADER
from kubewright_cli.manifests.manifests import Manifests
from kubewright_cli.manifests.settings import Settings

_STATIC: Final = {
    "_helpers.tpl": "_helpers.tpl",
    "NOTES.txt": "NOTES.txt",
    "manager.yaml": "manager/manager.yaml",
    "service_account.yaml": "rbac/service_account.yaml",
    "metrics_service.yaml": "metrics/metrics_service.yaml",
    "monitor.yaml": "prometheus/monitor.yaml",
    "allow-metrics-traffic.yaml": "network-policy/allow-metrics-traffic.yaml",
}
"""Templates that every chart has, and their paths."""

_PART: Final = re.compile(r"[ ]*\{\{- /\* if ([a-z ]+) \*/\}\}\n((?:(?!.*/\* if ).*\n)*?)[ ]*\{\{- /\* end \*/\}\}\n")
"""A part of a template, without parts in it: what it is for, and its text."""

_IGNORED: Final = (".git", ".gitignore", ".DS_Store", "*.swp", "*.bak", "*.orig", "*~", ".idea/", ".vscode/", "*.tgz")


def files(manifests: Manifests) -> dict[str, str]:
    """Return the files of `dist/chart`: text by path. Raises ConfigError for an invalid version."""
    settings = manifests.settings
    chart = {
        "Chart.yaml": f"{HEADER}\n{_chart(settings)}",
        "values.yaml": f"{HEADER}\n{values.text(manifests)}",
        "values.schema.json": values.schema_text(manifests),
        ".helmignore": "\n".join((HEADER, *_IGNORED, "")),
    }
    templates = dict(_templates(manifests))
    return {f"dist/chart/{path}": text for path, text in (chart | templates).items()}


def _templates(manifests: Manifests) -> Iterator[tuple[str, str]]:
    folder = package_files(__name__) / "templates"
    made = {
        path: text for module in (rbac, crds, webhooks, policies) for path, text in module.templates(manifests).items()
    }
    static = {path: (folder / name).read_text() for name, path in _STATIC.items()}
    for path, text in (static | made).items():
        text = _for_program(text, manifests)
        yield f"templates/{path}", re.sub(r'"chart\.', f'"{manifests.settings.name}.', text)


def _for_program(text: str, manifests: Manifests) -> str:
    """Return a template without the parts that are for other programs."""
    found, source = manifests.webhooks, manifests.certificate_source
    converted = found.objects.definitions if found is not None else ()
    declared = manifests.program.manager.options.webhook_certificate
    facts = {
        "webhooks": found is not None,
        "conversions": bool(converted),
        "managed": isinstance(declared, ManagedCertificate),
        "no certificate": source is not None and declared is None,
    }

    def chosen(part: re.Match[str]) -> str:
        return part[2] if facts[part[1]] else ""

    for _ in range(2):  # parts may be in parts
        text = _PART.sub(chosen, text)
    return text.replace("CONVERTED", " ".join(converted))


def _chart(settings: Settings) -> str:
    version = semantic(settings.version)
    return yaml.dump(
        {
            "apiVersion": "v2",
            "name": settings.name,
            "description": settings.description or f"The operator {settings.name} and its CRDs.",
            "type": "application",
            "version": version,
            "appVersion": settings.version,
            "keywords": ["kubernetes", "operator"],
        }
    )
