"""Validation of what webhook configurations and CustomResourceDefinitions have in common: address and versions.

Follows k8s.io/apiserver pkg/util/webhook/validation.go.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, invalid, required
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.registry import checks

REVIEW_VERSIONS: Final = ("v1", "v1beta1")
"""The versions of reviews that the server sends."""

_FORM: Final = "; desired format: https://host[/path]"


def review_version_errors(path: str, versions: list[str]) -> list[FieldError]:
    if not versions:
        return [required(path, f"must specify one of {', '.join(REVIEW_VERSIONS)}")]
    errors: list[FieldError] = []
    repeated = checks.repeated(versions)
    for index, version in enumerate(versions):
        if index in repeated:
            errors.append(invalid(f"{path}[{index}]", version, "duplicate version"))
        else:
            errors += checks.named(f"{path}[{index}]", version, names.dns1035_label)
    if not any(each in REVIEW_VERSIONS for each in versions):
        errors.append(invalid(path, versions, f"must include at least one of {', '.join(REVIEW_VERSIONS)}"))
    return errors


def client_config_errors(path: str, config: JSONObject) -> list[FieldError]:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    return _url_errors(f"{path}.url", url) if url is not None else _service_errors(f"{path}.service", service or {})


def _url_errors(path: str, url: str) -> list[FieldError]:
    why = _parse_error(url)
    if why:
        return [required(path, f'url must be a valid URL: parse "{url}": {why}{_FORM}')]
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    errors: list[FieldError] = []
    if parts.scheme != "https":
        errors.append(invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}"))
    if not host:
        errors.append(invalid(path, host, f"host must be specified{_FORM}"))
    if user:
        errors.append(invalid(path, user, "user information is not permitted in the URL"))
    if parts.fragment:
        errors.append(invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return errors


def _parse_error(url: str) -> str:
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


def _service_errors(path: str, service: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    if not service.get("namespace"):  # a real API server takes one for the other
        errors.append(required(f"{path}.name"))
    if not service.get("name"):
        errors.append(required(f"{path}.namespace"))
    port = service.get("port", 443)
    if wrong := names.port_number(port):
        errors.append(invalid(f"{path}.port", port, f"port is not valid: {', '.join(wrong)}"))
    return errors + _path_errors(f"{path}.path", service.get("path") or "")


def _path_errors(path: str, value: str) -> list[FieldError]:
    if value in ("", "/"):
        return []
    if value == "//":
        return [invalid(path, value, "segment[0] may not be empty")]
    errors = [] if value.startswith("/") else [invalid(path, value, "must start with a '/'")]
    for index, segment in enumerate(value[1:].removesuffix("/").split("/")):
        wrong = [f": {each}" for each in names.dns1123_subdomain(segment)] if segment else [" may not be empty"]
        errors += [invalid(path, value, f"segment[{index}]{each}") for each in wrong]
    return errors
