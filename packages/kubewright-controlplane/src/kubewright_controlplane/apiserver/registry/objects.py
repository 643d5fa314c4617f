"""The documents of a resource: from and to stored bytes, and made to fit the kind's schema.

Stored bytes start with kind and apiVersion and contain the object's resourceVersion. So they can be used unchanged as
an answer, an item of a list, and the object of a watch event.

Documents of clients are conformed: unknown fields are dropped, and reported as the client asked (KEP-2885).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec

from kubewright.machinery.errors import BadRequest, DecodeError, InternalError
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONObject, copied, is_object, quoted
from kubewright_controlplane.apiserver.registry.failures import full_name, kind_text
from kubewright_controlplane.apiserver.registry.model import Resource
from kubewright_controlplane.apiserver.registry.options import WriteCall, WrittenField
from kubewright_controlplane.apiserver.storage.events import Entry
from kubewright_controlplane.schema.ownership.declared import undeclared
from kubewright_controlplane.schema.steps import is_short
from kubewright_controlplane.schema.structural.decode import WrongType, json_kind
from kubewright_controlplane.schema.structural.schema import Schema

_YAML_ERRORS = "yaml: unmarshal errors:\n"
LARGEST_STORED = 1536 * 1024
"""Bytes of an object and its key, as in etcd."""
_LARGEST_CHECKED = 4 << 20
"""Bytes of an object with defaults. A larger one is rejected at once, not when it has been validated."""
_STRICT_ERRORS = 100
"""As many errors of strict decoding are reported."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(dict[str, Any])

encode_json = _encoder.encode
decode_json = _decoder.decode


def key_of(namespace: str, name: str) -> str:
    """Return the key under which a store keeps an object."""
    return f"{namespace}/{name}" if namespace else name


def encode(resource: Resource, obj: JSONObject) -> bytes:
    """Encode an object of `resource` as JSON, with kind and apiVersion first."""
    first = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": obj["metadata"]}
    return _encoder.encode(first | {key: value for key, value in obj.items() if key not in first})


def to_stored(resource: Resource, obj: JSONObject) -> bytes:
    """Encode an object of `resource` in the resource's storage version."""
    if resource.to_storage is None:
        return encode(resource, obj)
    stored = resource.to_storage(obj)
    first = {"kind": stored["kind"], "apiVersion": stored["apiVersion"]}
    return _encoder.encode(first | stored)


def from_stored(resource: Resource, data: bytes) -> JSONObject:
    """Decode a stored object in `resource`'s version. The caller may change the document."""
    obj = _decoder.decode(data)
    return obj if resource.from_storage is None else resource.from_storage(obj)


def converted(obj: JSONObject, resource: Resource, target: Resource) -> JSONObject:
    """Return an object of `resource` in the version of `target`, which is served from the same stored objects."""
    if target is resource:
        return obj
    if target.converter is not None and target.from_storage is not None:
        return target.from_storage(obj)
    stored = obj if resource.to_storage is None else resource.to_storage(copied(obj))
    other = stored if target.from_storage is None else target.from_storage(stored if stored is not obj else copied(obj))
    return other | {"kind": target.kind, "apiVersion": target.api_version}


def served(resource: Resource, entry: Entry) -> bytes:
    """Return a stored object as JSON in `resource`'s version: the stored bytes, if that is the storage version."""
    if resource.from_storage is None:
        return entry.data
    return encode(resource, from_stored(resource, entry.data))


def with_resource_version(data: bytes, revision: int) -> bytes:
    """Return stored bytes with another resourceVersion."""
    obj = _decoder.decode(data)
    obj["metadata"]["resourceVersion"] = str(revision)
    return _encoder.encode(obj)


def set_condition(obj: JSONObject, condition: JSONObject, now: str) -> None:
    """Set a condition in an object's status. Its lastTransitionTime changes only if its status does."""
    conditions: list[JSONObject] = obj.setdefault("status", {}).setdefault("conditions", [])
    for index, present in enumerate(conditions):
        if present.get("type") == condition["type"]:
            changed = now if present.get("status") != condition["status"] else present.get("lastTransitionTime", now)
            conditions[index] = {**condition, "lastTransitionTime": changed}
            return
    conditions.append({**condition, "lastTransitionTime": now})


