"""MutatingWebhookConfigurations and ValidatingWebhookConfigurations.

Follows k8s.io/kubernetes pkg/apis/admissionregistration/{v1,validation} and k8s.io/apiserver pkg/util/webhook.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, duplicate, invalid, not_supported, required
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.admissionregistration.criteria import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    REINVOCATION_POLICIES,
    condition_faults,
    rule_faults,
)
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Strategy

REVIEW_VERSIONS: Final = ("v1", "v1beta1")
"""The versions of AdmissionReview that the server sends."""

_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
_FORM: Final = "; desired format: https://host[/path]"
_RESERVED_SUFFIX: Final = ".static.k8s.io"


class ValidatingConfigurationStrategy(Strategy):
    """A configuration whose webhooks accept or reject writes."""

    allow_unconditional_update = False

    def default(self, obj: JSONObject) -> None:
        for webhook in obj.get("webhooks") or ():
            self._default(webhook)

    def _default(self, webhook: JSONObject) -> None:
        webhook.setdefault("failurePolicy", "Fail")
        webhook.setdefault("matchPolicy", "Equivalent")
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        webhook.setdefault("timeoutSeconds", 10)
        for rule in webhook.get("rules") or ():
            rule.setdefault("scope", "*")
        service = (webhook.get("clientConfig") or {}).get("service")
        if service is not None:
            service.setdefault("port", 443)

    def validate(self, obj: JSONObject) -> list[FieldError]:
        faults: list[FieldError] = []
        seen: set[str] = set()
        for index, webhook in enumerate(obj.get("webhooks") or ()):
            path, name = f"webhooks[{index}]", webhook.get("name") or ""
            faults += self._webhook_faults(path, webhook)
            faults += _version_faults(f"{path}.admissionReviewVersions", webhook.get("admissionReviewVersions") or [])
            if name and name in seen:
                faults.append(duplicate(f"{path}.name", name))
            seen.add(name)
        return faults

    def _webhook_faults(self, path: str, webhook: JSONObject) -> list[FieldError]:
        faults = _name_faults(f"{path}.name", webhook.get("name") or "")
        for index, rule in enumerate(webhook.get("rules") or ()):
            faults += rule_faults(f"{path}.rules[{index}]", rule)
        faults += checks.one_of(f"{path}.failurePolicy", webhook.get("failurePolicy"), FAILURE_POLICIES)
        faults += checks.one_of(f"{path}.matchPolicy", webhook.get("matchPolicy"), MATCH_POLICIES)
        faults += _side_effect_faults(f"{path}.sideEffects", webhook.get("sideEffects"))
        seconds = webhook.get("timeoutSeconds", 10)
        if not 1 <= seconds <= 30:
            why = "the timeout value must be between 1 and 30 seconds"
            faults.append(invalid(f"{path}.timeoutSeconds", seconds, why))
        for selector in ("namespaceSelector", "objectSelector"):
            faults += checks.label_selector(f"{path}.{selector}", webhook.get(selector))
        faults += self._own_faults(path, webhook)
        faults += _client_faults(f"{path}.clientConfig", webhook.get("clientConfig") or {})
        return faults + condition_faults(f"{path}.matchConditions", webhook.get("matchConditions") or ())

    def _own_faults(self, path: str, webhook: JSONObject) -> list[FieldError]:
        return []

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> list[str]:
        if not obj["metadata"]["name"].endswith(_RESERVED_SUFFIX):
            return []
        return [
            f'metadata.name: names ending with "{_RESERVED_SUFFIX}" are reserved for static manifest-based '
            "configurations and cannot be managed via the API"
        ]


class MutatingConfigurationStrategy(ValidatingConfigurationStrategy):
    """A configuration whose webhooks may also change the object."""

    def _default(self, webhook: JSONObject) -> None:
        super()._default(webhook)
        webhook.setdefault("reinvocationPolicy", "Never")

    def _own_faults(self, path: str, webhook: JSONObject) -> list[FieldError]:
        return checks.one_of(f"{path}.reinvocationPolicy", webhook.get("reinvocationPolicy"), REINVOCATION_POLICIES)


def _name_faults(path: str, name: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    if wrong := names.dns1123_subdomain(name):
        return [invalid(path, name, ",".join(wrong))]
    if name.count(".") < 2:
        return [invalid(path, name, "should be a domain with at least three segments separated by dots")]
    return []


def _side_effect_faults(path: str, value: str | None) -> list[FieldError]:
    if value is None:
        return [required(path, f"must specify one of {', '.join(_SIDE_EFFECTS)}")]
    return [] if value in _SIDE_EFFECTS else [not_supported(path, value, _SIDE_EFFECTS)]


def _version_faults(path: str, versions: list[str]) -> list[FieldError]:
    if not versions:
        return [required(path, f"must specify one of {', '.join(REVIEW_VERSIONS)}")]
    faults: list[FieldError] = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            faults.append(invalid(f"{path}[{index}]", version, "duplicate version"))
        else:
            faults += checks.named(f"{path}[{index}]", version, names.dns1035_label)
    if not any(each in REVIEW_VERSIONS for each in versions):
        faults.append(invalid(path, versions, f"must include at least one of {', '.join(REVIEW_VERSIONS)}"))
    return faults


def _client_faults(path: str, config: JSONObject) -> list[FieldError]:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    return _url_faults(f"{path}.url", url) if url is not None else _service_faults(f"{path}.service", service or {})


def _url_faults(path: str, url: str) -> list[FieldError]:
    why = _parse_fault(url)
    if why:
        return [required(path, f'url must be a valid URL: parse "{url}": {why}{_FORM}')]
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    faults: list[FieldError] = []
    if parts.scheme != "https":
        faults.append(invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}"))
    if not host:
        faults.append(invalid(path, host, f"host must be specified{_FORM}"))
    if user:
        faults.append(invalid(path, user, "user information is not permitted in the URL"))
    if parts.fragment:
        faults.append(invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        faults.append(invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return faults


def _parse_fault(url: str) -> str:
    """Return why Go's url.Parse rejects a URL; empty if it accepts it."""
    if any(ord(each) < 0x20 or ord(each) == 0x7F for each in url):
        return "net/url: invalid control character in URL"
    scheme, colon, rest = url.partition(":")
    if colon and not scheme:
        return "missing protocol scheme"
    if colon and "/" not in scheme and not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme):
        return "first path segment in URL cannot contain colon"
    host = rest[2:].split("/", 1)[0].split("?", 1)[0].split("#", 1)[0] if rest.startswith("//") else ""
    host = host.rpartition("@")[2]
    port = re.search(r":([^\]:]*)$", host)
    if port is not None and not re.fullmatch(r"\d*", port[1]):
        return f'invalid port ":{port[1]}" after host'
    if " " in host:
        return 'invalid character " " in host name'
    escape = re.search(r"%(?![0-9A-Fa-f]{2}).{0,2}", url)
    return f'invalid URL escape "{escape[0]}"' if escape is not None else ""


def _service_faults(path: str, service: JSONObject) -> list[FieldError]:
    faults: list[FieldError] = []
    if not service.get("namespace"):  # a real API server takes one for the other
        faults.append(required(f"{path}.name"))
    if not service.get("name"):
        faults.append(required(f"{path}.namespace"))
    port = service.get("port", 443)
    if wrong := names.port_number(port):
        faults.append(invalid(f"{path}.port", port, f"port is not valid: {', '.join(wrong)}"))
    return faults + _path_faults(f"{path}.path", service.get("path") or "")


def _path_faults(path: str, value: str) -> list[FieldError]:
    if value in ("", "/"):
        return []
    if value == "//":
        return [invalid(path, value, "segment[0] may not be empty")]
    faults = [] if value.startswith("/") else [invalid(path, value, "must start with a '/'")]
    for index, segment in enumerate(value[1:].removesuffix("/").split("/")):
        wrong = [f": {each}" for each in names.dns1123_subdomain(segment)] if segment else [" may not be empty"]
        faults += [invalid(path, value, f"segment[{index}]{each}") for each in wrong]
    return faults
