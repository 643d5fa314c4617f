"""Containers, init containers and ephemeral containers of a Pod: defaults and validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, duplicate, forbidden, invalid, not_found, not_supported, required
from kubewright.machinery.json import JSONArray, JSONObject
from kubewright_controlplane.apiserver.kinds.core import resources, securitycontexts
from kubewright_controlplane.apiserver.kinds.core.environment import validate as validate_environment
from kubewright_controlplane.apiserver.kinds.core.images import pull_policy
from kubewright_controlplane.apiserver.kinds.core.probes import validate_hooks
from kubewright_controlplane.apiserver.kinds.core.volumesources import descending_path
from kubewright_controlplane.apiserver.registry import checks

Volumes = Mapping[str, JSONObject]

_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_TERMINATION_POLICIES: Final = ("File", "FallbackToLogsOnError")
_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE: Final = ("Disabled", "Enabled", "IfPossible")
_EPHEMERAL_FIELDS: Final = frozenset(
    {
        "name", "image", "command", "args", "workingDir", "envFrom", "env", "volumeMounts", "volumeDevices",
        "terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy", "securityContext", "stdin",
        "stdinOnce", "tty", "targetContainerName",
    }
)  # fmt: skip
_HOOKS: Final = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")


def default(container: JSONObject) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(container.get("image") or "")
    container.setdefault("resources", {})


def validate_all(path: str, spec: JSONObject, volumes: Volumes) -> list[FieldError]:
    """Return the errors of a PodSpec's containers, init containers and ephemeral containers."""
    regular = spec.get("containers") or []
    errors = _regular(f"{path}.containers", regular, spec, volumes) if regular else [required(f"{path}.containers")]
    errors += _init(f"{path}.initContainers", spec, volumes)
    errors += _ephemeral(f"{path}.ephemeralContainers", spec, volumes)
    return errors


def image_whitespace(path: str, containers: list[JSONObject]) -> list[FieldError]:
    """Return the errors of whitespace around an image's name, which is forbidden in Pods but allowed in templates."""
    return [
        invalid(f"{path}[{index}].image", container["image"], "must not have leading or trailing whitespace")
        for index, container in enumerate(containers)
        if container.get("image", "") != container.get("image", "").strip()
    ]


def _regular(path: str, containers: list[JSONObject], spec: JSONObject, volumes: Volumes) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        at, name = f"{path}[{index}]", container.get("name") or ""
        errors += _common(at, container, spec, volumes)
        if name in seen:
            errors.append(duplicate(f"{at}.name", name))
        seen.add(name)
        errors += validate_hooks(at, container, spec.get("terminationGracePeriodSeconds"))
        policy = container.get("restartPolicy")
        if policy is not None and policy not in _RESTART_POLICIES:
            errors.append(not_supported(f"{at}.restartPolicy", policy, _RESTART_POLICIES))
    return errors + _host_port_conflicts(path, list(enumerate(containers)))


def _init(path: str, spec: JSONObject, volumes: Volumes) -> list[FieldError]:
    errors: list[FieldError] = []
    seen = {container.get("name") for container in spec.get("containers") or ()}
    for index, container in enumerate(spec.get("initContainers") or ()):
        at, name = f"{path}[{index}]", container.get("name") or ""
        errors += _common(at, container, spec, volumes)
        policy = container.get("restartPolicy")
        if policy is not None and policy not in _RESTART_POLICIES:
            errors.append(not_supported(f"{at}.restartPolicy", policy, _RESTART_POLICIES))
        if name in seen:
            errors.append(duplicate(f"{at}.name", name))
        elif name:
            seen.add(name)
        errors += _host_port_conflicts(path, [(index, container)])
        if policy == "Always":
            errors += validate_hooks(at, container, spec.get("terminationGracePeriodSeconds"))
        else:
            detail = "may not be set for init containers without restartPolicy=Always"
            errors += [forbidden(f"{at}.{hook}", detail) for hook in _HOOKS if container.get(hook) is not None]
    return errors


def _ephemeral(path: str, spec: JSONObject, volumes: Volumes) -> list[FieldError]:
    errors: list[FieldError] = []
    others = {each.get("name") for kind in ("containers", "initContainers") for each in spec.get(kind) or ()}
    seen = set(others)
    why = "cannot be set for an Ephemeral Container"
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        at, name = f"{path}[{index}]", container.get("name") or ""
        errors += _common(at, container, spec, volumes)
        if name in seen:
            errors.append(duplicate(f"{at}.name", name))
        seen.add(name)
        target = container.get("targetContainerName")
        if target and target not in others:
            errors.append(not_found(f"{at}.targetContainerName", target))
        errors += checks.only_these(at, container, _EPHEMERAL_FIELDS, why)
        for place, mount in enumerate(container.get("volumeMounts") or ()):
            where = f"{at}.volumeMounts[{place}]"
            errors += [forbidden(f"{where}.{field}", why) for field in ("subPath", "subPathExpr") if mount.get(field)]
    return errors


