"""Write `src/kubewright/apis`: the built-in kinds as typed classes, one module a stable group version.

    python tools/generate_apis.py <folder>

The folder is `api/` of Kubernetes' sources, or any other that has the same documents of an API server in it:
`openapi-spec/v3/*_openapi.json` and `discovery/aggregated_v2.json` (and `api__v1.json` for the core group).

Rules of the translation, where the documents leave a choice:
- Lists and maps are empty by default; optional scalars and structs, and all times (Go writes a zero one as null), None.
- `metadata`, `spec` and `status` are never None where Go holds them by value (`default: {}` in the document) and an
  empty one is possible.
- What an object consists of is typed; what may be anything (RawExtension, JSON) is plain data.
- A name that is a keyword, or would hide a name that annotations need, ends with an underscore.
"""

from __future__ import annotations

import json
import keyword
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "src" / "kubewright" / "apis"
META = "io.k8s.apimachinery.pkg.apis.meta.v1."

SCALARS = {
    META + "Time": "Time",
    META + "MicroTime": "MicroTime",
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "Quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "IntOrString",
}
"""Types of `models.meta` that are no structs."""
TIMES = (META + "Time", META + "MicroTime")
OBJECTS = {"io.k8s.apimachinery.pkg.runtime.RawExtension", META + "FieldsV1"}
EMPTY = "an empty struct"
RESERVED = {"int", "str", "bool", "float", "bytes", "list", "dict", "field", "object", "property"}


@dataclass(frozen=True)
class Resource:
    """What discovery says of a kind."""

    plural: str = ""
    singular: str = ""
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()


@dataclass
class Module:
    """A module to be written: a group version, its schemas by class name, and what they use of other modules."""

    group: str
    version: str
    schemas: dict[str, dict[str, Any]] = field(default_factory=dict)
    from_meta: set[str] = field(default_factory=set)
    from_groups: set[tuple[str, str]] = field(default_factory=set)
    uses_objects: bool = False
    uses_structs: bool = False
    uses_any: bool = False
    uses_field: bool = False

    @property
    def package(self) -> str:
        return package_of(self.group)


