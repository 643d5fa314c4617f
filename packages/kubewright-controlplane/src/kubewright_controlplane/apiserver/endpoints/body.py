"""Request bodies: documents in JSON, YAML and protobuf, patches, and the errors that strict decoding reports.

Follows apiserver's runtime/serializer/json, strict decoding (KEP-2885) and pkg/endpoints/handlers/patch.go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import accumulate
from typing import Any, Never, TypeVar

import msgspec

from kubewright.machinery.errors import (
    BadRequest,
    DecodeError,
    Invalid,
    RequestTooLarge,
    StatusDetails,
    UnsupportedMediaType,
)
from kubewright.machinery.fields import invalid
from kubewright.machinery.gvk import GroupVersion, GroupVersionKind
from kubewright.machinery.json import DEPTH_LIMIT, JSONArray, JSONObject, is_array, is_object
from kubewright.machinery.patch import json_patch, merge_patch
from kubewright_controlplane.apiserver import catalog, protobuf
from kubewright_controlplane.apiserver.endpoints.answers import ENCODINGS, JSON, PROTOBUF, YAML
from kubewright_controlplane.apiserver.registry.failures import written_name
from kubewright_controlplane.apiserver.registry.model import Resource
from kubewright_controlplane.apiserver.registry.objects import (
    Nonconforming,
    decode_json,
    encode_json,
    strict_errors,
    strict_warnings,
)
from kubewright_controlplane.apiserver.registry.options import WriteCall, WrittenField
from kubewright_controlplane.schema.ownership.strategic import as_go_prints, strategic_merge_patch
from kubewright_controlplane.schema.structural.decode import json_kind
from kubewright_controlplane.schema.structural.schema import Schema

_Decoded = TypeVar("_Decoded")

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_DELETE_OPTIONS = GroupVersionKind("", "v1", "DeleteOptions")
_GO_OBJECT = "map[string]interface {}"
_GO_OPERATION = "handlers.jsonPatchOp"
_OPERATION_FIELDS = ("op", "path", "from", "value")
_NULLS = (b"", b"null", b"---")
"""YAML documents without content."""
_SHOWN_BYTES = 30
_NO_KIND = "couldn't get version/kind; json parse error: "
_ESCAPED = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<single>u[dD][89a-fA-F]..)|.)", re.DOTALL)
_MOST_PARTS = 300_000
"""Objects and lists in a body. To decode more, the parser would stop the event loop for too long."""
_NOT_BRACKETS = bytes(each for each in range(256) if each not in b"{}[]")
_STEP = {ord("{"): 1, ord("["): 1, ord("}"): -1, ord("]"): -1}

_UNKNOWN_FORMAT = (
    f"the body of the request was in an unknown format - accepted media types include: {', '.join(ENCODINGS)}"
)


def content_type(header: str) -> str:
    """Return the media type of a body, without parameters; JSON if there is no header."""
    return header.partition(";")[0].strip().lower() or JSON


def decode(body: bytes, header: str, expected: GroupVersionKind) -> JSONObject:
    """Decode a body. Raises BadRequest if it is malformed, UnsupportedMediaType for an unknown content type."""
    kind = content_type(header)
    if kind not in ENCODINGS:
        raise UnsupportedMediaType(_UNKNOWN_FORMAT)
    try:
        if kind == PROTOBUF:
            obj = _load_protobuf(body, expected)
        else:
            obj = _load_json(body) if kind == JSON else _load_yaml(body)
    except (msgspec.DecodeError, DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = str(error) if kind == YAML else f"{_NO_KIND}{error}"
        raise _unrecognized(body, expected, why) from error
    if why := _untyped(obj):
        raise _unrecognized(body, expected, why)
    return obj


def _unrecognized(body: bytes, expected: GroupVersionKind, why: str) -> BadRequest:
    text = f"the object provided is unrecognized (must be of type {expected.kind}): {why} ({_summary(body)})"
    return BadRequest(text)


def _untyped(obj: JSONObject) -> str:
    """Return why the kind or version of a document cannot be read; empty if they are texts or absent."""
    for key, value in obj.items():
        if key in ("apiVersion", "kind") and not (value is None or isinstance(value, str)):
            return f"{_NO_KIND}json: cannot unmarshal {json_kind(value)} into Go struct field .{key} of type string"
    return ""


def _summary(body: bytes) -> str:
    """Return the first bytes of a body, in hexadecimal if it is not a JSON object."""
    cut, rest = body[:_SHOWN_BYTES], " ..." if len(body) > _SHOWN_BYTES else ""
    return (cut.decode(errors="replace") if cut.startswith(b"{") else cut.hex() or "<empty>") + rest


def decode_delete_options(body: bytes, header: str) -> JSONObject:
    """Decode the DeleteOptions in a body. Raises BadRequest if they are malformed or of another kind."""
    document = decode(body, header, _DELETE_OPTIONS)
    if document.get("kind") not in (None, "", "DeleteOptions"):
        text = f'no kind "{document["kind"]}" is registered for version "{document.get("apiVersion", "")}" in scheme'
        raise BadRequest(f'{text} "pkg/runtime/scheme.go:111"')
    document = {key: value for key, value in document.items() if key not in ("kind", "apiVersion")}
    try:
        _delete_options().prune(document)
    except DecodeError as error:
        raise BadRequest(str(error)) from error
    return document


@cache
def _delete_options() -> Schema:
    return Schema.from_openapi("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", catalog.components())


def _load_protobuf(body: bytes, expected: GroupVersionKind) -> JSONObject:
    """Decode protobuf. It may have as many objects and lists as JSON, each of which takes two bytes at least."""
    obj = protobuf.decode(body, expected)
    if len(body) > 2 * _MOST_PARTS:
        check_nesting(encode_json(obj))
    return obj


def _load_yaml(body: bytes) -> JSONObject:
    from kubewright.machinery import yaml  # imported for the first YAML body

    return yaml.load(body)


def _load_json(body: bytes) -> JSONObject:
    """Decode a JSON object. `null` is an object without fields, as in Go."""
    if not body:
        raise DecodeError("unexpected end of JSON input")
    check_nesting(body)
    return {} if body.strip() == b"null" else _read_as_go(body, decode_json)


def _read_as_go(body: bytes, read: Callable[[bytes], _Decoded]) -> _Decoded:
    """Decode JSON. If it has texts that are not Unicode, it is decoded without them."""
    try:
        return read(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        valid = repaired(body)
        if valid == body:
            raise
        return read(valid)


def repaired(body: bytes) -> bytes:
    """Return JSON with U+FFFD instead of invalid UTF-8 and of single surrogates, as Go decodes it."""
    return _ESCAPED.sub(_paired, body.decode("utf-8", "replace")).encode()


def _paired(escape: re.Match[str]) -> str:
    return "\\ufffd" if escape["single"] else escape[0]


def check_nesting(data: bytes) -> None:
    """Raise DecodeError if JSON is nested too deeply, and RequestTooLarge if it has too many objects and lists.

    A document with few brackets cannot be nested deeply.
    """
    if data.count(b"{") + data.count(b"[") <= DEPTH_LIMIT:
        return
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = b"".join(plain.split(b'"')[::2]).translate(None, _NOT_BRACKETS)
    if len(brackets) > 2 * _MOST_PARTS:
        raise RequestTooLarge(f"Request entity too large: it has more than {_MOST_PARTS} objects and lists")
    if max(accumulate(map(_STEP.__getitem__, brackets)), default=0) > DEPTH_LIMIT:
        raise DecodeError(f"exceeded max depth of {DEPTH_LIMIT}")


def decode_apply(body: bytes, expected: GroupVersionKind) -> JSONObject:
    """Decode the configuration of an apply patch: YAML, of which JSON is a subset. Raises BadRequest."""
    try:
        config = _load_json(body) if body[:1] == b"{" else _load_yaml(body) if body.strip() not in _NULLS else {}
    except (msgspec.DecodeError, DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"error decoding YAML: {error}") from error
    kind, api_version = (text if isinstance(text := config.get(key), str) else "" for key in ("kind", "apiVersion"))
    if kind != expected.kind or api_version != expected.api_version:
        group, _, version = api_version.rpartition("/")
        raise BadRequest(f"invalid object type: {group}/{version}, Kind={kind}")
    return config


def check_patched(obj: JSONObject, expected: GroupVersionKind, content_type: str, *, custom: bool) -> None:
    """Reject a patch that changed the kind of a document. A strategic merge patch cannot change it.

    Raises Nonconforming or Invalid.
    """
    if content_type == STRATEGIC_PATCH:
        obj["kind"], obj["apiVersion"] = expected.kind, expected.api_version
        return
    if why := _untyped(obj):
        raise Nonconforming(expected, why)
    if not custom:
        check_kind(obj, expected, custom=False)
        return
    _, name = written_name(obj)
    kind, api_version = obj.get("kind") or "", obj.get("apiVersion") or ""
    if kind != expected.kind:
        raise Invalid.of(kind, expected.group, name, [invalid("kind", kind, f"must be {expected.kind}")])
    if api_version != expected.api_version:
        error = invalid("apiVersion", api_version, f"must be {expected.api_version}")
        raise Invalid.of(kind, api_version.rpartition("/")[0], name, [error])


def check_kind(obj: JSONObject, expected: GroupVersionKind, *, custom: bool) -> None:
    """Reject a document of another kind or version. Built-in kinds may omit both, which are set then.

    Raises BadRequest or Invalid.
    """
    kind, api_version = obj.get("kind") or "", obj.get("apiVersion") or ""
    if kind == expected.kind and api_version == expected.api_version:
        return
    if custom:
        _reject_custom(obj, kind, api_version, expected)
    if kind in ("", expected.kind) and api_version in ("", expected.api_version):
        obj["kind"], obj["apiVersion"] = expected.kind, expected.api_version
        return
    version = str(api_version).rpartition("/")[2] or expected.version
    kind = kind or expected.kind
    if _is_known(api_version or expected.api_version, kind):
        group = expected.group.partition(".")[0] or "core"
        why = f"converting ({version}.{kind}) to ({group}.{expected.kind}): unknown conversion"
    else:
        given = api_version or expected.api_version
        why = f'no kind "{kind}" is registered for version "{given}" in scheme "pkg/runtime/scheme.go:111"'
    raise Nonconforming(expected, why, kind=kind, version=version)


def _is_known(api_version: str, kind: str) -> bool:
    """Return whether a kind is built in."""
    try:
        version = GroupVersion.parse(api_version)
        catalog.schema_ref(GroupVersionKind(version.group, version.version, kind))
    except (KeyError, ValueError):
        return False
    return True


def _reject_custom(obj: JSONObject, kind: str, api_version: str, expected: GroupVersionKind) -> Never:
    if not kind:
        text = encode_json(obj).decode()
        raise BadRequest(
            f"the object provided is unrecognized (must be of type {expected.kind}): "
            f"Object 'Kind' is missing in '{text}' ({text})"
        )
    if api_version != expected.api_version:
        wanted = f"does not match the expected API version ({expected.api_version})"
        raise BadRequest(f"the API version in the data ({api_version}) {wanted}")
    _, name = written_name(obj)
    raise Invalid.of(kind, expected.group, name, [invalid("kind", kind, f"must be {expected.kind}")])


def written_fields(body: bytes, obj: object) -> list[WrittenField]:
    """Return all fields of a JSON body in which an object has a key twice; no fields if there is no such object.

    `obj` is the decoded body, in which the last value of a duplicate key remains. The slow search runs only if the
    body has another number of `":` than `obj` when it is encoded again, or is written in a way that makes the two
    numbers hard to compare.
    """
    plain = b'" :' not in body and b"\\u0022" not in body
    if plain and body.count(b'":') == encode_json(obj).count(b'":'):
        return []
    fields = _every_field(body)
    return fields if any(each.is_duplicate for each in fields) else []


def _every_field(body: bytes) -> list[WrittenField]:
    """Return all fields of a JSON body, in order."""
    return list(_fields(json.loads(repaired(body), object_pairs_hook=_Pairs), ""))


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as a list of its pairs, including duplicates."""