def has_condition(obj: JSONObject, kind: str) -> bool:
    """Return whether a condition in an object's status is true."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == kind and each.get("status") == "True" for each in conditions)


# Fitting a document to its kind


class Nonconforming(BadRequest):
    """A document that cannot be read as its kind. `why` is the error alone, as the answer to a patch reports it."""

    def __init__(
        self, expected: GroupVersionKind, why: str, *, kind: str = "", version: str = "", unconverted: str = ""
    ) -> None:
        """`kind` and `version` are those in the document, if they are not the expected ones. `unconverted` is the
        error in the words that the answer to a strategic merge patch uses.
        """
        given = f'{kind or expected.kind} in version "{version or expected.version}"'
        super().__init__(f"{given} cannot be handled as a {expected.kind}: {why}")
        self.why = why
        self.unconverted = unconverted or why


def reject_undeclared(schema: Schema, kind: GroupVersionKind, config: JSONObject) -> None:
    """Raise InternalError, as a real API server does, for applied fields that the schema does not declare."""
    errors = undeclared(config, schema.root)
    if errors:
        why = errors[0] if len(errors) == 1 else "\n  ".join(("errors:", *errors))
        raise InternalError(f"failed to create typed patch object ({_named(kind, config)}): {why}", reason="")


def conform_applied(resource: Resource, config: JSONObject) -> None:
    """Bring an applied configuration into canonical form, in place. It gets no defaults, or the applier would own them.

    Raises InternalError, as a real API server does, for values that cannot be read as their types.
    """
    try:
        resource.schema.prune(config)
    except DecodeError as error:
        why = f"unable to convert unstructured object to {kind_text(resource.gvk)}: {error}"
        whole = _named(resource.gvk, config)
        raise InternalError(f"failed to convert new object ({whole}) to proper version: {why}", reason="") from error


def _named(kind: GroupVersionKind, config: JSONObject) -> str:
    return f"{full_name(config)}; {kind_text(kind)}"


def conform(resource: Resource, obj: JSONObject, call: WriteCall) -> None:
    """Drop unknown fields, bring values into their canonical form, and set defaults, in place.

    Adds warnings to `call`. Raises Nonconforming for a value that cannot be read as its type, and, with strict field
    validation, for unknown or duplicate fields.
    """
    conform_to(resource.schema, resource.gvk, obj, call)
    obj.setdefault("metadata", {})
    resource.strategy.default(obj)
    if not is_short():
        reject_larger(len(encode_json(obj)), _LARGEST_CHECKED)


def reject_larger(size: int, limit: int) -> None:
    """Raise InternalError, with etcd's words, if an object has more bytes than the limit."""
    if size > limit:
        raise InternalError("etcdserver: request is too large", reason="")


def check_metadata(obj: JSONObject, kind: GroupVersionKind) -> None:
    """Raise Nonconforming if the metadata of a document is not an object."""
    metadata = obj.get("metadata")
    if metadata is None or is_object(metadata):
        return
    found = json_kind(metadata)
    why = f"json: cannot unmarshal {found} into Go struct field {kind.kind}.metadata of type v1.ObjectMeta"
    go_kind = "slice" if found == "array" else "int64" if found == "number" else found
    raise Nonconforming(kind, why, unconverted=f"cannot restore struct from: {go_kind}")


def conform_to(schema: Schema, kind: GroupVersionKind, obj: JSONObject, call: WriteCall) -> None:
    """Conform a document to a schema, as `conform` does."""
    try:
        unknown = schema.prune(obj)
    except WrongType as error:
        raise Nonconforming(kind, str(error), unconverted=error.unconverted) from error
    except DecodeError as error:
        raise Nonconforming(kind, str(error)) from error
    if unknown or call.strict_errors or call.written:
        _report(schema, kind, unknown, call)
    schema.default(obj)


def _report(schema: Schema, kind: GroupVersionKind, unknown: list[str], call: WriteCall) -> None:
    builtin = schema.root.builtin
    if not builtin:
        unknown.sort()  # Go visits the fields of a built-in kind in written order, those of a custom kind by name
    errors = [*call.strict_errors, *strict_errors(call.written, frozenset(unknown) if builtin else frozenset())]
    if not (builtin and call.written):
        errors += (f"unknown field {quoted(path)}" for path in unknown)
    if call.options.field_validation == "Strict":
        raise Nonconforming(kind, f"strict decoding error: {', '.join(errors)}")
    if call.options.field_validation == "Warn":
        call.warnings.extend(strict_warnings(errors))


def strict_warnings(errors: Iterable[str]) -> list[str]:
    """Return the warnings for errors of strict decoding. Each line of a YAML error becomes a warning."""
    found: list[str] = []
    for error in errors:
        prefix, separator, lines = error.partition(_YAML_ERRORS)
        is_yaml = separator and prefix in ("", "error converting YAML to JSON: ")
        found += [line.strip() for line in lines.split("\n")] if is_yaml else [error]
    return found


def strict_errors(written: Sequence[WrittenField], unknown: Collection[str]) -> list[str]:
    """Return the errors about duplicate and unknown fields in the order of a body. Unknown fields are not searched."""
    errors: dict[str, None] = {}
    skipped = ""
    for path, is_duplicate in written:
        if skipped and path.startswith((f"{skipped}.", f"{skipped}[")):
            continue
        skipped = path if path in unknown else ""
        if skipped or is_duplicate:
            errors[f"{'unknown' if skipped else 'duplicate'} field {quoted(path)}"] = None
    return list(errors)[:_STRICT_ERRORS]
