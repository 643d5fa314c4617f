"""A schema as a tree of nodes, which the compilers of this package read.

Built-in kinds are OpenAPI v3 components that refer to each other. CustomResourceDefinition refers to itself, so the
tree may be a graph. Where Go holds a struct by value, not by pointer, the component has `x-kubewright-inline`
(published documents have a `default` of `{}` instead), and `x-kubewright-zero` for a scalar. Custom kinds are one
structural schema without references. What both have in common (shape, defaults, merge behavior) is in the nodes. The
value validation of a custom kind stays in `spec`, as written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Final, Literal, TypeAlias

from kubewright.machinery.json import JSONObject, is_array, is_object

Special: TypeAlias = Literal["", "any", "bytes", "duration", "int-or-string", "micro-time", "quantity", "time"]
ListType: TypeAlias = Literal["atomic", "map", "set"]
MapType: TypeAlias = Literal["atomic", "granular"]
Zero: TypeAlias = Literal["", "omitted", "written"]

NO_DEFAULT: Final = object()
ZEROES: Final[dict[str, Any]] = {"string": "", "boolean": False, "integer": 0, "number": 0}
"""Go's zero value of each type."""

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_APIEXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_SPECIAL_COMPONENTS: Final[dict[str, Special]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    _META + "Time": "time",
    _META + "MicroTime": "micro-time",
    _META + "Duration": "duration",
    _META + "FieldsV1": "any",
    _META + "Patch": "any",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "any",
    _APIEXTENSIONS + "JSON": "any",
    _APIEXTENSIONS + "JSONSchemaPropsOrArray": "any",
    _APIEXTENSIONS + "JSONSchemaPropsOrBool": "any",
    _APIEXTENSIONS + "JSONSchemaPropsOrStringArray": "any",
}
_SCHEMA_PROPS: Final = _APIEXTENSIONS + "JSONSchemaProps"


_OMITTED_LISTS: Final[dict[str, str]] = {
    "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec": "validationActions",
}
"""Required lists that Go omits if they are empty. It writes others as null."""
_WRITTEN_TIMES: Final[dict[str, tuple[str, ...]]] = {
    _META + "Condition": ("lastTransitionTime",),
    "io.k8s.api.apps.v1.DaemonSetCondition": ("lastTransitionTime",),
    "io.k8s.api.apps.v1.DeploymentCondition": ("lastUpdateTime", "lastTransitionTime"),
    "io.k8s.api.apps.v1.ReplicaSetCondition": ("lastTransitionTime",),
    "io.k8s.api.apps.v1.StatefulSetCondition": ("lastTransitionTime",),
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerCondition": ("lastTransitionTime",),
    "io.k8s.api.batch.v1.JobCondition": ("lastProbeTime", "lastTransitionTime"),
    "io.k8s.api.certificates.v1.CertificateSigningRequestCondition": ("lastUpdateTime", "lastTransitionTime"),
    "io.k8s.api.core.v1.ContainerStateRunning": ("startedAt",),
    "io.k8s.api.core.v1.ContainerStateTerminated": ("startedAt", "finishedAt"),
    "io.k8s.api.core.v1.NamespaceCondition": ("lastTransitionTime",),
    "io.k8s.api.core.v1.NodeCondition": ("lastHeartbeatTime", "lastTransitionTime"),
    "io.k8s.api.core.v1.PersistentVolumeClaimCondition": ("lastProbeTime", "lastTransitionTime"),
    "io.k8s.api.core.v1.PodCondition": ("lastProbeTime", "lastTransitionTime"),
    "io.k8s.api.core.v1.ReplicationControllerCondition": ("lastTransitionTime",),
    "io.k8s.api.flowcontrol.v1.FlowSchemaCondition": ("lastTransitionTime",),
    "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationCondition": ("lastTransitionTime",),
    "io.k8s.api.storage.v1.VolumeError": ("time",),
}
"""Times that Go holds by value, so it writes null for an absent one."""


