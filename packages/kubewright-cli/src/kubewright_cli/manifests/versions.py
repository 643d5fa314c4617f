"""Fields that one version of a kind has, and another lacks or has with another type.

Without a conversion webhook (conversion strategy None) the API server changes `apiVersion` alone, and drops the fields
that the requested version does not declare. A write through that version then deletes them from the stored object.

Source: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Final

from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject, is_object
from kubewright.manager import Manager
from kubewright.webhooks import Conversion

_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_ANY: Final = "any"
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class LostFields:
    """Fields of version `source` that are lost when an object is written through version `target`."""

    crd: str
    kind: str
    source: str
    target: str
    fields: tuple[str, ...]

    @property
    def problem(self) -> str:
        more = len(self.fields) - _SHOWN
        listed = ", ".join(self.fields[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
        return f"version {self.target} lacks {listed} of {self.source}: a write through {self.target} deletes the data"

    @property
    def remedy(self) -> str:
        return (
            "give the Manager a Conversion of the versions (`kubewright create webhook --conversion` writes it), or "
            f"add the fields to {self.target}, or keep them there unread (marker PreserveUnknownFields), or do not "
            "serve it (served=False)"
        )

    def __str__(self) -> str:
        return f"{self.kind}: {self.problem}; {self.remedy}"


def require_conversions(manager: Manager, crds: Iterable[JSONObject]) -> None:
    """Raise ConfigError for differences between versions that the webhooks of the manager do not convert."""
    found = lost_fields(crds, manager)
    if found:
        raise ConfigError(f"{'. '.join(map(str, found))}. Nothing was written")


def lost_fields(crds: Iterable[JSONObject], manager: Manager | None = None) -> list[LostFields]:
    """Return the differences between the served and stored versions of each CRD, by pair of versions.

    Versions that the webhooks of `manager` convert lose nothing.
    """
    converted = _converted(manager)
    found: list[LostFields] = []
    for crd in crds:
        spec, name = crd["spec"], crd["metadata"]["name"]
        for source, target in permutations(spec["versions"], 2):
            if target["served"] and (source["served"] or source["storage"]):
                fields = tuple(_missing(_schema(source), _schema(target), ""))
                versions = (source["name"], target["name"])
                if fields and not converted.issuperset((name, each) for each in versions):
                    found.append(LostFields(name, spec["names"]["kind"], *versions, fields))
    return found


def _converted(manager: Manager | None) -> set[tuple[str, str]]:
    """Return the CRD and the name of each version that the manager's webhooks convert."""
    if manager is None or manager.options.webhook_port == -1:
        return set()
    apis = [kind.__api__ for each in manager.webhooks if isinstance(each, Conversion) for kind in each.kinds]
    return {(f"{api.plural}.{api.group}", api.version) for api in apis}


def _schema(version: JSONObject) -> JSONObject:
    schema: JSONObject = version["schema"]["openAPIV3Schema"]
    return schema


def _missing(source: JSONObject, target: JSONObject, path: str) -> Iterator[str]:
    """Yield the paths of fields that `source` declares and `target` drops, or has with another type.

    Of a missing object, its own path alone.
    """
    if target.get(_PRESERVE):
        return
    properties: JSONObject = target.get("properties") or {}
    declared: JSONObject = source.get("properties") or {}
    for name, schema in declared.items():
        below = f"{path}.{name}" if path else name
        if name in properties and len({_type(schema), _type(properties[name])} - {_ANY}) == 2:
            yield f"{below} ({_type(schema)})"
        elif name in properties:
            yield from _missing(schema, properties[name], below)
        elif not is_object(target.get("additionalProperties")):
            yield below
    for key, step in (("items", "[]"), ("additionalProperties", "[*]")):
        inside, other = source.get(key), target.get(key)
        if is_object(inside) and is_object(other):
            yield from _missing(inside, other, f"{path}{step}")


def _type(schema: JSONObject) -> str:
    """Return the type of a field; _ANY if it keeps values of any type, or fields that it does not know."""
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    return _ANY if schema.get(_PRESERVE) else str(schema.get("type", _ANY))
