"""Kubernetes' protobuf encoding of the built-in kinds, to and from the dicts that JSON gives.

Go clients send `application/vnd.kubernetes.protobuf` for every built-in kind, and kubectl does for some. A body is
the four bytes `k8s\\0`, then a `runtime.Unknown` whose `raw` is the object. Messages and field numbers are data, from
the `generated.proto` files of Kubernetes' published API modules.

Source: k8s.io/apimachinery/pkg/runtime/serializer/protobuf.
"""

from __future__ import annotations

from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONObject

__all__ = ["CONTENT_TYPE", "decode", "encode", "knows"]

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"


def knows(gvk: GroupVersionKind) -> bool:
    """Whether the kind has a protobuf encoding: built-in kinds have, custom resources have not."""
    raise NotImplementedError


def decode(body: bytes, default: GroupVersionKind | None = None) -> JSONObject:
    """The object in a protobuf body, as JSON would give it, with `apiVersion` and `kind` first.

    The envelope names the kind; where it leaves it out, `default` is what the object is taken for. Fields with
    numbers that are not known are skipped, as Go does. Raises DecodeError when the body is no envelope, is cut
    short, or is of a kind that has no protobuf encoding; the message says which.
    """
    raise NotImplementedError


def encode(obj: JSONObject) -> bytes:
    """The protobuf body for an object of a built-in kind or a list of them.

    Raises DecodeError when the object's kind has no protobuf encoding, or a field has a value of the wrong type.
    """
    raise NotImplementedError
