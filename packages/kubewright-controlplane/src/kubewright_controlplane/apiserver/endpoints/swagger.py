"""OpenAPI v2, for clients that fall back to it: a document without schemas.

kubectl requests it if `/openapi/v3` has no document for a kind, for example because its definition is not installed
yet. If the kind is missing here too, kubectl reports the error that names the kind. Schemas are at `/openapi/v3`.
"""

from __future__ import annotations

from typing import Final

from kubewright.http.message import Request, Response
from kubewright_controlplane.apiserver import catalog
from kubewright_controlplane.apiserver.registry.objects import encode_json

PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_ACCEPTED: Final = (PROTOBUF, PROTOBUF.replace("v2.v1.0", "v2@v1.0"))
_VERSION: Final = "2.0"
_TITLE: Final = "Kubernetes"
_PATHS: Final = 8
"""Number of the field `paths` in a document of gnostic's openapiv2. The version is field 1; info (title 1, version 2)
is 2.
"""


def serve(request: Request) -> Response:
    """Return the document, in JSON or protobuf."""
    accept = request.headers.get("accept", "")
    release = f"{catalog.version()['major']}.{catalog.version()['minor']}"
    if any(each in accept for each in _ACCEPTED):
        info = _field(1, _TITLE.encode()) + _field(2, release.encode())
        body = _field(1, _VERSION.encode()) + _field(2, info) + _field(_PATHS, b"")
        return Response(200, {"content-type": PROTOBUF}, body)
    document = {"swagger": _VERSION, "info": {"title": _TITLE, "version": release}, "paths": {}}
    return Response(200, {"content-type": "application/json"}, encode_json(document))


def _field(number: int, content: bytes) -> bytes:
    """Encode a length-delimited field of less than 128 bytes."""
    return bytes((number << 3 | 2, len(content))) + content
