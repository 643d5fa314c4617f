"""A module for each group version that CustomResourceDefinitions have, with classes for its kinds.

From the classes the same CRD can be made again (`custom_resource_definition`), but for what is not said of types:
conversion, and what a schema says of `metadata`.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from kubewright import markers
from kubewright.apis.meta import v1 as meta
from kubewright.machinery.errors import ModelError
from kubewright.machinery.json import JSONObject, is_object
from kubewright.models._custom import plural_of
from kubewright.models._schema import struct_schema
from kubewright_cli.codegen import names
from kubewright_cli.codegen.fields import field_lines
from kubewright_cli.codegen.layout import Code, call, declaration, docstring, lines, listed, literal, quoted
from kubewright_cli.codegen.markers import markers_of

HEADER: Final = "# Made by `kubewright generate models`, which writes it anew: change nothing here.\n"
"""The first line of each module."""

_APPROVED: Final = "api-approved.kubernetes.io"
_MODULES: Final = {
    "typing": ("Annotated", "Any", "Literal"),
    "kubewright.apis.meta.v1": (
        "JSON",
        "Condition",
        "Int32",
        "Int64",
        "IntOrString",
        "LabelSelector",
        "Quantity",
        "RawExtension",
        "Time",
    ),
    "kubewright.markers": tuple(name for name, each in vars(markers).items() if inspect.isfunction(each)),
    "kubewright.models": ("UNSET", "CustomResource", "Model", "PrintColumn", "Scale", "UnsetType", "field"),
}
"""What the classes of a module may need, and where it is from."""


def modules(crds: Iterable[JSONObject]) -> dict[str, str]:
    """The source of each module that `crds`, CustomResourceDefinitions of apiextensions.k8s.io/v1, make, by its name.

    Raises ModelError for a document that is none, and for a version without a structural schema.
    """
    return {name: module.source() for name, module in modules_of(crds).items()}


def modules_of(crds: Iterable[JSONObject]) -> dict[str, Module]:
    """The same modules, with the kinds that are in each. Raises ModelError."""
    made: dict[str, Module] = {}
    for crd in crds:
        if crd.get("kind") != "CustomResourceDefinition" or crd.get("apiVersion") != "apiextensions.k8s.io/v1":
            said = f"{crd.get('kind')} of {crd.get('apiVersion')}"
            raise ModelError(f"a CustomResourceDefinition of apiextensions.k8s.io/v1 is needed, and this is {said}")
        for version in crd["spec"]["versions"]:
            group = crd["spec"]["group"]
            name = names.module(group, version["name"])
            made.setdefault(name, Module(group, version["name"])).add(crd, version)
    return dict(sorted(made.items()))


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind in a module."""

    name: str
    class_name: str
    """Another than its name where that is something else's."""
    accessor: str
    """Its plural, as a name in Python."""
    namespaced: bool


class Module:
    """The module of a group and version, while it is being made."""

    def __init__(self, group: str, version: str) -> None:
        self.group = group
        self.version = version
        self.kinds: list[Kind] = []
        self._classes: list[str] = []
        self._taken: set[str] = {name for each in _MODULES.values() for name in each}
        self._known: dict[str, str] = {}

    def source(self) -> str:
        body = "\n\n\n".join(self._classes)
        about = f'"""The kinds of {self.group}/{self.version}, from their CustomResourceDefinitions."""'
        waived = "# ruff: noqa: E501, RUF100 - descriptions are their authors', line by line"
        head = [HEADER.rstrip(), waived, about, "", "from __future__ import annotations", *_imports(body)]
        return "\n".join(head) + f"\n\n\n{body}\n"

    def add(self, crd: JSONObject, version: JSONObject) -> None:
        """Make the class of a kind and those of its structures."""
        kind = crd["spec"]["names"]["kind"]
        judged: JSONObject = version.get("schema") or {}
        schema: JSONObject = judged.get("openAPIV3Schema") or {}
        if not schema:
            raise ModelError(f"{crd['metadata']['name']}: version {version['name']} has no schema")
        own = ("apiVersion", "kind", "metadata")
        declared: JSONObject = schema.get("properties") or {}
        properties = {key: value for key, value in declared.items() if key not in own}
        name = names.unique(kind, self._taken)
        self._taken.add(name)
        accessor = names.attribute(crd["spec"]["names"]["plural"], {each.accessor for each in self.kinds})
        self.kinds.append(Kind(kind, name, accessor, crd["spec"]["scope"] == "Namespaced"))
        options = _arguments(crd, version, name) | _markers(schema)
        self._class(
            name, {**schema, "properties": properties}, call(f"class {name}", "CustomResource", **options), of_kind=True
        )

    def _nested(self, schema: JSONObject, name: str) -> str:
        """The name of the class for `schema`: one that is there already when it is the same."""
        if shared := _shared().get(_key(_undescribed(schema))):
            return shared
        key = _key(schema)
        if key not in self._known:
            name = self._known[key] = names.unique(name, self._taken)
            self._taken.add(name)
            self._class(name, schema, call(f"class {name}", "Model", **_markers(schema)))
        return self._known[key]

    def _class(self, name: str, schema: JSONObject, head: Code, *, of_kind: bool = False) -> None:
        required: list[str] = schema.get("required") or []
        properties: JSONObject = schema.get("properties") or {}
        taken: set[str] = set()
        body: list[str] = []
        for wire, each in properties.items():
            attribute = names.attribute(wire, taken, of_kind=of_kind)
            taken.add(attribute)
            body += self._field(name, attribute, wire, each, required=wire in required, of_kind=of_kind)
        about = docstring(schema.get("description") or "")
        if about and body:
            about.append("")
        inside = [*about, *body] or ["    pass"]
        self._classes.append("\n".join([*lines(head, after=":"), *inside]))

    def _field(
        self, owner: str, attribute: str, wire: str, schema: JSONObject, *, required: bool, of_kind: bool
    ) -> list[str]:
        """A field with its docstring, where its class has none that says the same."""
        held: list[str] = []

        def nested(schema: JSONObject) -> str:
            held.append(self._nested(schema, names.class_name(owner, wire)))
            return held[-1]

        declared = field_lines(attribute, wire, schema, required=required, classes=nested)
        if of_kind and wire == "status" and held and not schema.keys() & {"required", "default", "nullable"}:
            declared = declaration("status", held[0], call("field", default_factory=held[0]))
        own = schema.get("type") == "object" and not is_object(schema.get("additionalProperties"))
        if held and own and held[0] not in _shared().values():
            return declared
        return declared + docstring(schema.get("description") or "")


