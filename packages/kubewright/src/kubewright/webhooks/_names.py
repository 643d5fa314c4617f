"""The names and paths of webhooks, as kubebuilder writes them, and the rules for names and paths of your own."""

from __future__ import annotations

import re
from typing import Final

from kubewright.machinery.names import dns1123_subdomain
from kubewright.models import APIResource

CONVERT_PATH: Final = "/convert"
"""Where all conversions are served."""
CONVERSION_BEFORE_LOCAL_RUN: Final = "kubewright.dev/conversion-before-local-run"
"""The annotation of a CRD that a local run has taken over: its `spec.conversion` before the first such run."""

SERVICE: Final = "webhook-service"
CERTIFICATE_SECRET: Final = "webhook-server-cert"
MUTATING_CONFIGURATION: Final = "mutating-webhook-configuration"
VALIDATING_CONFIGURATION: Final = "validating-webhook-configuration"

_PATH: Final = re.compile(r"(/[a-z0-9]([-a-z0-9.]*[a-z0-9])?)+")
"""Each part is a DNS subdomain. Source: ValidateWebhookService in k8s.io/apiserver/pkg/util/webhook."""
_DOMAIN: Final = "kb.io"


def default_path(api: APIResource, subresource: str, *, mutating: bool) -> str:
    """Return kubebuilder's path: `/mutate-my-domain-v1-webserver`, `/validate--v1-pod`, `/validate--v1-pod-exec`."""
    verb = "mutate" if mutating else "validate"
    tail = f"-{subresource}" if subresource else ""
    return f"/{verb}-{api.group.replace('.', '-')}-{api.version}-{api.kind.lower()}{tail}"


def default_name(api: APIResource, subresource: str, *, mutating: bool) -> str:
    """Return kubebuilder's name: `mwebserver-v1.kb.io`, `vpod-exec-v1.kb.io`."""
    tail = f"-{subresource}" if subresource else ""
    return f"{'m' if mutating else 'v'}{api.kind.lower()}{tail}-{api.version}.{_DOMAIN}"


def path_error(path: str) -> str:
    """Return what is wrong with the path of an admission webhook; "" if nothing."""
    if path == CONVERT_PATH:
        return f"{CONVERT_PATH} is the path of conversions; choose another one"
    if not _PATH.fullmatch(path):
        return 'a path is made of parts like "/validate-pods": each "/", then lower-case letters, digits, "-" and "."'
    return ""


def name_error(name: str) -> str:
    """Return what is wrong with the name of a webhook; "" if nothing.

    Source: IsFullyQualifiedName in k8s.io/apimachinery/pkg/util/validation.
    """
    if dns1123_subdomain(name) or name.count(".") < 2:
        return "a webhook's name is a domain of at least three parts, in lower case, like vwebserver.shop.example.com"
    return ""
