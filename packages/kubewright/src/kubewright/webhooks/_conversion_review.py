"""ConversionReviews on the wire: all objects of a request are converted, or one Failure names the first that is not.

`v1` and `v1beta1` have the same fields. Source: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from kubewright.machinery.errors import DecodeError
from kubewright.machinery.json import JSONObject
from kubewright.webhooks._conversion import Conversion, ConversionError
from kubewright.webhooks._review import read_review

Panicked: TypeAlias = Callable[[Exception, str, str], str]
"""Reports an unexpected exception in the conversion of an object of that kind and name. Returns the text to answer."""

_VERSIONS: Final = ("apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1")
_YIELD_AFTER: Final = 16
"""Objects after which other tasks run."""


class _Request(msgspec.Struct, rename={"desired": "desiredAPIVersion"}, gc=False):
    uid: str
    desired: str
    objects: list[msgspec.Raw] = []


class _Review(msgspec.Struct, rename="camel"):
    request: _Request
    api_version: str = _VERSIONS[0]
    kind: str = "ConversionReview"


class _Names(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Head(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    metadata: _Names | None = None


_decode: Final = msgspec.json.Decoder(_Review).decode
_decode_head: Final = msgspec.json.Decoder(_Head).decode


class Conversions:
    """The conversions of a manager, one for each kind."""

    def __init__(self, conversions: Sequence[Conversion[Any]]) -> None:
        self._by_kind = {(each.hub.__api__.group, each.hub.__api__.kind): each for each in conversions}

    async def answer(self, body: bytes, panicked: Panicked) -> bytes:
        """Answer a ConversionReview. Raises BadRequest if `body` is none."""
        review = read_review(_decode, body, "ConversionReview", _VERSIONS)
        version, request = review.api_version, review.request
        result: JSONObject = {"status": "Success"}
        converted: list[JSONObject] = []
        try:
            for number, raw in enumerate(request.objects, 1):
                converted.append(self._convert(bytes(raw), request.desired, panicked))
                if number % _YIELD_AFTER == 0:
                    await asyncio.sleep(0)
        except ConversionError as error:
            result, converted = {"status": "Failure", "message": str(error)}, []
        response = {"uid": request.uid, "convertedObjects": converted, "result": result}
        return msgspec.json.encode({"kind": "ConversionReview", "apiVersion": version, "response": response})

    def _convert(self, data: bytes, desired: str, panicked: Panicked) -> JSONObject:
        try:
            head = _decode_head(data)
        except msgspec.DecodeError as error:
            raise ConversionError(f"an object of the ConversionReview cannot be read: {error}") from error
        names = head.metadata or _Names()
        name = "/".join(each for each in (names.namespace, names.name) if each)
        where = f'{head.kind} "{name}" from {head.api_version} to {desired}'
        group, _, version = desired.rpartition("/")
        conversion = self._by_kind.get((head.api_version.rpartition("/")[0], head.kind))
        if conversion is None or conversion.hub.__api__.group != group:
            raise ConversionError(f"{where}: no Conversion of this manager has these versions")
        try:
            return conversion.convert_document(data, version)
        except DecodeError as error:
            raise ConversionError(f"{where}: {error}") from error
        except Exception as error:
            raise ConversionError(f"{where}: {panicked(error, head.kind, name)}") from error
