"""The errors of device claims, device classes and slices of devices. CEL selectors are not compiled.

Follows k8s.io/kubernetes pkg/apis/resource/validation.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, duplicate, invalid, not_supported, required, too_long
from kubewright.machinery.json import JSONArray, JSONObject, is_object
from kubewright_controlplane.apiserver.kinds.core import nodeselectors, resources, volumesources
from kubewright_controlplane.apiserver.registry import checks

_MODES: Final = ("All", "ExactCount")
_NOT_A_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
_ONE_KIND: Final = "exactly one of `exactly` or `firstAvailable` is required"
_ONE_PLACE: Final = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_LONGEST_IDENTIFIER: Final = 32
_LONGEST_ATTRIBUTE: Final = 64
_LONGEST_POOL: Final = 253


# Claims and classes


def claim_errors(path: str, spec: JSONObject) -> list[FieldError]:
    """Return the errors of the spec of a claim, in a ResourceClaim or a template."""
    devices, path = spec.get("devices") or {}, f"{path}.devices"
    requests: JSONArray = devices.get("requests") or []
    known = _request_names(requests)
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, request in enumerate(requests):
        at, name = f"{path}.requests[{index}]", request.get("name") or ""
        errors += _request_errors(at, request)
        if name in seen:
            errors.append(duplicate(at, name))
        seen.add(name)
    for index, constraint in enumerate(devices.get("constraints") or ()):
        errors += _constraint_errors(f"{path}.constraints[{index}]", constraint, known)
    for index, config in enumerate(devices.get("config") or ()):
        at = f"{path}.config[{index}]"
        errors += _reference_errors(f"{at}.requests", config.get("requests") or [], known)
        errors += _config_errors(at, config)
    return errors


def class_errors(spec: JSONObject) -> list[FieldError]:
    """Return the errors of the spec of a DeviceClass."""
    errors: list[FieldError] = []
    for index, config in enumerate(spec.get("config") or ()):
        errors += _config_errors(f"spec.config[{index}]", config)
    name, path = spec.get("extendedResourceName"), "spec.extendedResourceName"
    if name is not None and not resources.is_extended(name):
        errors.append(invalid(path, name, "must be a valid extended resource name"))
    return errors


def _request_names(requests: JSONArray) -> set[str]:
    found: set[str] = set()
    for request in requests:
        name = request.get("name") or ""
        found.add(name)
        found |= {f"{name}/{each.get('name') or ''}" for each in request.get("firstAvailable") or ()}
    return found


def _request_errors(path: str, request: JSONObject) -> list[FieldError]:
    errors = checks.named(f"{path}.name", request.get("name") or "", names.dns1123_label)
    exactly, several = request.get("exactly"), request.get("firstAvailable")
    if exactly is not None and several:
        return [*errors, invalid(path, None, f"{_ONE_KIND}, but multiple fields are set")]
    if exactly is not None:
        return errors + _device_errors(f"{path}.exactly", exactly)
    if not several:
        return [*errors, required(path, _ONE_KIND)]
    seen: set[str] = set()
    for index, each in enumerate(several):
        at, name = f"{path}.firstAvailable[{index}]", each.get("name") or ""
        errors += checks.named(f"{at}.name", name, names.dns1123_label)
        errors += _device_errors(at, each)
        if name in seen:
            errors.append(duplicate(at, name))
        seen.add(name)
    return errors


def _device_errors(path: str, request: JSONObject) -> list[FieldError]:
    """Return the errors of what is requested: a class of devices, and how many of them."""
    at, mode, count = f"{path}.count", request.get("allocationMode") or "", request.get("count") or 0
    errors = checks.required_name(f"{path}.deviceClassName", request.get("deviceClassName"), names.dns1123_subdomain)
    if mode == "All" and count:
        errors.append(invalid(at, count, "must not be specified when allocationMode is 'All'"))
    elif mode == "ExactCount" and count <= 0:
        errors.append(invalid(at, count, checks.NOT_POSITIVE))
    elif mode not in _MODES:
        errors.append(not_supported(f"{path}.allocationMode", mode, _MODES))
    return errors


def _constraint_errors(path: str, constraint: JSONObject, known: Collection[str]) -> list[FieldError]:
    errors = _reference_errors(f"{path}.requests", constraint.get("requests") or [], known)
    for field in ("matchAttribute", "distinctAttribute"):
        name = constraint.get(field)
        if name is not None:
            errors += _attribute_name_errors(f"{path}.{field}", name)
            why = "a fully qualified name must be a domain and a name separated by a slash"
            return errors if "/" in name else [*errors, invalid(f"{path}.{field}", name, why)]
    why = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
    return [*errors, required(path, why)]


def _reference_errors(path: str, references: list[str], known: Collection[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, name in enumerate(references):
        at, parts = f"{path}[{index}]", name.split("/")
        for part in parts if len(parts) < 3 else ():
            errors += checks.named(at, part, names.dns1123_label)
        if name not in known:
            errors.append(invalid(at, name, _NOT_A_REQUEST))
        if name in seen:
            errors.append(duplicate(at, name))
        seen.add(name)
    return errors


def _config_errors(path: str, config: JSONObject) -> list[FieldError]:
    opaque, at = config.get("opaque"), f"{path}.opaque.parameters"
    if opaque is None:
        return [required(f"{path}.opaque")]
    errors = volumesources.driver_errors(f"{path}.opaque.driver", opaque.get("driver") or "")
    parameters: object = opaque.get("parameters")
    if parameters is None:
        return [*errors, required(at)]
    return errors if is_object(parameters) else [*errors, invalid(at, "<value omitted>", "must be a valid JSON object")]


# Slices


def slice_errors(spec: JSONObject) -> list[FieldError]:
    """Return the errors of the spec of a ResourceSlice."""
    errors = volumesources.driver_errors("spec.driver", spec.get("driver") or "")
    errors += _pool_errors("spec.pool", spec.get("pool") or {}) + _place_errors(spec)
    seen: set[str] = set()
    devices: JSONArray = spec.get("devices") or []
    for index, device in enumerate(devices):
        at, name = f"spec.devices[{index}]", device.get("name") or ""
        errors += checks.named(f"{at}.name", name, names.dns1123_label)
        attributes: JSONObject = device.get("attributes") or {}
        for key, attribute in attributes.items():
            errors += _attribute_name_errors(f"{at}.attributes", key)
            errors += _attribute_errors(f"{at}.attributes[{key}]", attribute or {})
        if name in seen:
            errors.append(duplicate(at, name))
        seen.add(name)
    return errors


def slice_update_errors(spec: JSONObject, old: JSONObject) -> list[FieldError]:
    """Return the errors of the change of a ResourceSlice."""
    pools = ((each.get("pool") or {}).get("name") for each in (spec, old))
    errors = checks.immutable("spec.pool.name", *pools)
    for field in ("driver", "nodeName"):
        errors += checks.immutable(f"spec.{field}", spec.get(field), old.get(field))
    return errors


def _pool_errors(path: str, pool: JSONObject) -> list[FieldError]:
    name, count, generation = pool.get("name") or "", pool.get("resourceSliceCount") or 0, pool.get("generation") or 0
    errors = [] if name else [required(f"{path}.name")]
    if len(name.encode()) > _LONGEST_POOL:
        errors.append(too_long(f"{path}.name", _LONGEST_POOL))
    for part in name.split("/") if name else ():
        errors += [invalid(f"{path}.name", part, why) for why in names.dns1123_subdomain(part)]
    if count <= 0:
        errors.append(invalid(f"{path}.resourceSliceCount", count, checks.NOT_POSITIVE))
    if generation < 0:
        errors.append(invalid(f"{path}.generation", generation, "must be greater than or equal to zero"))
    return errors


def _place_errors(spec: JSONObject) -> list[FieldError]:
    """Return the errors of where the devices of a slice are."""
    given: list[str] = []
    errors: list[FieldError] = []
    node, selector = spec.get("nodeName"), spec.get("nodeSelector")
    if node:
        given.append("`nodeName`")
        errors += checks.named("spec.nodeName", node, names.dns1123_subdomain)
    elif node is not None:
        errors.append(invalid("spec.nodeName", node, "must be either unset or set to a non-empty string"))
    if selector is not None:
        given.append("`nodeSelector`")
        errors += nodeselectors.selector_errors("spec.nodeSelector", selector)
    for field in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(field):
            given.append(f"`{field}`")
        elif spec.get(field) is not None:
            errors.append(invalid(f"spec.{field}", False, "must be either unset or set to true"))
    if not given:
        errors.append(required("spec", _ONE_PLACE))
    elif len(given) > 1:
        errors.append(invalid("spec", f"{{{', '.join(given)}}}", f"{_ONE_PLACE}, but multiple fields are set"))
    return errors


def _attribute_name_errors(path: str, name: str) -> list[FieldError]:
    domain, slash, rest = name.rpartition("/")
    if "/" in domain:
        return []
    errors: list[FieldError] = []
    if slash:
        empty = invalid(path, "", "the domain must not be empty")
        errors += volumesources.driver_errors(path, domain) if domain else [empty]
        if not rest:
            return [*errors, invalid(path, "", "the name must not be empty")]
    if len(rest) > _LONGEST_IDENTIFIER:
        errors.append(too_long(path, _LONGEST_IDENTIFIER))
    return errors + checks.named(path, rest, names.c_identifier)


def _attribute_errors(path: str, attribute: JSONObject) -> list[FieldError]:
    given = [field for field, value in attribute.items() if value is not None]
    errors = [
        too_long(f"{path}.{field}", _LONGEST_ATTRIBUTE)
        for field in ("string", "version")
        if len((attribute.get(field) or "").encode()) > _LONGEST_ATTRIBUTE
    ]
    if len(given) == 1:
        return errors
    return [*errors, invalid(path, attribute if given else "", "exactly one value must be specified")]
