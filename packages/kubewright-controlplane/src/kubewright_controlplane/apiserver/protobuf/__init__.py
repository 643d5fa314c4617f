"""Kubernetes' protobuf encoding of built-in kinds, to and from documents as in JSON.

Typed Go clients send `application/vnd.kubernetes.protobuf` for every built-in kind, and kubectl for some. A body
consists of the four bytes `k8s\\0` and a `runtime.Unknown` whose `raw` is the object. Messages and field numbers are
data, from the `generated.proto` files of Kubernetes' published API modules.

Follows k8s.io/apimachinery/pkg/runtime/serializer/protobuf.
"""

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from kubewright.machinery.errors import DecodeError
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.protobuf import wire
from kubewright_controlplane.apiserver.protobuf.message import Message, Messages

__all__ = ["CONTENT_TYPE", "decode", "encode", "knows"]

CONTENT_TYPE: Final = "application/vnd.kubernetes.protobuf"

_TABLE: Final = Path(__file__).parents[1] / "data" / "protobuf.json.gz"
_MAGIC: Final = b"k8s\0"
_META: Final = "meta.k8s.io/v1"


def knows(gvk: GroupVersionKind) -> bool:
    """Return whether the kind has a protobuf encoding. Built-in kinds do, custom resources do not."""
    return _message(gvk.api_version, gvk.kind) is not None


def decode(body: bytes, default: GroupVersionKind | None = None) -> JSONObject:
    """Decode a protobuf body into a document as in JSON, with `apiVersion` and `kind` first.

    The envelope names the kind; `default` is used if it does not. Unknown field numbers are skipped, as in Go. Raises
    DecodeError if the body has no envelope, is truncated, or has a kind without a protobuf encoding.
    """
    if not body.startswith(_MAGIC):
        raise DecodeError("the body is not Kubernetes protobuf: it does not start with the bytes `k8s\\0`")
    api_version, kind = "", ""
    try:
        api_version, kind, raw = _open(body)
        if default is not None:
            api_version, kind = api_version or default.api_version, kind or default.kind
        message = _message(api_version, kind)
        if message is None:
            raise DecodeError(f"{api_version or 'no apiVersion'}, Kind={kind or 'none'} has no protobuf encoding")
        return {"apiVersion": api_version, "kind": kind, **message.decode(raw)}
    except (IndexError, wire.Truncated) as error:
        raise DecodeError(f"the protobuf body{_of(kind)} is malformed or truncated") from error
    except (msgspec.DecodeError, OverflowError) as error:
        raise DecodeError(f"the protobuf body{_of(kind)} has an invalid field: {error}") from error
    except RecursionError as error:
        raise DecodeError(f"the protobuf body{_of(kind)} is nested too deeply") from error


def encode(obj: JSONObject) -> bytes:
    """Encode an object of a built-in kind, or a list of them. It must have `apiVersion` and `kind`.

    Raises DecodeError if the kind has no protobuf encoding, or if a field has a value of the wrong type.
    """
    api_version, kind = obj.get("apiVersion", ""), obj.get("kind", "")
    message = _message(api_version, kind)
    if message is None:
        raise DecodeError(f"{api_version or 'no apiVersion'}, Kind={kind or 'none'} has no protobuf encoding")
    try:
        raw = message.encode(obj)
    except (TypeError, AttributeError, ValueError, RecursionError) as error:
        raise DecodeError(f"{kind}: a field has a value of the wrong type: {error}") from error
    kind_of = b"\x0a" + wire.length_delimited(api_version.encode()) + b"\x12" + wire.length_delimited(kind.encode())
    return b"".join(
        (_MAGIC, b"\x0a", wire.length_delimited(kind_of), b"\x12", wire.length_delimited(raw), b"\x1a\x00\x22\x00")
    )


def _open(body: bytes) -> tuple[str, str, bytes]:
    """Return apiVersion, kind and raw object of an envelope (`runtime.Unknown` after the magic bytes)."""
    fields = wire.read_length_delimited(body[len(_MAGIC) :])
    type_meta = wire.read_length_delimited(fields.get(1, b""))
    encoding = fields.get(3, b"")
    if encoding:
        raise DecodeError(f"the content encoding {encoding.decode('utf-8', 'replace')} of a protobuf body is unknown")
    return type_meta.get(1, b"").decode(), type_meta.get(2, b"").decode(), fields.get(2, b"")


def _message(api_version: str, kind: str) -> Message | None:
    """Return the message of a kind. Options and Status belong to every group, whichever group they are sent in."""
    name = _kinds().get(f"{api_version}/{kind}") or _kinds().get(f"{_META}/{kind}")
    return _messages()[name] if name else None


def _of(kind: str) -> str:
    return f" of a {kind}" if kind else ""


@cache
def _kinds() -> dict[str, str]:
    kinds: dict[str, str] = _table()["kinds"]
    return kinds


@cache
def _messages() -> Messages:
    return Messages(_table()["messages"])


@cache
def _table() -> JSONObject:
    table: JSONObject = msgspec.json.decode(zlib.decompress(_TABLE.read_bytes(), wbits=31))
    return table
