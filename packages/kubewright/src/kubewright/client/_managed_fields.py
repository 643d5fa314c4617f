"""The fields that a manager owns, as managedFields lists them, and `extract`, which returns them as an object.

They are listed as FieldsV1, a tree whose keys are path elements: `f:spec` is a field, `k:{"name":"web"}` is a list item
with these keys, `v:"x"` is an item of a set, and `.` is the node itself. A leaf is owned as a whole.

Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/ and sigs.k8s.io/structured-merge-diff
`extract` follows the Extract functions of client-go's applyconfigurations.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from kubewright.client._dynamic import decode_object
from kubewright.machinery.errors import ConfigError, DecodeError
from kubewright.machinery.json import JSONObject, equal, is_array, is_object
from kubewright.models import Object, codec

Owned: TypeAlias = dict[str, Any]
"""A tree of FieldsV1."""

SELF: Final = "."
"""The key for the node itself."""


def entry_of(document: JSONObject, manager: str, subresource: str | None) -> JSONObject | None:
    """Return the managedFields entry of the fields that `manager` has applied; None if it has applied none."""
    for entry in document.get("metadata", {}).get("managedFields", ()):
        if (
            entry.get("manager") == manager
            and entry.get("operation") == "Apply"
            and entry.get("subresource", "") == (subresource or "")
        ):
            found: JSONObject = entry
            return found
    return None


def is_item(item: object, path: str, known: Any) -> bool:
    """Return whether `path` names this list item. `known` is `keys_of(path)`. An absent key has its default."""
    if path.startswith("v:"):
        return equal(item, known)
    return is_object(item) and all(key not in item or item[key] == value for key, value in known.items())


@lru_cache(maxsize=4096)
def keys_of(path: str) -> Any:
    """Return the keys of a `k:` path or the value of a `v:` path. Cached, because a kind has few paths."""
    return msgspec.json.decode(path[2:])


def owned_part(value: Any, owned: Owned) -> Any:
    """Return the owned part of `value`. A list item includes the keys that identify it."""
    below = {path: each for path, each in owned.items() if path != SELF}
    if not below:
        return value
    if is_object(value):
        names = {path.removeprefix("f:"): each for path, each in below.items()}
        return {name: owned_part(each, names[name]) for name, each in value.items() if name in names}
    if is_array(value):
        named = ((item, path) for item in value for path in below if is_item(item, path, keys_of(path)))
        return [_with_keys(owned_part(item, below[path]), path) for item, path in named]
    return value


def _with_keys(item: Any, path: str) -> Any:
    return {**keys_of(path), **item} if path.startswith("k:") else item


T = TypeVar("T", bound=Object)


def extract(obj: T, field_manager: str, *, subresource: str | None = None) -> T:
    """Return the fields of `obj` that `field_manager` has applied, or applied to `subresource` ("status"); no others.

    If the manager has applied nothing, the result has only the name. `obj` must be read with its managedFields.
    Raises ConfigError without them; by default a cache omits them. Raises DecodeError if the class requires a field
    that the manager does not own. In that case, read the object as an `Unstructured` (`RESTMapper.kind`) and extract
    from it.
    """
    if not obj.metadata.managed_fields:
        raise ConfigError(
            f'{obj.kind} "{obj.metadata.name}" has no metadata.managedFields to extract by: read it with Client.get, '
            "or cache its kind with Scope(keep_managed_fields=True)"
        )
    document = codec.document(obj)
    entry = entry_of(document, field_manager, subresource)
    owned: JSONObject = owned_part(document, entry["fieldsV1"]) if entry is not None and entry.get("fieldsV1") else {}
    meta = obj.metadata
    identity = {"name": meta.name, "namespace": meta.namespace} if meta.namespace else {"name": meta.name}
    head = {"apiVersion": document["apiVersion"], "kind": document["kind"]}
    extracted = {**owned, **head, "metadata": {**owned.get("metadata", {}), **identity}}
    try:
        return decode_object(type(obj), msgspec.json.encode(extracted))
    except DecodeError as error:
        raise DecodeError(
            f"{error}, and {field_manager!r} does not own it: extract from the object read as an Unstructured, by "
            f'RESTMapper.kind("{head["apiVersion"]}", "{head["kind"]}")'
        ) from error
