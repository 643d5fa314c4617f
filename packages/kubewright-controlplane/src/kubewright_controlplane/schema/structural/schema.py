"""One kind's schema, compiled: decode, default and validate its documents.

`Schema` is built once for a kind and used for every document of it. In the order of a write: `prune` (which decodes),
`default`, `validate`. Each walks the document once, in place, with closures that were made for this very schema.
What else is done by schema (merging, ownership) reads `Schema.root`.

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
    """What documents of one kind look like. Compiles each of its parts when it is first used."""

    def __init__(self, root: Node) -> None:
        self.root = root

    @classmethod
    def from_openapi(cls, reference: str, components: Mapping[str, JSONObject] | Components) -> Schema:
        """The schema of a built-in kind.

        `reference` is a `$ref` or a component's name; `components` are OpenAPI v3 schemas by name, in which every
        `default` is one to be set. Several kinds that share one `Components` share what they have in common.
        Raises KeyError for a component that there is not.
        """
        shared = components if isinstance(components, Components) else Components(components)
        return cls(shared.node(reference.rpartition("/")[2]))

    @classmethod
    def from_crd(cls, schema: JSONObject) -> Schema:
        """The schema of a custom kind: `openAPIV3Schema` of a CustomResourceDefinition that `check` has accepted."""
        metadata = object_meta()
        root = from_structural(schema, metadata)
        root.embedded = True
        root.properties = {"apiVersion": type_meta(), "kind": type_meta(), **root.properties, "metadata": metadata}
        return cls(root)

    def prune(self, obj: JSONObject) -> list[str]:
        """Decode `obj` in place as Go does; give the paths of unknown fields, which are dropped.

        In a built-in kind, and in any kind's `metadata`, nulls, empty optional lists and maps, and zeroes that Go
        cannot tell from absent values are dropped too; quantities, times and durations are put into canonical form.
        Raises DecodeError with Go's text (`json: cannot unmarshal string into Go struct field
        DeploymentSpec.spec.replicas of type int32`) when a value there has the wrong type.
        """
        return self._decode(obj) or []

    def default(self, obj: JSONObject) -> None:
        """Set what `obj` does not say and its schema does, in place; in a custom kind also settle its nulls."""
        self._default(obj)

    def validate(self, obj: JSONObject, old: JSONObject | None = None) -> list[FieldError]:
        """What is wrong with `obj`, in the words of the API server; nothing for a built-in kind.

        With `old`, the object before an update: faults in what has not changed are not told (ratcheting), and rules
        that compare with the old value are checked.
        """
        return self._validate(obj, old) if self._validate is not None else []

    @cached_property
    def empty(self) -> JSONObject:
        """The object of this kind that says nothing, with what Go writes of it in any case. Not to be changed."""
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
