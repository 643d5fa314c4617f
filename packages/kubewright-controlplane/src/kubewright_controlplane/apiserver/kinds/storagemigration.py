"""Strategies of storagemigration.k8s.io: StorageVersionMigrations, which the API server serves only on request.

Follows k8s.io/kubernetes pkg/apis/storagemigration/validation and pkg/registry/storagemigration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, invalid, required
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.kinds.generic import PlainStrategy
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import RESET_BY_STATUS, Strategy

_RESOURCE_VERSION: Final = re.compile(r"[1-9][0-9]*", re.ASCII)
_CONDITION_FIELDS: Final = ("type", "status", "observedGeneration", "lastTransitionTime", "reason", "message")
"""In the order of messages."""
_RESULTS: Final = {"Succeeded": "Success", "Failed": "Failed"}
"""The conditions that end a migration, and their names in messages."""


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {"storageversionmigrations": StorageVersionMigrationStrategy()}


class StorageVersionMigrationStrategy(PlainStrategy):
    metadata_without_status = RESET_BY_STATUS
    allow_unconditional_update = False

    def default(self, obj: JSONObject) -> None:
        obj.setdefault("spec", {})

    def validate(self, obj: JSONObject) -> list[FieldError]:
        path, target = "spec.resource", obj["spec"].get("resource") or {}
        resource, group = target.get("resource") or "", target.get("group") or ""
        errors: list[FieldError] = []
        if not resource:
            errors.append(required(f"{path}.resource", "resource is required to be set"))
        elif texts := names.dns1035_label(resource):
            errors.append(invalid(f"{path}.resource", resource, ",".join(texts)))
        if group and (texts := names.dns1123_subdomain(group)):
            errors.append(invalid(f"{path}.group", group, ",".join(texts)))
        return errors

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        if checks.same(obj["spec"], old["spec"]):
            return []
        target = obj["spec"].get("resource") or {}
        shown = {"group": target.get("group") or "", "resource": target.get("resource") or ""}
        return [invalid("spec", {"Resource": shown}, checks.IMMUTABLE)]

    def validate_status_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        status, before = obj.get("status") or {}, old.get("status") or {}
        errors = _resource_version(status)
        errors += checks.conditions("status.conditions", status.get("conditions"))
        if before.get("resourceVersion") and before["resourceVersion"] != status.get("resourceVersion"):
            errors.append(invalid("status.resourceVersion", status.get("resourceVersion") or "", checks.IMMUTABLE))
        return errors + _results(status, before)


def _resource_version(status: JSONObject) -> list[FieldError]:
    version = status.get("resourceVersion")
    if not version or _RESOURCE_VERSION.fullmatch(version):
        return []
    return [invalid("status.resourceVersion", version, f"resource version is not well formed: {version}")]


def _results(status: JSONObject, before: JSONObject) -> list[FieldError]:
    """Return the errors of the conditions that end a migration: at most one is true, and it stays true."""
    now = {kind for kind in _RESULTS if _is_true(status, kind)}
    details: list[str] = []
    if len(now) == len(_RESULTS):
        details.append("Both success and failed conditions cannot be true at the same time")
    for kind, word in _RESULTS.items():
        if _is_true(before, kind) and kind not in now:
            details.append(f"{word} condition cannot be set to false once it is true")
    shown = [
        {field: each[field] for field in _CONDITION_FIELDS if field in each} for each in status.get("conditions") or ()
    ]
    return [invalid("status.conditions", shown, detail) for detail in details]


def _is_true(status: JSONObject, kind: str) -> bool:
    found = next((each for each in status.get("conditions") or () if each.get("type") == kind), None)
    return found is not None and found.get("status") == "True"
