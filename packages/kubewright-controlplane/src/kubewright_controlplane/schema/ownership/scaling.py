"""Ownership of `replicas` between an object and its Scale.

A server-side apply to `scale` owns one field of the Scale, which is one field of the object. Its conflicts are those of
the Scale. Follows k8s.io/apimachinery/pkg/util/managedfields/scalehandler.go.
"""

from __future__ import annotations

from typing import Any, Final

from kubewright.machinery.json import JSONArray
from kubewright_controlplane.schema.ownership.fieldset import FieldSet
from kubewright_controlplane.schema.ownership.managedfields import Entry, Managers, Owner

_SCALE: Final = "autoscaling/v1"
_REPLICAS: Final = FieldSet.of_paths("spec.replicas")


def scale_entries(managed_fields: Any, path: tuple[str, ...]) -> JSONArray:
    """Return the managedFields of the Scale of an object that stores its replicas at `path`."""
    replicas = FieldSet.of_paths(".".join(path))
    scale = Managers()
    for owner, entry in Managers.decode(managed_fields, is_stored=True).entries.items():
        if entry.fields & replicas:
            scale.set(_at_version(owner, _SCALE), Entry(_REPLICAS, _SCALE, entry.time))
    return scale.encode()


def object_entries(managed_fields: Any, scale_fields: Any, path: tuple[str, ...], api_version: str) -> JSONArray:
    """Return the managedFields of an object after a write to its Scale, whose managedFields are `scale_fields` now."""
    replicas = FieldSet.of_paths(".".join(path))
    owners = Managers.decode(managed_fields, is_stored=True)
    left = dict(Managers.decode(scale_fields).entries)
    for owner, entry in list(owners.entries.items()):
        if entry.fields & replicas and left.pop(_at_version(owner, _SCALE), None) is None:
            owners.set(owner, Entry(entry.fields - replicas, entry.api_version, entry.time))
    for owner, entry in left.items():
        if entry.fields & _REPLICAS:
            owners.set(
                _at_version(owner, api_version), Entry(replicas, api_version, None)
            )  # a real API server forgets the time
    return owners.encode()


def _at_version(owner: Owner, api_version: str) -> Owner:
    version = api_version if owner.operation == "Update" else ""
    return Owner(owner.manager, owner.operation, version, owner.subresource)