def _fields(value: Any, path: str) -> Iterator[WrittenField]:
    """Yield the fields in a JSON value, in order."""
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, item in value:
            place = f"{path}.{key}" if path else key
            yield WrittenField(place, key in seen)
            seen.add(key)
            if isinstance(item, list):
                yield from _fields(item, place)
    elif is_array(value):
        for index, item in enumerate(value):
            if isinstance(item, list):
                yield from _fields(item, f"{path}[{index}]")


def note_strict_errors(call: WriteCall, body: bytes, header: str, obj: JSONObject, *, custom: bool) -> None:
    """Note in `call` what strict decoding of a document reports about duplicate fields."""
    kind = content_type(header)
    if kind == YAML:
        call.strict_errors = _yaml_errors(body)
    elif kind == JSON:
        written = written_fields(body, obj)
        call.written, call.strict_errors = ((), strict_errors(written, ())) if custom else (written, ())


def apply_errors(body: bytes, config: JSONObject) -> list[str]:
    """Return what strict decoding of an applied configuration reports. `config` is the decoded body."""
    if body[:1] == b"{" and not written_fields(body, config):
        return []
    return [f"error converting YAML to JSON: {each}" for each in _yaml_errors(body)]


def check_applied(call: WriteCall) -> None:
    """Report the strict errors of an applied configuration as the client asked. Raises BadRequest."""
    if call.strict_errors and call.options.field_validation == "Strict":
        raise BadRequest(f"error strict decoding YAML: {call.strict_errors[0]}")
    call.warnings.extend(strict_warnings(call.strict_errors))


