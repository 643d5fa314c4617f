"""One kind's schema, compiled: decode, default and validate its documents.

A `Schema` is built once for a kind and used for all its documents. A write calls `prune` (which decodes), `default`
and `validate`, in this order. Each visits the document once, in place, with closures compiled for this schema.
Merging and field ownership read `Schema.root`.

Follows k8s.io/apiextensions-apiserver for custom kinds and encoding/json with apimachinery's types for built-in ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from kubewright.machinery.fields import FieldError
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.schema.node import Components, Node, from_structural, inline_structs
from kubewright_controlplane.schema.structural.decode import Decoder, compile_decoder
from kubewright_controlplane.schema.structural.default import Defaulter, compile_defaulter
from kubewright_controlplane.schema.structural.meta import object_meta, type_meta
from kubewright_controlplane.schema.structural.validation import Validator, compile_validator


class Schema:
    """The schema of one kind. Each of its parts is compiled on first use."""

    def __init__(self, root: Node) -> None:
        self.root = root

    @classmethod
    def from_openapi(cls, reference: str, components: Mapping[str, JSONObject] | Components) -> Schema:
        """Build the schema of a built-in kind.

        `reference` is a `$ref` or the name of a component. `components` are OpenAPI v3 schemas by name; every
        `default` in them is set. Kinds that share one `Components` share the nodes that they have in common. Raises
        KeyError for an unknown component.
        """
        shared = components if isinstance(components, Components) else Components(components)
        return cls(shared.node(reference.rpartition("/")[2]))

    @classmethod
    def from_crd(cls, schema: JSONObject) -> Schema:
        """Build the schema of a custom kind from the `openAPIV3Schema` of a CustomResourceDefinition, which `check`
        has accepted.
        """
        metadata = object_meta()
        root = from_structural(schema, metadata)
        root.embedded = True
        root.properties = {"apiVersion": type_meta(), "kind": type_meta(), **root.properties, "metadata": metadata}
        return cls(root)

    def prune(self, obj: JSONObject) -> list[str]:
        """Decode `obj` in place as Go does. Returns the paths of unknown fields, which are dropped.

        In a built-in kind, and in any kind's `metadata`, nulls, empty optional lists and maps, and zeros that Go does
        not distinguish from absent values are dropped too. Quantities, times and durations are normalized. Raises
        DecodeError with Go's message (`json: cannot unmarshal string into Go struct field
        DeploymentSpec.spec.replicas of type int32`) for a value of the wrong type.
        """
        return self._decode(obj) or []

    def default(self, obj: JSONObject) -> None:
        """Set the defaults of absent fields, in place. In a custom kind, also drop nulls that are not allowed."""
        self._default(obj)

    def validate(self, obj: JSONObject, old: JSONObject | None = None) -> list[FieldError]:
        """Return the faults of `obj`, in the words of the API server; always empty for a built-in kind.

        `old` is the object before an update. With it, faults in unchanged values are not reported (ratcheting), and
        transition rules are evaluated.
        """
        return self._validate(obj, old) if self._validate is not None else []

    @cached_property
    def empty(self) -> JSONObject:
        """The empty object of this kind, with the fields that Go always writes. Must not be changed."""
        return inline_structs(self.root)

    @cached_property
    def _decode(self) -> Decoder:
        return compile_decoder(self.root)

    @cached_property
    def _default(self) -> Defaulter:
        return compile_defaulter(self.root)

    @cached_property
    def _validate(self) -> Validator | None:
        return None if self.root.builtin else compile_validator(self.root)
