"""The CustomResourceDefinition of a custom resource, as controller-gen would write it for the same type in Go."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

from kubewright.machinery.errors import ModelError
from kubewright.machinery.json import JSONObject
from kubewright.models._apiresource import APIResource
from kubewright.models._custom import CustomResource, PrintColumn, Scale
from kubewright.models._resource import Object
from kubewright.models._schema import root_schema


def custom_resource_definition(*classes: type[CustomResource]) -> JSONObject:
    """Return the CRD of one kind; `classes` are its versions.

    Raises ModelError if they are not versions of one kind, or if not exactly one of them is the storage version. With
    kubewright-controlplane installed, it also raises ModelError for what an API server would reject in their schemas: a
    rule that does not compile or costs too much, an invalid pattern.
    """
    _check(classes)
    versions = [_version(cls) for cls in sorted(classes, key=lambda cls: cls.__api__.version)]
    return _document(classes[0].__api__, _metadata(classes), versions)


def partial_definition(*classes: type[Object]) -> JSONObject:
    """Return a CRD with these versions of a kind only, all of them served, for checks that need no other version.

    Objects of a class that is not a CustomResource may have any fields.
    """
    api = classes[0].__api__
    versions: list[JSONObject] = []
    for index, cls in enumerate(classes):
        version = _version(cls) if issubclass(cls, CustomResource) else _untyped(cls)
        versions.append({**version, "served": True, "storage": index == 0})
    return _document(api, {"name": f"{api.plural}.{api.group}"}, versions)


def _untyped(cls: type[Object]) -> JSONObject:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    subresources: JSONObject = {"status": {}} if "status" in cls.__api__.subresources else {}
    return {"name": cls.__api__.version, "schema": {"openAPIV3Schema": schema}, "subresources": subresources}


def _document(api: APIResource, metadata: JSONObject, versions: list[JSONObject]) -> JSONObject:
    names: JSONObject = {
        "kind": api.kind,
        "listKind": f"{api.kind}List",
        "plural": api.plural,
        "singular": api.singular,
    }
    if api.short_names:
        names["shortNames"] = list(api.short_names)
    if api.categories:
        names["categories"] = list(api.categories)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": api.group,
            "names": names,
            "scope": "Namespaced" if api.namespaced else "Cluster",
            "versions": versions,
        },
    }


def custom_resource_definitions(classes: Iterable[type[CustomResource]]) -> list[JSONObject]:
    """Return one CRD for each kind in `classes`, with all its versions, ordered by name. Raises ModelError."""
    kinds: dict[tuple[str, str], list[type[CustomResource]]] = {}
    for cls in classes:
        kinds.setdefault((cls.__api__.group, cls.__api__.kind), []).append(cls)
    return [custom_resource_definition(*kinds[kind]) for kind in sorted(kinds)]


def _metadata(classes: tuple[type[CustomResource], ...]) -> JSONObject:
    api = classes[0].__api__
    metadata: JSONObject = {"name": f"{api.plural}.{api.group}"}
    for cls in classes:
        for what in ("annotations", "labels"):
            if given := getattr(cls.__served_as__, what):
                metadata[what] = {**metadata.get(what, {}), **given}
    return metadata


def _check(classes: tuple[type[CustomResource], ...]) -> None:
    if not classes:
        raise ModelError("a CRD needs at least one version: pass the class of a custom resource")
    first = classes[0]
    for cls in classes[1:]:
        for what in ("group", "kind", "plural", "singular", "namespaced", "short_names", "categories"):
            ours, theirs = getattr(first.__api__, what), getattr(cls.__api__, what)
            if ours != theirs:
                raise ModelError(
                    f"{_class(cls)} and {_class(first)} are versions of one kind but differ: "
                    f"{what} is {theirs!r} in the one and {ours!r} in the other; make them equal"
                )
    versions = [cls.__api__.version for cls in classes]
    if len(set(versions)) < len(versions):
        raise ModelError(f"{first.__name__}: two classes define the same version ({', '.join(versions)})")
    stored = [cls.__api__.version for cls in classes if cls.__served_as__.storage]
    if not stored:
        raise ModelError(
            f"{first.__name__}: exactly one version must be the storage version, but none is; "
            "remove storage=False from the class arguments of one of them"
        )
    if len(stored) > 1:
        raise ModelError(
            f"{first.__name__}: exactly one version must be the storage version, but {' and '.join(stored)} are; "
            "set storage=False in the class arguments of all others"
        )
    if not any(cls.__served_as__.served for cls in classes):
        raise ModelError(f"{first.__name__}: no version is served; remove served=False from one of them")


def _class(cls: type[CustomResource]) -> str:
    return f"{cls.__module__}.{cls.__qualname__} ({cls.__api__.version})"


def _version(cls: type[CustomResource]) -> JSONObject:
    served, schema = cls.__served_as__, root_schema(cls)
    if find_spec("kubewright_controlplane") is not None:  # an operator's image does not contain it
        from kubewright.models._validation import check_schema

        check_schema(cls, schema)
    out: JSONObject = {
        "name": cls.__api__.version,
        "schema": {"openAPIV3Schema": schema},
        "served": served.served,
        "storage": served.storage,
    }
    if served.columns:
        out["additionalPrinterColumns"] = [_column(each) for each in served.columns]
    if served.deprecated:
        out["deprecated"] = True
        if isinstance(served.deprecated, str):
            out["deprecationWarning"] = served.deprecated
    if served.selectable_fields:
        out["selectableFields"] = [_selectable(schema, path, cls.__name__) for path in served.selectable_fields]
    subresources: JSONObject = {}
    if "status" in cls.__api__.subresources:
        subresources["status"] = {}
    if served.scale:
        subresources["scale"] = _scale(served.scale)
    if subresources:
        out["subresources"] = subresources
    return out


def _selectable(schema: JSONObject, path: str, where: str) -> JSONObject:
    found: Any = schema
    for step in path.removeprefix(".").split("."):
        found = found.get("properties", {}).get(step, {})
    if found.get("type") not in ("string", "boolean", "integer"):
        raise ModelError(f'{where}: the selectable field "{path}" is not a field of type str, bool or int')
    return {"jsonPath": path}


def _column(column: PrintColumn) -> JSONObject:
    pairs = {
        "description": column.description,
        "format": column.format,
        "jsonPath": column.json_path,
        "name": column.name,
        "priority": column.priority,
        "type": column.type,
    }
    return {key: value for key, value in pairs.items() if value}


def _scale(scale: Scale) -> JSONObject:
    paths = {"specReplicasPath": scale.replicas, "statusReplicasPath": scale.status_replicas}
    return {**paths, "labelSelectorPath": scale.selector} if scale.selector else paths
