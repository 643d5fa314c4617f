"""The target of a request, parsed from its method, path and query.

Follows apiserver's pkg/endpoints/request/requestinfo.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from kubewright_controlplane.apiserver.endpoints.parameters import Query

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


@dataclass(slots=True)  # not frozen: creating a frozen one costs twice as much
class RequestInfo:
    """A request's target. Without a `resource` it is a path, such as `/healthz` or a discovery document."""

    path: str
    query: Query
    verb: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    """The path after the subresource, to proxy to."""


def parse(method: str, target: str) -> RequestInfo:
    """Parse a request's target: path and query."""
    path, _, text = target.partition("?")
    query = Query(text)
    if "%" in path:
        path = unquote(path)
    parts = [part for part in path.split("/") if part]
    if len(parts) >= 3 and parts[0] == "api":
        return _resource(method, path, query, "", parts[1], parts[2:])
    if len(parts) >= 4 and parts[0] == "apis":
        return _resource(method, path, query, parts[1], parts[2], parts[3:])
    return RequestInfo(path, query, method.lower())


def _resource(method: str, path: str, query: Query, group: str, version: str, parts: list[str]) -> RequestInfo:
    watch = query.flag("watch")
    if parts[0] == "watch" and len(parts) > 1:
        parts, watch = parts[1:], True
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    resource, name, subresource = (*parts, "", "")[:3]
    verb, rest = _verb(method, name, watch), "/".join(parts[3:])
    return RequestInfo(path, query, verb, group, version, namespace, resource, name, subresource, rest)


def _verb(method: str, name: str, watch: bool) -> str:
    verb = _VERBS.get(method, "")
    if name:
        return "watch" if verb == "get" and watch else verb
    if verb == "get":
        return "watch" if watch else "list"
    return "deletecollection" if verb == "delete" else verb