def _yaml_errors(body: bytes) -> list[str]:
    """Return the error about all duplicate keys of a YAML body."""
    from kubewright.machinery import yaml  # imported for the first YAML body

    try:
        found = yaml.duplicate_keys(body)
    except DecodeError:
        return []  # it is JSON, of which YAML does not accept everything
    return ["\n  ".join(("yaml: unmarshal errors:", *found))] if found else []


# Patches


def check_patch_type(resource: Resource, content_type: str) -> None:
    """Raise UnsupportedMediaType for a content type that is not a patch, or not supported by this resource."""
    if content_type in (JSON_PATCH, MERGE_PATCH, APPLY_PATCH) or (
        content_type == STRATEGIC_PATCH and not resource.custom
    ):
        return
    if not resource.custom:
        raise UnsupportedMediaType("415: Unsupported Media Type", details=StatusDetails())
    raise UnsupportedMediaType(
        "the body of the request was in an unknown format - accepted media types include: "
        f"{JSON_PATCH}, {MERGE_PATCH}, {APPLY_PATCH}"
    )


def unfit_patch(error: Nonconforming, content_type: str, patched: JSONObject, patch: Any) -> Invalid:
    """Return the error for a patch whose result cannot be read as its kind. For a PUT or POST, it is a BadRequest."""
    if content_type == STRATEGIC_PATCH:
        return Invalid.of("", "", "", [invalid("patch", as_go_prints(patch), error.unconverted)])
    shown = encode_json(dict(sorted(patched.items()))).decode()
    return Invalid.of("", "", "", [invalid("patch", shown, error.why)])


