"""Kinds without a declared class: only their metadata, or the whole object as plain JSON.

Both are classes that are created at run time. Client, cache and controllers accept them like any other class:

    Foo = await RESTMapper(client).kind("example.com/v1", "Foo")
    foo = await client.get(Foo, "one", namespace="d")
    foo["spec"]["size"] += 1

    Pods = PartialObjectMetadata.of(Pod)    # watching these costs a tenth of watching Pods
"""

from __future__ import annotations

from collections.abc import Iterator
from types import new_class
from typing import Any, TypeVar, cast

import msgspec

from kubewright.machinery._suggestions import shown
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject, read_object
from kubewright.models import APIResource, Object, codec, field
from kubewright.models._struct import check_fields
from kubewright.models._values import plain

T = TypeVar("T", bound=Object)


class PartialObjectMetadata(Object):
    """The metadata of an object of any kind, which the server sends if only metadata is requested.

    `PartialObjectMetadata.of(Deployment)` is a class to read, watch, patch and delete Deployments. It cannot create,
    update or apply objects, because the rest of the object would be lost.
    """

    @classmethod
    def of(cls, kind: type[Object] | APIResource) -> type[PartialObjectMetadata]:
        """Return the metadata-only class of a kind."""
        api = kind if isinstance(kind, APIResource) else kind.__api__
        return _derive(cls, api)


class Unstructured(Object):
    """An object of a kind that is known only by name. All but its metadata is plain JSON: `obj["spec"]["size"]`."""

    content: JSONObject = field(default_factory=dict[str, Any], name="/content")
    """The document without apiVersion, kind and metadata.

    Its name on the wire is one that no document uses, because the codec must not decode or encode it.
    """

    @classmethod
    def of(cls, api: APIResource) -> type[Unstructured]:
        """Return the class of a kind. `RESTMapper.kind` finds the resource."""
        return _derive(cls, api)

    def __getitem__(self, key: str) -> Any:
        return self.content[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.content[key] = value

    def __delitem__(self, key: str) -> None:
        del self.content[key]

    def __contains__(self, key: object) -> bool:
        return key in self.content

    def __iter__(self) -> Iterator[str]:
        return iter(self.content)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the top-level field `key` of the document, or `default`."""
        return self.content.get(key, default)


def decode_object(kind: type[T], data: bytes) -> T:
    """Decode an object of any kind, with or without a declared class. Raises DecodeError."""
    obj = codec.decode(kind, data)
    if isinstance(obj, Unstructured):
        obj.content = _decode_content(data)
    return obj


def encode_object(obj: Object, *, update: bool = False) -> bytes:
    """Encode an object for a create or an apply. With `update`, keep fields that its class does not know.

    Raises TypeError for a document or a class.
    """
    check_is_object(obj)
    if isinstance(obj, Unstructured):
        api = obj.__api__
        document = {"apiVersion": api.api_version, "kind": api.kind, "metadata": obj.metadata, **obj.content}
        return msgspec.json.encode(document)
    if isinstance(obj, PartialObjectMetadata):
        raise ConfigError(
            f'{obj.kind} "{obj.metadata.name}": only its metadata was read, so it can be patched or deleted, but not '
            f"created, updated or applied; read it as {obj.kind} to do that"
        )
    return codec.encode_update(obj) if update else codec.encode(obj)


def document_of(obj: Object) -> JSONObject:
    """Return the document of an object of any kind. For an object that was read, it is what was read.

    Items of lists are read without `apiVersion` and `kind`; the document has both.
    """
    if isinstance(obj, Unstructured):
        return {**obj.content, "apiVersion": obj.api_version, "kind": obj.kind, "metadata": plain(obj.metadata)}
    return {"apiVersion": obj.__api__.api_version, "kind": obj.__api__.kind, **codec.document(obj)}


def check_is_object(obj: object) -> None:
    """Raise TypeError for anything but an object of a kind whose fields are structs too, such as a plain document."""
    if isinstance(obj, Object):
        check_fields(obj)
        return
    if isinstance(obj, dict):
        kind = cast("dict[str, object]", obj).get("kind", "Kind")
        raise TypeError(
            f"an object of a kind is needed, got a dict: write {kind}(metadata=ObjectMeta(...), ...), or convert the "
            f"document with codec.from_dict({kind}, document)"
        )
    raise TypeError(f"an object of a kind is needed, got {shown(obj)}")


def _derive(base: type[T], api: APIResource) -> type[T]:
    derived: type[T] = new_class(api.kind, (base,), exec_body=lambda body: body.update(__module__=base.__module__))
    # Not a class argument: a class that is declared for a kind accepts only documents of that kind, but the server
    # sends metadata as kind PartialObjectMetadata.
    derived.__api__ = api
    return derived


def _decode_content(data: bytes) -> JSONObject:
    content = read_object(data)
    for name in ("apiVersion", "kind", "metadata"):
        content.pop(name, None)
    return content
