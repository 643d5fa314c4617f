"""A small API server, with only Leases and Events, that a test can break."""

from __future__ import annotations

import itertools
import json
from typing import Any

from kubewright.http.message import Request, Response
from kubewright.machinery.errors import ConnectionFailed


class SmallServer:
    """Keeps objects by path, with resource versions and optimistic locks, as the API server does."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.requests: list[Request] = []
        self.down = False
        self.loses_answers = False
        """Requests arrive, but their answers are lost."""
        self._version = itertools.count(1)

    def share(self, other: SmallServer) -> None:
        """Become another connection to the same server."""
        self.objects, self._version = other.objects, other._version

    def touch(self, path: str, changes: dict[str, Any]) -> None:
        """Change an object, as another client does."""
        self._store(path, self.objects[path] | changes)

    async def handle(self, request: Request) -> Response:
        if self.down:
            raise ConnectionFailed(f"{request.method} {request.path}: connection refused")
        self.requests.append(request)
        code, body = self._answer(request)
        if self.loses_answers:
            raise ConnectionFailed(f"{request.method} {request.path}: connection reset")
        return Response(code, {"content-type": "application/json"}, json.dumps(body).encode())

    def _answer(self, request: Request) -> tuple[int, dict[str, Any]]:
        path, held = request.path, self.objects.get(request.path)
        if request.method == "POST":
            created = json.loads(request.body)
            path = f"{path}/{created['metadata']['name']}"
            if path in self.objects:
                return _failure(409, "AlreadyExists")
            return 201, self._store(path, created)
        if held is None:
            return _failure(404, "NotFound")
        if request.method == "GET":
            return 200, held
        given = json.loads(request.body)
        if request.method == "PATCH":
            return 200, self._store(path, held | given)
        if given["metadata"].get("resourceVersion") != held["metadata"]["resourceVersion"]:
            return _failure(409, "Conflict")
        return 200, self._store(path, given)

    def _store(self, path: str, obj: dict[str, Any]) -> dict[str, Any]:
        obj["metadata"] = obj["metadata"] | {"resourceVersion": str(next(self._version)), "uid": path}
        self.objects[path] = obj
        return obj


def _failure(code: int, reason: str) -> tuple[int, dict[str, Any]]:
    return code, {
        "kind": "Status",
        "apiVersion": "v1",
        "code": code,
        "reason": reason,
        "message": reason,
        "details": {},
    }
