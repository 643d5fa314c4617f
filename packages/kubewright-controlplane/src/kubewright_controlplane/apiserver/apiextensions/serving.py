"""Resources of a CustomResourceDefinition: one for each version that is served or stored.

Follows k8s.io/apiextensions-apiserver pkg/apiserver and pkg/registry/customresource.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Final

from kubewright.machinery.errors import InternalError
from kubewright.machinery.fields import FieldError
from kubewright.machinery.gvk import version_order
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.apiextensions.columns import printer
from kubewright_controlplane.apiserver.apiextensions.conversion import WebhookConverter, declared_converter
from kubewright_controlplane.apiserver.apiextensions.instances import (
    AccessorError,
    InstanceStrategy,
    count_at,
    replica_errors,
    text_at,
)
from kubewright_controlplane.apiserver.registry.model import Attributes, Resource, Subresource
from kubewright_controlplane.apiserver.registry.objects import encode_json
from kubewright_controlplane.apiserver.registry.views import ScaleView, StatusView
from kubewright_controlplane.schema.steps import lengthen
from kubewright_controlplane.schema.structural.schema import Schema

_LARGE: Final = 32 * 1024
"""Bytes of a schema that is compiled on the worker."""


def resources_of(
    crd: JSONObject, converter: WebhookConverter | None, is_terminating: Callable[[], bool]
) -> list[Resource]:
    """Return the resources of an established definition's versions, the most stable and newest one first."""
    versions = [each for each in crd["spec"]["versions"] if each.get("served")]
    versions.sort(key=lambda each: version_order(each["name"]))
    return [_resource(crd, version, converter, is_terminating) for version in versions]


def stored_resource(crd: JSONObject) -> Resource:
    """Return a resource of an established definition's objects as they are stored, without conversion, for deletes."""
    stored = next(each for each in crd["spec"]["versions"] if each.get("storage"))
    return replace(_resource(crd, stored, None, lambda: True), to_storage=_unchanged)


def _unchanged(obj: JSONObject) -> JSONObject:
    return obj


def storage_version(crd: JSONObject) -> str:
    return next(str(each["name"]) for each in crd["spec"]["versions"] if each.get("storage"))


def _resource(
    crd: JSONObject, version: JSONObject, converter: WebhookConverter | None, is_terminating: Callable[[], bool]
) -> Resource:
    spec, names = crd["spec"], crd["status"]["acceptedNames"]
    group, plural, kind = spec["group"], names["plural"], names["kind"]
    api_version, stored_as = f"{group}/{version['name']}", f"{group}/{storage_version(crd)}"
    subresources = version.get("subresources") or {}
    scale = subresources.get("scale")
    load_schema = _schema_loader(crd, version["name"])
    fields = tuple(each["jsonPath"].removeprefix(".") for each in version.get("selectableFields") or ())
    to_storage = from_storage = None
    if converter is not None:
        to_storage, from_storage = converter.to(stored_as), converter.to(api_version)
    elif api_version != stored_as:
        to_storage = declared_converter(stored_as, _schema_loader(crd, storage_version(crd)), defaults=True)
        from_storage = declared_converter(api_version, load_schema, defaults=False)
    return Resource(
        group=group,
        version=version["name"],
        kind=kind,
        plural=plural,
        namespaced=spec["scope"] == "Namespaced",
        load_schema=load_schema,
        strategy=InstanceStrategy(fields, scale, is_terminating),
        singular=names.get("singular") or "",
        list_kind=names.get("listKind") or "",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=_subresources(subresources),
        has_status="status" in subresources,
        storage=f"{plural}.{group}",
        storage_api_version=stored_as,
        to_storage=to_storage,
        from_storage=from_storage,
        converter=converter,
        load_printer=partial(printer, version.get("additionalPrinterColumns")),
        custom=True,
        declared_versions=frozenset(f"{group}/{each['name']}" for each in spec["versions"]),
        openapi_schema=version["schema"]["openAPIV3Schema"],
        selectable_fields=fields,
        storage_version_hash=_storage_version_hash(group, storage_version(crd), kind),
        deprecation_warning=_deprecation_warning(crd, version),
    )


def _subresources(declared: JSONObject) -> dict[str, Subresource]:
    found: dict[str, Subresource] = {}
    if "status" in declared:
        found["status"] = StatusView()
    scale = declared.get("scale")
    if scale is not None:
        found["scale"] = _InstanceScale(
            replicas=_steps(scale["specReplicasPath"]),
            status_replicas=_steps(scale["statusReplicasPath"]),
            selector=_selector_reader(scale.get("labelSelectorPath")),
        )
    return found


class _InstanceScale(ScaleView):
    """The scale of a custom resource. A definition may declare it for objects that it does not fit."""

    def read(self, obj: JSONObject) -> JSONObject:
        try:
            counts = [count_at(obj, ".".join(path)) for path in (self.replicas, self.status_replicas)]
            scale = super().read(obj)
        except AccessorError as error:
            raise InternalError(str(error), reason="") from error
        for part, count in zip(("spec", "status"), counts, strict=True):
            if count:
                scale[part]["replicas"] = _as_int32(count)
        return scale

    def write(self, view: JSONObject, old: JSONObject, attributes: Attributes) -> JSONObject:
        self.read(old)
        return super().write(view, old, attributes)

    def validate(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return replica_errors(obj, f".{'.'.join(self.replicas)}")


def _as_int32(count: int) -> int:
    """Convert a count as Go converts an int64, which keeps the lower half of its bits."""
    return (count + (1 << 31)) % (1 << 32) - (1 << 31)


def _steps(path: str) -> tuple[str, ...]:
    return tuple(path.removeprefix(".").split("."))


def _selector_reader(path: str | None) -> Callable[[JSONObject], str]:
    def read(obj: JSONObject) -> str:
        return (text_at(obj, path) or "") if path else ""

    return read


def schema_loaders(crd: JSONObject) -> dict[str, Callable[[], Schema]]:
    """Return functions that compile the schemas of all versions, by apiVersion."""
    group, versions = crd["spec"]["group"], crd["spec"]["versions"]
    return {f"{group}/{each['name']}": _schema_loader(crd, each["name"]) for each in versions}


def _schema_loader(crd: JSONObject, version: str) -> Callable[[], Schema]:
    """Return a function that compiles the schema of a version."""
    declared = next(each for each in crd["spec"]["versions"] if each["name"] == version)
    schema: JSONObject = declared["schema"]["openAPIV3Schema"]

    @cache
    def load() -> Schema:
        if len(encode_json(schema)) > _LARGE:
            lengthen()
        return Schema.from_crd(schema)

    return load


def _storage_version_hash(group: str, version: str, kind: str) -> str:
    """Return the hash of the storage version in discovery, computed as in apiserver's pkg/endpoints/discovery."""
    return base64.b64encode(hashlib.sha256(f"{group}/{version}/{kind}".encode()).digest()[:8]).decode()


def _deprecation_warning(crd: JSONObject, version: JSONObject) -> str:
    """Return the warning of a deprecated version, with the newest version to use instead; else an empty string."""
    if not version.get("deprecated"):
        return ""
    if own := version.get("deprecationWarning"):
        return str(own)
    spec, order = crd["spec"], version_order(version["name"])
    group, kind = spec["group"], crd["status"]["acceptedNames"]["kind"]
    better = [
        each["name"]
        for each in spec["versions"]
        if each.get("served") and not each.get("deprecated") and version_order(each["name"]) < order
    ]
    instead = f"; use {group}/{min(better, key=version_order)} {kind}" if better else ""
    return f"{group}/{version['name']} {kind} is deprecated{instead}"