class Generator:
    def __init__(self, schemas: dict[str, dict[str, Any]], resources: dict[tuple[str, str, str], Resource]) -> None:
        self._schemas = schemas
        self._resources = resources

    def modules(self) -> Iterator[tuple[Module, str]]:
        """Each module, and its text."""
        group_versions = sorted({key[:2] for key in self._resources if re.fullmatch(r"v\d+", key[1])})
        for group, version in group_versions:
            module = Module(group, version)
            prefix = re.compile(rf"(?:.*\.)?{package_of(group)}\.{version}\.(\w+)")
            for name, schema in sorted(self._schemas.items()):
                found = prefix.fullmatch(name)
                if found and not name.startswith(META) and not is_list(schema) and name not in SCALARS:
                    module.schemas[found[1]] = schema
            body = "\n\n".join(self._class(module, name, schema) for name, schema in sorted(module.schemas.items()))
            yield module, heading(module) + "\n\n" + body + "\n"

    def _class(self, module: Module, name: str, schema: dict[str, Any]) -> str:
        kind = self._kind(module, name, schema)
        lines = [f"class {name}({'Object' if kind else 'Struct'}):"]
        lines += docstring(schema.get("description", ""))
        hidden: set[str] = set()
        module.uses_structs |= kind is None
        if kind:
            lines += ["", f"    __api__ = {api_resource(module, name, kind)}", ""]
            hidden = {"apiVersion", "kind", "metadata"}
            module.uses_objects = True
        required = set(schema.get("required", ()))
        for wire, each in schema.get("properties", {}).items():
            if wire not in hidden:
                lines.append("    " + self._field(module, wire, each, wire in required))
                lines += docstring(each.get("description", ""))
        return "\n".join(lines) + "\n"

    def _kind(self, module: Module, name: str, schema: dict[str, Any]) -> Resource | None:
        gvks = schema.get("x-kubernetes-group-version-kind", ())
        is_kind = {"group": module.group, "version": module.version, "kind": name} in gvks
        if not is_kind or "metadata" not in schema["properties"]:
            return None
        return self._resources.get((module.group, module.version, name), Resource())

    def _field(self, module: Module, wire: str, schema: dict[str, Any], required: bool) -> str:
        name = python_name(wire)
        annotation = self._annotation(module, schema)
        rename = "" if wire_name(name) == wire else f', name="{wire}"'
        default = self._default(wire, schema, required)
        if default == "None" and annotation != "Any":
            annotation += " | None"
        if default == EMPTY:
            value = f" = field(default_factory=lambda: {annotation}(){rename})"
        elif rename:
            value = f" = field(default={default}{rename})" if default else f" = field({rename[2:]})"
        else:
            value = f" = {default}" if default else ""
        module.uses_field |= "field(" in value
        return f"{name}: {annotation}{value}"

    def _default(self, wire: str, schema: dict[str, Any], required: bool) -> str | None:
        """The default of a field as source text; None for a field that must be given."""
        if schema.get("type") == "array":
            return "[]"
        if "additionalProperties" in schema:
            return "{}"
        target = reference(schema)
        if by_value(wire, schema) and target is not None and self._has_empty(target):
            return EMPTY
        if target in TIMES or not (required or (by_value(wire, schema) and wire == "spec")):
            return "None"
        return None

    def _has_empty(self, target: str) -> bool:
        """Whether a struct can be made from nothing."""
        schema = self._schemas[target]
        required = schema.get("required", ())
        properties = schema.get("properties", {})
        return all(self._default(wire, each, wire in required) is not None for wire, each in properties.items())

    def _annotation(self, module: Module, schema: dict[str, Any]) -> str:
        target = reference(schema)
        if target is not None:
            return self._class_name(module, target)
        match schema.get("type"), schema.get("format"):
            case "string", "byte":
                return "bytes"
            case "string", _:
                return "str"
            case "boolean", _:
                return "bool"
            case "integer", _:
                return "int"
            case "number", _:
                return "float"
            case "array", _:
                return f"list[{self._annotation(module, schema['items'])}]"
            case "object", _ if "additionalProperties" in schema:
                return f"dict[str, {self._annotation(module, schema['additionalProperties'])}]"
            case _:
                module.uses_any = True
                return "Any"

    def _class_name(self, module: Module, target: str) -> str:
        if target in SCALARS:
            module.from_meta.add(SCALARS[target])
            return SCALARS[target]
        if target in OBJECTS:
            module.uses_any = True
            return "dict[str, Any]"
        schema = self._schemas[target]
        if not schema.get("type"):
            module.uses_any = True
            return "Any"
        name = target.rpartition(".")[2]
        if target.startswith(META):
            module.from_meta.add(name)
            return name
        package, version = target.split(".")[-3:-1]
        if (package, version) == (module.package, module.version):
            return name
        module.from_groups.add((package, version))
        return f"{package}_{version}.{name}"


def by_value(wire: str, schema: dict[str, Any]) -> bool:
    """Whether it is one of the fields that are never None: Go holds its struct by value."""
    return schema.get("default") == {} and wire in ("metadata", "spec", "status")


def heading(module: Module) -> str:
    gv = f"{module.group}/{module.version}" if module.group else module.version
    text = f'"""The kinds of `{gv}`. Generated by tools/generate_apis.py; do not edit."""\n\n'
    text += "from __future__ import annotations\n\n"
    if module.uses_any:
        text += "from typing import Any\n\n"
    for package, version in sorted(module.from_groups):
        text += f"from kubewright.apis.{package} import {version} as {package}_{version}\n"
    if module.from_meta:
        text += f"from kubewright.models.meta import {', '.join(sorted(module.from_meta))}\n"
    if module.uses_objects:
        text += "from kubewright.models.resource import APIResource, Object\n"
    from_struct = ["Struct"] * module.uses_structs + ["field"] * module.uses_field
    if from_struct:
        text += f"from kubewright.models.struct import {', '.join(from_struct)}\n"
    return text