def _common(path: str, container: JSONObject, spec: JSONObject, volumes: Volumes) -> list[FieldError]:
    errors = checks.required_name(f"{path}.name", container.get("name"), names.dns1123_label)
    if not container.get("image"):
        errors.append(required(f"{path}.image"))
    errors += checks.one_of(
        f"{path}.terminationMessagePolicy", container.get("terminationMessagePolicy"), _TERMINATION_POLICIES
    )
    errors += _ports(f"{path}.ports", container.get("ports") or [])
    errors += validate_environment(path, container)
    errors += _mounts(f"{path}.volumeMounts", container, volumes)
    errors += _devices(f"{path}.volumeDevices", container, volumes)
    errors += checks.one_of(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), _PULL_POLICIES)
    errors += resources.validate(f"{path}.resources", container.get("resources") or {})
    errors += _resize_policy(f"{path}.resizePolicy", container.get("resizePolicy") or [], spec)
    host_users = spec.get("hostUsers") is not False
    return errors + securitycontexts.validate(
        f"{path}.securityContext", container.get("securityContext") or {}, host_users=host_users
    )


def _ports(path: str, ports: list[JSONObject]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        at, name = f"{path}[{index}]", port.get("name")
        if name:
            wrong = checks.named(f"{at}.name", name, names.port_name)
            errors += wrong
            if not wrong and name in seen:
                errors.append(duplicate(f"{at}.name", name))
            seen.add(name)
        number = port.get("containerPort")
        errors += checks.port(f"{at}.containerPort", number) if number else [required(f"{at}.containerPort")]
        if port.get("hostPort"):
            errors += checks.port(f"{at}.hostPort", port["hostPort"])
        errors += checks.one_of(f"{at}.protocol", port.get("protocol"), _PROTOCOLS)
    return errors


def _host_port_conflicts(path: str, containers: list[tuple[int, JSONObject]]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, container in containers:
        for place, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            taken = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if taken in seen:
                errors.append(duplicate(f"{path}[{index}].ports[{place}].hostPort", taken))
            seen.add(taken)
    return errors


def _mounts(path: str, container: JSONObject, volumes: Volumes) -> list[FieldError]:
    errors: list[FieldError] = []
    devices = {each.get("name"): each.get("devicePath") for each in container.get("volumeDevices") or ()}
    seen: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        at, name, where = f"{path}[{index}]", mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            errors.append(required(f"{at}.name"))
        if name not in volumes:
            errors.append(not_found(f"{at}.name", name))
        if not where:
            errors.append(required(f"{at}.mountPath"))
        if where in seen:
            errors.append(invalid(f"{at}.mountPath", where, "must be unique"))
        seen.add(where)
        if name in devices:
            errors.append(invalid(f"{at}.name", name, "must not already exist in volumeDevices"))
        if where in devices.values():
            errors.append(invalid(f"{at}.mountPath", where, "must not already exist as a path in volumeDevices"))
        if mount.get("subPath"):
            errors += descending_path(f"{path}.subPath", mount["subPath"])
        if mount.get("subPathExpr"):
            if mount.get("subPath"):
                detail = "subPathExpr and subPath are mutually exclusive"
                errors.append(invalid(f"{at}.subPathExpr", mount["subPathExpr"], detail))
            errors += descending_path(f"{path}.subPathExpr", mount["subPathExpr"])
        errors += _mount_mode_errors(path, mount, container)
    return errors


def _mount_mode_errors(path: str, mount: JSONObject, container: JSONObject) -> list[FieldError]:
    """Return the errors of how a mount is propagated, and of whether the mounts below it are read-only too."""
    propagation, recursive = mount.get("mountPropagation"), mount.get("recursiveReadOnly")
    errors: list[FieldError] = []
    if propagation is not None and propagation not in _PROPAGATIONS:
        errors.append(not_supported(f"{path}.mountPropagation", propagation, _PROPAGATIONS))
    if propagation == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        why = "Bidirectional mount propagation is available only to privileged containers"
        errors.append(forbidden(f"{path}.mountPropagation", why))
    at = f"{path}.recursiveReadOnly"
    if recursive is not None and recursive not in _RECURSIVE:
        errors.append(not_supported(at, recursive, _RECURSIVE))
    elif recursive in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            errors.append(forbidden(at, "may only be specified when readOnly is true"))
        if propagation not in (None, "None"):
            errors.append(forbidden(at, "may only be specified when mountPropagation is None or not specified"))
    return errors


def _resize_policy(path: str, policies: JSONArray, spec: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        resource, action = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if resource in seen:
            errors.append(duplicate(f"{path}[{index}]", resource))
        seen.add(resource)
        errors += checks.one_of(path, resource, ("cpu", "memory"))
        errors += checks.one_of(path, action, ("NotRequired", "RestartContainer"))
        if spec.get("restartPolicy") == "Never" and action != "NotRequired":
            why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            errors.append(invalid(path, action, why))
    return errors


def _devices(path: str, container: JSONObject, volumes: Volumes) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, device in enumerate(container.get("volumeDevices") or ()):
        at, name = f"{path}[{index}]", device.get("name") or ""
        if not name:
            errors.append(required(f"{at}.name"))
        volume = volumes.get(name)
        if volume is None:
            errors.append(not_found(f"{at}.name", name))
        elif not (volume.get("persistentVolumeClaim") or volume.get("ephemeral")):
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(invalid(f"{at}.name", name, detail))
        if not device.get("devicePath"):
            errors.append(required(f"{at}.devicePath"))
    return errors
