"""A first sample of each kind: what its schema asks for, with its defaults. From then on it is a person's."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from kubewright.machinery import yaml
from kubewright.machinery.errors import ConfigError, DecodeError
from kubewright.machinery.json import JSONObject
from kubewright.models import CustomResource
from kubewright.models._schema import root_schema

_WORD: Final = "example"
_PORT: Final = 80


def present(folder: Path) -> list[str]:
    """The names of the samples in `config/samples`."""
    return sorted(path.name for path in folder.glob("*.yaml") if path.name != "kustomization.yaml")


def missing(kinds: Iterable[type[CustomResource]], folder: Path) -> dict[str, str]:
    """For each version of a kind that is served and not shown in a file there: a file's name, and what it should hold.

    Raises ConfigError for a file that can't be read.
    """
    kinds = list(kinds)
    shown = {(each.get("apiVersion"), each.get("kind")) for name in present(folder) for each in _read(folder / name)}
    served = [kind for kind in kinds if kind.__served_as__.served]
    wanted = [kind for kind in served if (kind.__api__.api_version, kind.__api__.kind) not in shown]
    named = {_file_name(kind, kinds): kind for kind in wanted}
    return {name: yaml.dump(sample(kind)) for name, kind in named.items() if not (folder / name).exists()}


def sample(kind: type[CustomResource]) -> JSONObject:
    """An object of `kind` with the fields that must be there, and those that have a default.

    Values are the schema's examples and defaults, or keep to its bounds; patterns and rules it can't follow.
    """
    api = kind.__api__
    document: JSONObject = {
        "apiVersion": api.api_version,
        "kind": api.kind,
        "metadata": {"name": f"{api.kind.lower()}-sample"},
    }
    schema = root_schema(kind)
    own = {name: each for name, each in schema["properties"].items() if name not in (*document, "status")}
    return document | _fields({**schema, "properties": own})


def _file_name(kind: type[CustomResource], among: Iterable[type[CustomResource]]) -> str:
    """As kubebuilder has it: `<group>_<version>_<kind>.yaml`, of the group its first part where that tells it apart."""
    api = kind.__api__
    first = api.group.partition(".")[0]
    alike = {
        each.__api__.group
        for each in among
        if each.__api__.kind == api.kind and each.__api__.group.partition(".")[0] == first
    }
    return f"{first if len(alike) == 1 else api.group}_{api.version}_{api.kind.lower()}.yaml"


def _read(path: Path) -> list[JSONObject]:
    try:
        return list(yaml.load_all(path.read_text()))
    except (OSError, UnicodeDecodeError, DecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _fields(schema: JSONObject) -> JSONObject:
    required: list[str] = schema.get("required") or []
    properties: JSONObject = schema.get("properties") or {}
    return {name: _value(each) for name, each in properties.items() if name in required or "default" in each}


def _value(schema: JSONObject) -> Any:
    for stated in ("example", "default"):
        if stated in schema:
            return schema[stated]
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("x-kubernetes-int-or-string"):
        return _PORT
    match schema.get("type"):
        case "object":
            return _fields(schema)
        case "array":
            return [_value(schema["items"]) for _ in range(schema.get("minItems", 0))]
        case "integer" | "number":
            return _number(schema)
        case "boolean":
            return False
        case _:
            return _WORD.ljust(schema.get("minLength", 0), "-")[: schema.get("maxLength")]


def _number(schema: JSONObject) -> float:
    step = schema.get("multipleOf", 1)
    lowest = schema.get("minimum", min(step, schema.get("maximum", step)))
    steps = lowest // step + 1 if schema.get("exclusiveMinimum") else -(-lowest // step)
    number: float = steps * step
    return number