def api_resource(module: Module, kind: str, facts: Resource) -> str:
    args = [module.group, module.version, kind, facts.plural, facts.singular]
    text = ", ".join(json.dumps(each) for each in args)
    if not facts.namespaced:
        text += ", namespaced=False"
    for name in ("short_names", "categories", "subresources"):
        if value := getattr(facts, name):
            text += f", {name}={value!r}"
    return f"APIResource({text})"


def docstring(description: str) -> list[str]:
    sentence = re.split(r"(?<=[.!?])\s+(?=[A-Z`\"'(])|\n\s*\n", description.strip(), maxsplit=1)[0]
    text = " ".join(sentence.split()).replace("\\", "\\\\").replace('"""', "'''")
    if not text:
        return []
    if text.endswith('"'):
        text += " "
    return textwrap.wrap(f'"""{text}"""', 116, initial_indent="    ", subsequent_indent="    ", break_long_words=False)


def reference(schema: dict[str, Any]) -> str | None:
    chosen = schema.get("$ref") or next((each["$ref"] for each in schema.get("allOf", ()) if "$ref" in each), None)
    return chosen.rpartition("/")[2] if chosen else None


def is_list(schema: dict[str, Any]) -> bool:
    metadata = schema.get("properties", {}).get("metadata", {})
    return reference(metadata) == META + "ListMeta"


def package_of(group: str) -> str:
    return group.split(".")[0] or "core"


def python_name(wire: str) -> str:
    plain = wire.lstrip("$").replace("-", "_")
    plain = re.sub(r"([A-Z]{2,})s(?=$|[A-Z])", lambda found: found[1].capitalize() + "s", plain)
    plain = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", plain)
    plain = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", plain).lower()
    return f"{plain}_" if keyword.iskeyword(plain) or plain in RESERVED else plain


def wire_name(name: str) -> str:
    """The name that msgspec's `rename="camel"` gives to a Python name."""
    first, *others = name.rstrip("_").split("_")
    return first + "".join(each.title() for each in others)


def read_schemas(folder: Path) -> dict[str, dict[str, Any]]:
    schemas: dict[str, dict[str, Any]] = {}
    for file in sorted((folder / "openapi-spec" / "v3").glob("*_openapi.json")):
        schemas |= json.loads(file.read_text())["components"].get("schemas", {})
    return schemas


def read_resources(folder: Path) -> dict[tuple[str, str, str], Resource]:
    """What is served, by group, version and kind."""
    found: dict[tuple[str, str, str], Resource] = {}
    for group in json.loads((folder / "discovery" / "aggregated_v2.json").read_text())["items"]:
        for version in group["versions"]:
            for each in version["resources"]:
                kind = each["responseKind"]["kind"]
                found[group["metadata"].get("name", ""), version["version"], kind] = Resource(
                    each["resource"],
                    each["singularResource"],
                    each["scope"] == "Namespaced",
                    tuple(each.get("shortNames", ())),
                    tuple(each.get("categories", ())),
                    tuple(sub["subresource"] for sub in each.get("subresources", ())),
                )
    core = json.loads((folder / "discovery" / "api__v1.json").read_text())["resources"]
    for each in core:
        if "/" not in each["name"]:
            subresources = (other["name"] for other in core if other["name"].startswith(each["name"] + "/"))
            found["", "v1", each["kind"]] = Resource(
                each["name"],
                each["singularName"],
                each["namespaced"],
                tuple(each.get("shortNames", ())),
                tuple(each.get("categories", ())),
                tuple(name.partition("/")[2] for name in subresources),
            )
    return found


def main(folder: Path) -> None:
    generator = Generator(read_schemas(folder), read_resources(folder))
    for module, text in generator.modules():
        package = TARGET / module.package
        package.mkdir(exist_ok=True)
        group = module.group or "the core group"
        (package / "__init__.py").write_text(f'"""The kinds of {group}, one module a version."""\n')
        (package / f"{module.version}.py").write_text(text)
    subprocess.run(["ruff", "format", "--config", "extend-exclude = []", "--no-force-exclude", str(TARGET)], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