@cache
def _shared() -> dict[str, str]:
    """The names of structures that many kinds have, and that functions of the SDK take, by what they say."""
    return {_key(_undescribed(struct_schema(each))): each.__name__ for each in (meta.Condition, meta.LabelSelector)}


def _key(schema: JSONObject) -> str:
    return json.dumps(schema, sort_keys=True)


def _undescribed(schema: JSONObject) -> JSONObject:
    """`schema` without its descriptions and those of what is in it."""
    out = {key: value for key, value in schema.items() if key != "description"}
    if properties := out.get("properties"):
        out["properties"] = {key: _undescribed(each) for key, each in properties.items()}
    return out | {key: _undescribed(out[key]) for key in ("items", "additionalProperties") if is_object(out.get(key))}


def _markers(schema: JSONObject) -> dict[str, Code]:
    shown = ("type", "description", "properties", "required")
    found = markers_of({key: value for key, value in schema.items() if key not in shown}, "object")
    return {"markers": listed(found)} if found else {}


def _arguments(crd: JSONObject, version: JSONObject, name: str) -> dict[str, Code]:
    """The class arguments of a kind, those that are not what they would be anyhow."""
    spec = crd["spec"]
    subresources: JSONObject = version.get("subresources") or {}
    properties: JSONObject = version["schema"]["openAPIV3Schema"].get("properties") or {}
    called, scale, has_status = spec["names"], subresources.get("scale"), "status" in subresources
    singular = called.get("singular") or called["kind"].lower()
    columns = [_column(each) for each in version.get("additionalPrinterColumns") or ()]
    annotations: JSONObject = crd["metadata"].get("annotations") or {}
    approval = annotations.get(_APPROVED)
    warning = version.get("deprecationWarning")
    said: dict[str, tuple[bool, Any]] = {
        "group": (True, spec["group"]),
        "version": (True, version["name"]),
        "kind": (called["kind"] != name, called["kind"]),
        "plural": (called["plural"] != plural_of(called["kind"].lower()), called["plural"]),
        "singular": (singular != called["kind"].lower(), singular),
        "short_names": (bool(called.get("shortNames")), called.get("shortNames")),
        "categories": (bool(called.get("categories")), called.get("categories")),
        "status_subresource": (has_status != ("status" in properties), has_status),
        "namespaced": (spec["scope"] == "Cluster", False),
        "storage": (not version["storage"], False),
        "served": (not version["served"], False),
        "deprecated": (bool(version.get("deprecated")), warning or True),
        "selectable_fields": (
            bool(version.get("selectableFields")),
            [each["jsonPath"] for each in version.get("selectableFields") or ()],
        ),
        "annotations": (approval is not None, {_APPROVED: approval}),
    }
    options = {key: literal(value) for key, (wanted, value) in said.items() if wanted}
    if columns:
        options["columns"] = listed(columns)
    if scale:
        options["scale"] = _scale(scale)
    return options


def _column(column: JSONObject) -> Code:
    rest = {key: literal(column[key]) for key in ("type", "format", "priority", "description") if column.get(key)}
    if column["type"] == "string":
        del rest["type"]
    return call("PrintColumn", quoted(column["name"]), quoted(column["jsonPath"]), **rest)


def _scale(scale: JSONObject) -> Code:
    pairs = (
        ("replicas", scale["specReplicasPath"], ".spec.replicas"),
        ("status_replicas", scale["statusReplicasPath"], ".status.replicas"),
        ("selector", scale.get("labelSelectorPath") or "", ""),
    )
    return call("Scale", **{name: quoted(path) for name, path, usual in pairs if path != usual})


def _imports(body: str) -> list[str]:
    """The imports that the classes need, as an import sorter writes them."""
    code = re.sub(r'"""(?:[^"\\]|\\.|"(?!""))*"""', "", body)
    words = set(re.findall(r"\w+", re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', code)))
    out: list[str] = []
    for module, offered in _MODULES.items():
        used = sorted(words & set(offered), key=lambda name: (not name.isupper(), name[0].islower(), name.lower()))
        if used:
            if not out or out[-1].startswith("from typing"):
                out.append("")
            line = f"from {module} import {', '.join(used)}"
            out += [line] if len(line) <= 88 else [f"from {module} import (", *(f"    {each}," for each in used), ")"]
    return out