@dataclass(slots=True, eq=False)
class Node:
    """What a schema says about one place in a document."""

    type: str = ""
    """The type in JSON Schema; empty if values of any type are allowed."""
    special: Special = ""
    """A type of a built-in kind that has its own text form."""
    go_type: str = ""
    """The Go type that a built-in kind's value is decoded into, for decoding errors; empty for custom kinds."""
    alternative: Node | None = None
    """The struct that a value of special type `any` may be, and then has to fit: JSONSchemaProps in a CRD."""
    properties: dict[str, Node] = field(default_factory=dict["str", "Node"])
    values: Node | None = None
    """The values of a map (`additionalProperties`)."""
    items: Node | None = None
    required: frozenset[str] = frozenset()
    default: object = NO_DEFAULT
    nullable: bool = False
    inline: bool = False
    """A struct that Go holds by value, so it is always present, even if empty."""
    zero: Zero = ""
    """For a scalar that Go holds by value, so that zero and absent are the same: whether Go writes or omits a zero.
    Also for the few lists that are required and omitted.
    """
    preserve: bool = False
    """Unknown fields are preserved."""
    untyped: bool = False
    """The value, or a part of it, may have any type. Only set for custom kinds, where it matters for equality."""
    embedded: bool = False
    """An embedded resource: a whole object with apiVersion, kind and metadata."""
    list_type: ListType = "atomic"
    list_keys: tuple[str, ...] = ()
    map_type: MapType = "granular"
    patch_strategies: frozenset[str] = frozenset()
    """`merge`, `replace`, `retainKeys`: how a strategic merge patch treats the value."""
    patch_key: str = ""
    """The key that identifies the items of a list in a strategic merge patch."""
    spec: JSONObject = field(default_factory=dict[str, Any])
    """The schema as written, for value validation; empty in built-in kinds."""

    @property
    def builtin(self) -> bool:
        return bool(self.go_type)

    @property
    def is_map(self) -> bool:
        """Whether its keys are data, not names of fields."""
        return self.type == "object" and not self.properties and self.values is not None

    def child(self, key: str) -> Node | None:
        """Return the node of a field, or of a map's value; None if the schema does not know it."""
        return self.properties.get(key, self.values)


def fallback(node: Node) -> object:
    """Return the value of an absent field: the default, or the zero that Go always writes; else NO_DEFAULT."""
    if node.default is NO_DEFAULT and node.zero == "written":
        return _written_zero(node)
    return node.default


def _written_zero(node: Node) -> object:
    return None if node.special else ZEROES[node.type]


class Components:
    """The nodes of built-in kinds. Each component is built once, by one thread at a time."""

    def __init__(self, components: Mapping[str, JSONObject]) -> None:
        self._components = components
        self._built: dict[str, Node] = {}
        self._lock = Lock()

    def node(self, name: str) -> Node:
        """Return the node of a component by its OpenAPI name. Raises KeyError for an unknown name."""
        with self._lock:
            return self._node(name)

    def _node(self, name: str) -> Node:
        built = self._built.get(name)
        if built is None:
            special = _SPECIAL_COMPONENTS.get(name, "")
            package, _, kind = name.rpartition(".")
            built = Node(go_type=f"{package.rpartition('.')[2]}.{kind}", special=special)
            self._built[name] = built
            if name.startswith(f"{_SCHEMA_PROPS}Or"):
                built.alternative = self._node(_SCHEMA_PROPS)
            self._fill(built, self._components[name])
            if field := _OMITTED_LISTS.get(name):
                built.properties[field] = replace(built.properties[field], zero="omitted")
            for field in _WRITTEN_TIMES.get(name, ()):
                built.properties[field] = replace(built.properties[field], zero="written")
        return built

    def _of(self, schema: JSONObject) -> Node:
        """Return the node of a schema inside a component. A reference shares the component's node, or copies it to
        override parts.
        """
        reference = schema.get("$ref") or next((each["$ref"] for each in schema.get("allOf", ()) if "$ref" in each), "")
        if not reference:
            node = Node()
            self._fill(node, schema)
            return node
        shared = self._node(reference.rpartition("/")[2])
        facts = _merge_facts(schema)
        if "default" in schema:
            facts["default"] = schema["default"]
        if schema.get("x-kubewright-inline"):
            facts["inline"] = True
        return replace(shared, **facts) if facts else shared

    def _fill(self, node: Node, schema: JSONObject) -> None:
        node.type = schema.get("type", "")
        node.required = frozenset(schema.get("required", ()))
        node.default = schema.get("default", NO_DEFAULT)
        node.zero = schema.get("x-kubewright-zero", "")
        node.nullable = True
        for name, value in _merge_facts(schema).items():
            setattr(node, name, value)
        if not node.special:
            node.special = _special_format(schema)
        for key, child in schema.get("properties", {}).items():
            node.properties[key] = self._of(child)
        values = schema.get("additionalProperties")
        if is_object(values):
            node.values = self._of(values)
        if "items" in schema:
            node.items = self._of(schema["items"])
        if node.type == "object" and not node.properties and node.values is None and not node.special:
            node.special = "any"
        node.go_type = node.go_type or _go_type(node, schema)


