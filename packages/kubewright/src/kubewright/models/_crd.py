"""The CustomResourceDefinition of a custom resource, as controller-gen would write it for the same type in Go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubewright.machinery.errors import ModelError
from kubewright.machinery.json import JSONObject
from kubewright.models._custom import CustomResource, PrintColumn, Scale
from kubewright.models._schema import root_schema


def custom_resource_definition(*classes: type[CustomResource]) -> JSONObject:
    """The CRD of one kind; `classes` are its versions.

    Raises ModelError when they are not versions of one kind, when not exactly one of them is the storage version, and
    for what an API server would refuse in their schemas (a rule that does not compile or costs too much, a faulty
    pattern), where RE2 is installed to judge it.
    """
    _check(classes)
    api = classes[0].__api__
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
        "metadata": _metadata(f"{api.plural}.{api.group}", classes),
        "spec": {
            "group": api.group,
            "names": names,
            "scope": "Namespaced" if api.namespaced else "Cluster",
            "versions": [_version(cls) for cls in sorted(classes, key=lambda cls: cls.__api__.version)],
        },
    }


def custom_resource_definitions(classes: Iterable[type[CustomResource]]) -> list[JSONObject]:
    """A CRD for each kind among `classes`, of all its versions, in the order of their names. Raises ModelError."""
    kinds: dict[tuple[str, str], list[type[CustomResource]]] = {}
    for cls in classes:
        kinds.setdefault((cls.__api__.group, cls.__api__.kind), []).append(cls)
    return [custom_resource_definition(*kinds[kind]) for kind in sorted(kinds)]


def _metadata(name: str, classes: tuple[type[CustomResource], ...]) -> JSONObject:
    metadata: JSONObject = {"name": name}
    for cls in classes:
        for what in ("annotations", "labels"):
            if given := getattr(cls.__served_as__, what):
                metadata[what] = {**metadata.get(what, {}), **given}
    return metadata


def _check(classes: tuple[type[CustomResource], ...]) -> None:
    if not classes:
        raise ModelError("a CRD has at least one version: give the class of a custom resource")
    first = classes[0]
    for cls in classes[1:]:
        for what in ("group", "kind", "plural", "singular", "namespaced", "short_names", "categories"):
            ours, theirs = getattr(first.__api__, what), getattr(cls.__api__, what)
            if ours != theirs:
                raise ModelError(
                    f"{cls.__name__} is no version of {first.__name__}: {what} is {theirs!r} and not {ours!r}; "
                    "all versions of a kind say the same"
                )
    versions = [cls.__api__.version for cls in classes]
    if len(set(versions)) < len(versions):
        raise ModelError(f"{first.__name__}: two classes are the same version ({', '.join(versions)})")
    stored = [cls.__api__.version for cls in classes if cls.__served_as__.storage]
    if len(stored) != 1:
        raise ModelError(
            f"{first.__name__}: one version is the one that is stored, and {', '.join(stored) or 'none'} would be; "
            "write storage=False in the class arguments of the others"
        )
    if not any(cls.__served_as__.served for cls in classes):
        raise ModelError(f"{first.__name__}: no version is served; leave out served=False for one of them")


def _version(cls: type[CustomResource]) -> JSONObject:
    from kubewright.models._validation import refuse_faulty  # an operator that makes no CRD has no use for it

    served, schema = cls.__served_as__, root_schema(cls)
    refuse_faulty(cls, schema)
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
        raise ModelError(f'{where}: the selectable field "{path}" is no field of type str, bool or int')
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
