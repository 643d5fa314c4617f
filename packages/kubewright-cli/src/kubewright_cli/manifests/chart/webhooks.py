"""Templates of the objects by which an API server reaches the webhooks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kubewright.machinery.json import JSONObject
from kubewright_cli.manifests import rbac
from kubewright_cli.manifests.chart.documents import COMMON, NAMES, document, escaped, when
from kubewright_cli.manifests.generated import HEADER
from kubewright_cli.manifests.manifests import Manifests
from kubewright_cli.manifests.names import Names
from kubewright_cli.manifests.webhooks import WebhookDeployment

_PREFIX: Final = '{{ include "chart.webhookPrefix" $ }}'
_NAMES: Final = Names(f"{_PREFIX}%s", NAMES.namespace, NAMES.account)
_SELECTOR: Final = "chart.selectorLabels"

_ENABLED: Final = "$.Values.webhook.enabled"
_BY_CERT_MANAGER: Final = f'and {_ENABLED} (eq $.Values.webhook.certificate "cert-manager")'
_BY_MANAGER: Final = f"and {_ENABLED} (not $.Values.webhook.certificate)"
INJECTED: Final = f'merge (dict) (include "chart.injectedCA" $ | fromYaml) {COMMON}'
"""The annotations of objects that contain the CA."""


def in_chart(manifests: Manifests) -> WebhookDeployment | None:
    """Return the webhooks with the names of a release; None if there are none."""
    if not manifests.program.webhooks:
        return None
    return WebhookDeployment(manifests.program, _NAMES, _PREFIX, NAMES.namespace, {_SELECTOR: ""})


def templates(manifests: Manifests) -> dict[str, str]:
    """Return the templates by path."""
    webhooks = in_chart(manifests)
    if webhooks is None:
        return {}
    port = manifests.program.webhook_port
    return {f"{path}.yaml": f"{HEADER}\n{_of_release(text, port)}" for path, text in _templates(webhooks)}


def _templates(webhooks: WebhookDeployment) -> Iterator[tuple[str, str]]:
    configurations = webhooks.configurations()
    for webhook in (each for configuration in configurations for each in configuration["webhooks"]):
        for condition in webhook.get("matchConditions", ()):
            condition["expression"] = escaped(condition["expression"])
    if configurations:
        yield "webhook/manifests", when(_ENABLED, _joined(configurations, INJECTED))
    yield "webhook/service", when(_ENABLED, document(webhooks.service()))
    yield (
        "network-policy/allow-webhook-traffic",
        when(f"and $.Values.networkPolicy.enabled {_ENABLED}", document(webhooks.policy())),
    )
    yield "certmanager/issuer", when(_BY_CERT_MANAGER, document(webhooks.issuer()))
    yield "certmanager/certificate-webhook", when(_BY_CERT_MANAGER, document(webhooks.certificate()))
    if roles := webhooks.roles():
        yield "rbac/webhook_certificate_role", when(_BY_MANAGER, _joined(roles))
        bindings = [rbac.binding(each, _NAMES) for each in roles]
        yield "rbac/webhook_certificate_role_binding", when(_BY_MANAGER, _joined(bindings))


def _joined(documents: list[JSONObject], annotations: str = COMMON) -> str:
    return "\n---\n".join(document(each, annotations) for each in documents)


def _of_release(text: str, port: int) -> str:
    """Return a template with the values of the release: its CA, its labels, and its port instead of `port`."""
    text = re.sub(rf'^( *){re.escape(_SELECTOR)}: ""$', _with_labels, with_ca(text), flags=re.MULTILINE)
    return re.sub(rf"(targetPort|- port): {port}$", r"\1: {{ $.Values.webhook.port }}", text, flags=re.MULTILINE)


def with_ca(text: str) -> str:
    """Return a template with the CA of the release."""
    return re.sub(r"^( *)clientConfig:$", _with_ca, text, flags=re.MULTILINE)


def _with_ca(found: re.Match[str]) -> str:
    indent = f"{found[1]}  "
    value = [f"{indent}{{{{- with $.Values.webhook.caBundle }}}}", f"{indent}caBundle: {{{{ b64enc . }}}}"]
    return "\n".join([found[0], *value, f"{indent}{{{{- end }}}}"])


def _with_labels(found: re.Match[str]) -> str:
    return f'{found[1]}{{{{- include "{_SELECTOR}" $ | nindent {len(found[1])} }}}}'
