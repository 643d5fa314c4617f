"""One kind's schema, compiled: decode, default and validate its documents.

A `Schema` is built once for a kind and used for all its documents. A write calls `prune` (which decodes), `default`
and `validate`, in this order. Each visits the document once, in place, with closures compiled for this schema.
Merging and field ownership read `Schema.root`.

Custom kinds are validated here: first values, then embedded resources, then lists of type set and map for duplicates,
then CEL rules. On an update, an error in an unchanged value is not reported (ratcheting, KEP-4008).

Follows k8s.io/apiextensions-apiserver for custom kinds and encoding/json with apimachinery's types for built-in ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec.structs import replace

from kubewright.machinery import json as jsons
from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, invalid, required
from kubewright.machinery.gvk import GroupVersion
from kubewright.machinery.json import JSONObject, is_array, is_object
from kubewright_controlplane.schema.lazy import lazy
from kubewright_controlplane.schema.node import Components, Node, from_structural, inline_structs
from kubewright_controlplane.schema.structural.constraints import compile_check, compile_duplicates_check
from kubewright_controlplane.schema.structural.decode import Decoder, compile_decoder
from kubewright_controlplane.schema.structural.default import Defaulter, compile_defaulter
from kubewright_controlplane.schema.structural.meta import object_meta, type_meta
from kubewright_controlplane.schema.walk import UNKNOWN_PATH, Errors, NodeCheck, Path, bracketed, compile_descent, links

if TYPE_CHECKING:
    from kubewright_controlplane.schema.cel.rules import Rules

Validator: TypeAlias = Callable[[JSONObject, JSONObject | None], list[FieldError]]

_BLOCKING: Final = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
"""After these errors, rules are not evaluated, because their values do not have the expected types."""
_UNCHECKED: Final = invalid(
    UNKNOWN_PATH,
    None,
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


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
        """Return the errors of `obj`, in the words of the API server; always empty for a built-in kind.

        `old` is the object before an update. With it, errors in unchanged values are not reported (ratcheting), and
        transition rules are evaluated.
        """
        return self._validate(obj, old) if self._validate is not None else []

    def validate_status(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        """Return the errors of an update of `status`. The rest of `obj` is only subject to rules and to the checks of
        embedded resources and lists.

        Messages name the values with paths that start in `status`, as those of the API server do.
        """
        return self._validate_status(obj, old) if self._validate_status is not None else []

    @lazy
    def empty(self) -> JSONObject:
        """Return the empty object of this kind, with the fields that Go always writes. It must not be changed."""
        return inline_structs(self.root)

    @lazy
    def _decode(self) -> Decoder:
        return compile_decoder(self.root)

    @lazy
    def _default(self) -> Defaulter:
        return compile_defaulter(self.root)

    @lazy
    def _validate(self) -> Validator | None:
        return None if self.root.builtin else compile_validator(self.root)

    @lazy
    def _validate_status(self) -> Validator | None:
        return None if self.root.builtin else compile_validator(self.root, only_status=True)


# Validation of custom kinds


def compile_validator(root: Node, *, only_status: bool = False) -> Validator:
    """Compile the validator of a whole document, or of an update of its `status`."""
    value_errors = _compile_status_check(root) if only_status else _compile_value_check(root)
    embedded_errors = compile_embedded_check(root)
    duplicates = compile_duplicates_check(root)
    rules = _rules(root)

    def validate(obj: JSONObject, old: JSONObject | None) -> list[FieldError]:
        errors = value_errors(obj, old)
        if embedded_errors is not None:
            embedded_errors(obj, None, errors)
        if duplicates is not None and (old is None or not duplicates(old)):
            errors += duplicates(obj)
        if rules is not None:
            blocked = any(error.reason in _BLOCKING for error in errors)
            errors += [_UNCHECKED] if blocked else rules.check(obj, old)
        return errors

    return validate


def _compile_value_check(root: Node) -> Callable[[Any, Any], list[FieldError]]:
    """Compile the check of a value against its schema. It takes the value and the old one, or None."""
    check = compile_check(root.spec)

    def errors_of(value: Any, old: Any) -> list[FieldError]:
        found: Errors = []
        check(value, None, found)
        if found and old is not None:
            found = [(path, error) for path, error in found if not _is_unchanged(path, value, old, root)]
        return [error for _, error in found]

    return errors_of


def _compile_status_check(root: Node) -> Validator:
    status = root.child("status")
    if status is None:
        return lambda obj, old: []
    check = _compile_value_check(status)

    def errors_of(obj: JSONObject, old: JSONObject | None) -> list[FieldError]:
        if "status" not in obj:
            return []
        errors = check(obj["status"], (old or {}).get("status"))
        return [replace(error, field=_below_status(error.field)) for error in errors]

    return errors_of


def _below_status(field: str) -> str:
    return "status" if field in ("", UNKNOWN_PATH) else f"status.{field}"


def _rules(root: Node) -> Rules | None:
    """Compile the rules of a schema. Most have none; the CEL package is imported only for those that do."""
    if not _has_rules(root.spec):
        return None
    from kubewright_controlplane.schema.cel.rules import compile_rules

    return compile_rules(root, root=True)


def _has_rules(spec: JSONObject) -> bool:
    if spec.get("x-kubernetes-validations"):
        return True
    properties: JSONObject = spec.get("properties") or {}
    below = [*properties.values(), spec.get("items"), spec.get("additionalProperties")]
    return any(_has_rules(each) for each in below if is_object(each))


def _is_unchanged(path: Path, obj: Any, old: Any, node: Node | None) -> bool:
    """Return whether the value at `path`, or one that contains it, is unchanged from the old object.

    Fields of objects are matched by name, and items of a list of type map by their keys. Items of other lists do not
    match.
    """
    if jsons.equal(obj, old):
        return True
    for depth, link in enumerate(links(path)):
        if isinstance(link, int):
            old = _same_item(obj[link], old, node)
            node = node.items if node is not None else None
        else:
            name = link if isinstance(link, str) else link[0]
            if depth == 0 and name in ("apiVersion", "kind") and node is not None and node.embedded:
                return False
            old = old.get(name) if is_object(old) else None
            node = node.child(name) if node is not None else None
            link = name
        obj = obj[link]
        if old is None:
            return False
        if jsons.equal(obj, old):
            return True
    return False


def _same_item(item: Any, old: Any, node: Node | None) -> Any:
    """Return the item of the old list with the same keys; None if the list is not of type map or has no such item."""
    if node is None or node.list_type != "map" or not is_array(old) or not is_object(item):
        return None
    keys = [item.get(key) for key in node.list_keys]
    return next((each for each in old if is_object(each) and [each.get(key) for key in node.list_keys] == keys), None)


# Embedded resources


def compile_embedded_check(root: Node) -> NodeCheck | None:
    """Compile the check of embedded resources below `root`; None if the schema has none."""
    return compile_descent(root, _compile_embedded)


def _compile_embedded(node: Node) -> NodeCheck | None:
    return compile_descent(node, _compile_embedded, _check_object if node.embedded else None)


def _check_object(value: Any, path: Path, errors: list[FieldError]) -> None:
    if not is_object(value):
        return
    for key, judge in (("apiVersion", _version_error), ("kind", _kind_error)):
        place = bracketed((path, key))
        if key not in value:
            errors.append(required(place))
        elif not isinstance(text := value[key], str):
            errors.append(invalid(place, text, "must be a string"))
        elif not text:
            errors.append(invalid(place, text, "must not be empty"))
        elif error := judge(text):
            errors.append(invalid(place, text, error))
    _check_metadata(value.get("metadata") or {}, (path, "metadata"), errors)


def _version_error(text: str) -> str:
    try:
        GroupVersion.parse(text)
    except ValueError:
        return f"unexpected GroupVersion string: {text}"
    return ""


def _kind_error(text: str) -> str:
    found = names.dns1035_label(text.lower())
    return f"may have mixed case, but should otherwise match: {','.join(found)}" if found else ""


def _check_metadata(metadata: JSONObject, path: Path, errors: list[FieldError]) -> None:
    for key in ("name", "generateName"):
        if text := metadata.get(key):
            errors.extend(invalid(bracketed((path, key)), text, error) for error in names.path_segment(text))
    labels: JSONObject = metadata.get("labels") or {}
    for key, text in labels.items():
        place = bracketed((path, "labels"))
        errors.extend(invalid(place, key, error) for error in names.qualified_name(key))
        errors.extend(invalid(place, text, error) for error in names.label_value(text))
    annotations: JSONObject = metadata.get("annotations") or {}
    for key in annotations:
        errors.extend(
            invalid(bracketed((path, "annotations")), key, error) for error in names.qualified_name(key.lower())
        )
