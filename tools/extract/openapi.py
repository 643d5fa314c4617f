"""The OpenAPI v3 documents, as published."""

from __future__ import annotations

import hashlib
import json

from server import Server


def read(server: Server) -> dict[str, bytes]:
    """Map paths below `/openapi/v3/` to documents."""
    paths = json.loads(server.get("/openapi/v3"))["paths"]
    return {path: server.get(f"/openapi/v3/{path}") for path in sorted(paths)}


def hashes(documents: dict[str, bytes]) -> dict[str, str]:
    return {path: hashlib.sha512(document).hexdigest().upper() for path, document in documents.items()}