def patch_errors(body: bytes, content_type: str, patch: Any) -> list[str]:
    """Return what strict decoding of a JSON, merge or strategic merge patch reports about the patch itself.

    Raises BadRequest for an operation of a JSON patch whose fields are not texts.
    """
    written = written_fields(body, patch)
    if content_type != JSON_PATCH:
        return strict_errors(written, ())
    _check_operations(patch)
    unknown = {f"[{index}].{key}" for index, each in enumerate(patch) for key in each if key not in _OPERATION_FIELDS}
    if unknown and not written:
        written = _every_field(body)
    return [f"json patch {each}" for each in strict_errors(written, unknown)]


def _check_operations(patch: list[JSONObject]) -> None:
    for operation in patch:
        for key in ("op", "path", "from"):
            value = operation.get(key)
            if value is not None and not isinstance(value, str):
                place = f"Go struct field jsonPatchOp.{key} of type string"
                raise BadRequest(f"error decoding patch: json: cannot unmarshal {json_kind(value)} into {place}")


def decode_patch(body: bytes, content_type: str) -> Any:
    """Decode a JSON, merge or strategic merge patch. Raises BadRequest if it is malformed."""
    prefix = "" if content_type == STRATEGIC_PATCH else "error decoding patch: "
    try:
        check_nesting(body)
        patch: Any = _read_as_go(body, msgspec.json.decode)
    except (msgspec.DecodeError, DecodeError) as error:
        raise BadRequest(f"{prefix}{_go_error(body, error)}") from error
    if patch is None:
        if content_type == MERGE_PATCH:
            raise BadRequest("Invalid JSON Patch")
        return [] if content_type == JSON_PATCH else {}
    expected, go_type = (list, "[]handlers.jsonPatchOp") if content_type == JSON_PATCH else (dict, _GO_OBJECT)
    wrong, go_type = (patch, go_type) if not isinstance(patch, expected) else (_not_an_operation(patch), _GO_OPERATION)
    if wrong is not None:
        raise BadRequest(f"{prefix}json: cannot unmarshal {json_kind(wrong)} into Go value of type {go_type}")
    return [each or {} for each in patch] if content_type == JSON_PATCH else patch


def _not_an_operation(patch: JSONObject | JSONArray) -> object:
    """Return the first item of a JSON patch that is not an object; None if there is none."""
    return next((each for each in patch if not is_object(each)), None) if is_array(patch) else None


def _go_error(body: bytes, error: Exception) -> str:
    """Return what is wrong with malformed JSON, in Go's words for the common mistakes."""
    try:
        json.loads(repaired(body))
    except json.JSONDecodeError as found:
        rest = found.doc[found.pos :]
        if not rest:
            return "unexpected end of JSON input"
        if found.msg == "Extra data":
            return f"invalid character '{rest[0]}' after top-level value"
        if found.msg == "Expecting value":
            return f"invalid character '{rest[0]}' looking for beginning of value"
    except (ValueError, RecursionError):
        return str(error)
    return str(error)


def apply_patch(resource: Resource, content_type: str, obj: JSONObject, patch: Any) -> JSONObject:
    """Return the document that a decoded patch makes of `obj`. It shares unchanged parts with `obj` and the patch.

    Raises BadRequest for a JSON Patch that nests too deeply. Other patches are as deep as their result.
    """
    if content_type == JSON_PATCH:
        patched = json_patch(obj, patch)
        try:
            check_nesting(encode_json(patched))
        except DecodeError as error:
            raise BadRequest(f"error applying patch: {error}") from error
        return patched
    if content_type == MERGE_PATCH:
        return merge_patch(obj, patch)
    return strategic_merge_patch(obj, patch, resource.schema)
