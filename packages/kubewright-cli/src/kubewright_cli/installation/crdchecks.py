"""Whether the CRDs of a bundle can replace those in the cluster, as both generations of OLM check it.

Compatible are new optional fields, looser limits, further enum values and other descriptions. Everything else is
reported, also changes that OLM calls unknown: make such a change in a new version, with a conversion.
Existing objects must be valid by the new schema, in each version that was served and still is.

Follows operator-controller internal/operator-controller/rukpak/preflights/crdupgradesafety, and
operator-lifecycle-manager pkg/controller/operators/catalog (validateExistingCRs). Not checked: changes between the
versions of one CRD. Allowed here: another description of the values of a map, which OLM calls unknown.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from typing import Final

from msgspec.structs import replace

from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.client import Client, Unstructured
from kubewright.machinery.errors import InternalError, NotFound
from kubewright.machinery.json import JSONObject, is_array, is_object
from kubewright_cli.deployment.conversions import installed_crd, is_conversion_failure
from kubewright_cli.deployment.crds import LostVersions, api_of
from kubewright_cli.deployment.objects import called
from kubewright_cli.manifests.schema_changes import schema_changes
from kubewright_cli.olm.parts import mapping, text
from kubewright_controlplane.schema.structural.schema import Schema

_LOOSENED: Final = frozenset(
    {
        "properties",
        "items",
        "description",
        "required",
        "enum",
        *(f"{end}{what}" for end in ("min", "max") for what in ("imum", "Length", "Items", "Properties")),
    }
)
"""Keys whose compatible changes are allowed. Incompatible ones are found by `schema_changes`, and here."""
_OTHER_WAY: Final = "keep it, and make the change in a new version of the kind"
_SHOWN: Final = 60
_OBJECTS: Final = 5
"""Objects that are named for each version."""


async def upgrade_problems(client: Client, crd: JSONObject) -> list[str]:
    """Return why a CRD cannot replace the one in the cluster; nothing if there is none."""
    installed = await installed_crd(client, crd)
    if installed is None:
        return []
    name = installed.metadata.name
    # the class of the kind would lose what it has no field for
    spec = mapping((await client.get(Unstructured.of(CustomResourceDefinition.__api__), name)).content["spec"])
    found = [f"CRD {name}: {each}" for each in _definition_problems(installed, spec, crd)]
    if not found:
        found = [f"CRD {name}: {each}" async for each in _object_problems(client, spec, crd)]
    return found


def _definition_problems(installed: CustomResourceDefinition, old: JSONObject, crd: JSONObject) -> Iterator[str]:
    new = mapping(crd["spec"])
    if old["scope"] != new["scope"]:
        yield f"scope changed from {old['scope']} to {new['scope']}; use a kind with another name"
        return
    if lost := LostVersions.of(crd, installed):
        yield f"versions removed in which objects may be stored: {lost.versions}; keep them with served: false"
    versions = {each["name"]: each for each in new["versions"]}
    for each in old["versions"]:
        if each["name"] in versions:
            before, after = _schema(each), _schema(versions[each["name"]])
            yield from (f"{each['name']} {problem}" for problem in _schema_problems(before, after))


def _schema(version: JSONObject) -> JSONObject:
    return mapping(mapping(version.get("schema")).get("openAPIV3Schema"))


def _schema_problems(old: JSONObject, new: JSONObject) -> Iterator[str]:
    known: set[str] = set()
    for change in schema_changes(old, new):
        known.add(change.path)
        yield f"{change.path or 'object'}: {change.change}; {change.remedy}"
    before, after = dict(_flat(old)), dict(_flat(new))
    for path, schema in before.items():
        if any(path == each or path.startswith((f"{each}.", f"{each}[")) for each in known if each) or path in known:
            continue
        if any(each.startswith(f"{path}[*]") for each in known):
            continue
        if path not in after:
            yield f"{path}: field removed; {_OTHER_WAY}"
        else:
            yield from (f"{path or 'object'}: {each}; {_OTHER_WAY}" for each in _changes(schema, after[path]))


def _flat(schema: JSONObject, path: str = "") -> Iterator[tuple[str, JSONObject]]:
    """Yield every field and its schema."""
    yield path, schema
    for name, each in mapping(schema.get("properties")).items():
        yield from _flat(mapping(each), f"{path}.{name}" if path else name)
    if is_object(items := schema.get("items")):
        yield from _flat(items, f"{path}[]")


def _changes(old: JSONObject, new: JSONObject) -> Iterator[str]:
    """Yield what changed in one field that is not known to be compatible."""
    if added := sorted(set(_texts(new, "required")) - set(_texts(old, "required"))):
        yield f"new required fields: {', '.join(added)}"
    if old.get("enum") and not new.get("enum"):
        yield "enum removed"
    for key in sorted((old.keys() | new.keys()) - _LOOSENED):
        before, after = (_comparable(key, each.get(key)) for each in (old, new))
        if before != after:
            yield f"{key} changed from {_shown(before)} to {_shown(after)}"


def _texts(schema: JSONObject, key: str) -> list[str]:
    found = schema.get(key)
    return [text(each) for each in found] if is_array(found) else []


def _comparable(key: str, value: object) -> str:
    """Return a value as JSON without descriptions; empty for none, and for a flag that is false."""
    if value is None or (value is False and key != "default"):
        return ""
    return json.dumps(_without_descriptions(value), sort_keys=True, ensure_ascii=False)


def _without_descriptions(value: object) -> object:
    if is_array(value):
        return [_without_descriptions(each) for each in value]
    if not is_object(value):
        return value
    # a property may have the name
    kept = {key: each for key, each in value.items() if key != "description" or not isinstance(each, str)}
    return {key: _without_descriptions(each) for key, each in kept.items()}


def _shown(found: str) -> str:
    if not found:
        return "nothing"
    return found if len(found) <= _SHOWN else f"{found[:_SHOWN]}..."


# ---- existing objects


async def _object_problems(client: Client, spec: JSONObject, crd: JSONObject) -> AsyncGenerator[str]:
    old = {each["name"]: each for each in spec["versions"] if each["served"]}
    for version in crd["spec"]["versions"]:
        before = old.get(version["name"])
        if before is None or not version["served"] or _schema(before) == _schema(version):
            continue
        async for each in _invalid_objects(client, crd, version):
            yield each


async def _invalid_objects(client: Client, crd: JSONObject, version: JSONObject) -> AsyncGenerator[str]:
    """Yield the existing objects that the new schema of a version rejects."""
    api = replace(api_of(crd), version=version["name"])
    kind = Unstructured.of(api)
    schema = Schema.from_crd(_schema(version))
    try:
        found = await client.list(kind)
    except NotFound:
        return
    except InternalError as error:
        if not is_conversion_failure(error):
            raise
        yield f"objects cannot be read in {version['name']}, so they were not checked: {error}"
        return
    invalid = 0
    for each in found:
        document = {
            "apiVersion": api.api_version,
            "kind": api.kind,
            "metadata": {"name": each.metadata.name},
            **each.content,
        }
        schema.prune(document)
        schema.default(document)
        if errors := schema.validate(document):
            invalid += 1
            if invalid <= _OBJECTS:
                where = called(api, each.metadata.name, each.metadata.namespace)
                yield f"{version['name']} rejects {where}: {errors[0]}; correct the object, or accept its value"
    if invalid > _OBJECTS:
        yield f"{version['name']} rejects {invalid - _OBJECTS} more objects"