def from_structural(schema: JSONObject, metadata: Node) -> Node:
    """Return the node of a structural schema, with all nodes below it. `metadata` is the node of an embedded
    resource's metadata.
    """
    node = Node(
        type=schema.get("type", ""),
        special="int-or-string" if schema.get("x-kubernetes-int-or-string") else "",
        required=frozenset(schema.get("required") or ()),
        default=schema["default"] if schema.get("default") is not None else NO_DEFAULT,
        nullable=bool(schema.get("nullable")),
        preserve=bool(schema.get("x-kubernetes-preserve-unknown-fields")),
        embedded=bool(schema.get("x-kubernetes-embedded-resource")),
        spec=schema,
    )
    for name, value in _merge_facts(schema).items():
        setattr(node, name, value)
    properties: JSONObject = schema.get("properties") or {}
    node.properties = {key: from_structural(child, metadata) for key, child in properties.items()}
    if node.embedded:
        node.properties["metadata"] = metadata
    values = schema.get("additionalProperties")
    if is_object(values):
        node.values = from_structural(values, metadata)
    elif values is True:
        node.values = Node(preserve=True, nullable=True, untyped=True)
    items = schema.get("items")
    if is_object(items):
        node.items = from_structural(items, metadata)
    below = [*node.properties.values(), *(each for each in (node.values, node.items) if each is not None)]
    node.untyped = node.preserve or not node.type or any(each.untyped for each in below)
    return node


def inline_structs(node: Node) -> JSONObject:
    """Return an empty value of a built-in kind's struct, with the fields that Go always writes."""
    out: JSONObject = {}
    for key, child in node.properties.items():
        if child.zero == "written":
            out[key] = _written_zero(child)
        elif child.inline and child.properties:
            out[key] = inline_structs(child)
    return out


def _merge_facts(schema: JSONObject) -> dict[str, Any]:
    """Return what a schema says about merging, by the attribute names of a node."""
    facts: dict[str, Any] = {}
    if "x-kubernetes-list-type" in schema:
        facts["list_type"] = schema["x-kubernetes-list-type"]
    if is_array(keys := schema.get("x-kubernetes-list-map-keys")):
        facts["list_keys"] = tuple(keys)
    if "x-kubernetes-map-type" in schema:
        facts["map_type"] = schema["x-kubernetes-map-type"]
    if "x-kubernetes-patch-strategy" in schema:
        facts["patch_strategies"] = frozenset(schema["x-kubernetes-patch-strategy"].split(","))
    if "x-kubernetes-patch-merge-key" in schema:
        facts["patch_key"] = schema["x-kubernetes-patch-merge-key"]
    return facts


def _special_format(schema: JSONObject) -> Special:
    match schema.get("format"):
        case "int-or-string":
            return "int-or-string"
        case "date-time":
            return "time"
        case "byte":
            return "bytes"
        case _:
            return "any" if not schema.get("type") and "oneOf" not in schema else ""


def _go_type(node: Node, schema: JSONObject) -> str:
    match node.type:
        case "string":
            return "[]uint8" if node.special == "bytes" else "string"
        case "integer":
            return str(schema.get("format", "int64"))
        case "number":
            return "float64"
        case "boolean":
            return "bool"
        case "array":
            return f"[]{node.items.go_type if node.items else 'interface {}'}"
        case _:
            return f"map[string]{node.values.go_type if node.values else 'interface {}'}"
