"""Probes and lifecycle hooks of a container."""

from __future__ import annotations

from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, forbidden, invalid, not_supported, required
from kubewright.machinery.json import JSONArray, JSONObject
from kubewright_controlplane.apiserver.registry import checks

_PROBE_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "sleep")
_COUNTS: Final = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")


def validate_hooks(path: str, container: JSONObject, grace: int | None) -> list[FieldError]:
    """Return the errors of a container's lifecycle hooks and its three probes."""
    errors: list[FieldError] = []
    for hook in ("postStart", "preStop"):
        action = (container.get("lifecycle") or {}).get(hook)
        if action is not None:
            errors += _handler(f"{path}.lifecycle.{hook}", action, _HOOK_HANDLERS, grace)
    for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(kind)
        if probe is not None:
            errors += _probe(f"{path}.{kind}", kind, probe, grace)
    return errors


def _probe(path: str, kind: str, probe: JSONObject, grace: int | None) -> list[FieldError]:
    errors = _handler(path, probe, _PROBE_HANDLERS, grace)
    for count in _COUNTS:
        errors += checks.non_negative(f"{path}.{count}", probe.get(count))
    own_grace = probe.get("terminationGracePeriodSeconds")
    if own_grace is not None and own_grace <= 0:
        errors.append(invalid(f"{path}.terminationGracePeriodSeconds", own_grace, "must be greater than 0"))
    if kind == "readinessProbe":
        if own_grace is not None:
            detail = "must not be set for readinessProbes"
            errors.append(invalid(f"{path}.terminationGracePeriodSeconds", own_grace, detail))
    elif probe.get("successThreshold", 1) != 1:
        errors.append(invalid(f"{path}.successThreshold", probe["successThreshold"], "must be 1"))
    return errors


def _handler(path: str, action: JSONObject, kinds: tuple[str, ...], grace: int | None) -> list[FieldError]:
    given = [kind for kind in kinds if action.get(kind) is not None]
    if not given:
        return [required(path, "must specify a handler type")]
    first, *others = given
    errors = [forbidden(f"{path}.{kind}", "may not specify more than 1 handler type") for kind in others]
    at, handler = f"{path}.{first}", action[first]
    if first == "exec":
        if not handler.get("command"):
            errors.append(required(f"{at}.command"))
    elif first == "httpGet":
        errors += _http_get(at, handler)
    elif first == "sleep":
        seconds = handler.get("seconds") or 0
        if grace is not None and not 0 <= seconds <= grace:
            detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            errors.append(invalid(at, seconds, detail))
    else:
        errors += checks.port(f"{at}.port", handler.get("port"))
    return errors


def _http_get(path: str, action: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    if not action.get("path"):
        errors.append(required(f"{path}.path"))
    errors += checks.port(f"{path}.port", action.get("port"))
    if action.get("scheme") not in ("HTTP", "HTTPS"):
        errors.append(not_supported(f"{path}.scheme", action.get("scheme") or "", ("HTTP", "HTTPS")))
    headers: JSONArray = action.get("httpHeaders") or []
    for header in headers:
        errors += checks.named(f"{path}.httpHeaders", header.get("name") or "", names.http_header_name)
    return errors
