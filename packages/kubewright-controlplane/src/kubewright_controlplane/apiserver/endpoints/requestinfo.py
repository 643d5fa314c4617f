"""What a request asks for: its target, parsed from method and path, and the options in its query.

Follows apiserver's pkg/endpoints/request/requestinfo.go, metav1/validation and the handling of CreateOptions,
DeleteOptions and ListOptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast
from urllib.parse import parse_qsl, unquote

from kubewright.http import wire
from kubewright.http.message import Request
from kubewright.machinery.errors import BadRequest, Invalid
from kubewright.machinery.fields import FieldError, invalid, not_supported, required
from kubewright.machinery.integers import parse_flag, parse_int
from kubewright.machinery.json import JSONObject
from kubewright.machinery.selectors import FieldRequirement, FieldSelector, Selector
from kubewright.machinery.time import parse_duration
from kubewright_controlplane.apiserver.registry.options import (
    META_GROUP,
    DeleteOptions,
    FieldValidation,
    ListOptions,
    Selection,
    WatchOptions,
    WriteOptions,
)
from kubewright_controlplane.apiserver.user import UserInfo

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_NO_LABELS, _NO_FIELDS = Selector(), FieldSelector()
_FIELD_MANAGER_LIMIT = 128


_MOST_PARTS = 2000
"""Requirements and values of a selector, each of which may be compared with each object."""


_SHORT_QUERY = 128
"""Characters of a query that is kept: clients repeat those of their writes."""


class Query:
    """The query parameters of a request, which never change. Of several with the same name, the first one counts."""

    def __init__(self, text: str) -> None:
        self._values: dict[str, str] = {}
        self._dry_run: list[str] = []
        if text:
            for key, value in parse_qsl(text, keep_blank_values=True):
                self._values.setdefault(key, value)
                if key == "dryRun" and value:
                    self._dry_run.append(value)

    def text(self, name: str) -> str:
        return self._values.get(name, "")

    def flag(self, name: str) -> bool:
        """Return a boolean: true if present and neither `false` nor `0`. As in Go, `?watch` alone is true."""
        return name in self._values and parse_flag(self._values[name])

    def optional_flag(self, name: str) -> bool | None:
        return self.flag(name) if name in self._values else None

    def integer(self, name: str) -> int | None:
        """Return an integer; None if absent. Raises BadRequest."""
        text = self.text(name)
        if not text:
            return None
        try:
            return parse_int(text)
        except ValueError as error:
            raise BadRequest(str(error)) from None

    @property
    def dry_run(self) -> Sequence[str]:
        return self._dry_run


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
    below_namespace: bool = False
    """Whether the path names the resource below a namespace."""


@lru_cache(256)
def _short_query(text: str) -> Query:
    return Query(text)


def parse_target(method: str, target: str) -> RequestInfo:
    """Parse a request's target: path and query."""
    path, _, text = target.partition("?")
    query = _short_query(text) if len(text) <= _SHORT_QUERY else Query(text)
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
    namespace, below = "", False
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        below = len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES
        parts = parts[2:] if below else parts
    resource, name, subresource = (*parts, "", "")[:3]
    verb, rest = _verb(method, name, watch), "/".join(parts[3:])
    return RequestInfo(path, query, verb, group, version, namespace, resource, name, subresource, rest, below)


def _verb(method: str, name: str, watch: bool) -> str:
    verb = _VERBS.get(method, "")
    if name:
        return "watch" if verb == "get" and watch else verb
    if verb == "get":
        return "watch" if watch else "list"
    return "deletecollection" if verb == "delete" else verb


def selection(query: Query, namespace: str, name: str = "") -> Selection:
    """Return the selection of a list or a watch. Raises BadRequest for an invalid selector, and for a very long one."""
    for parameter in ("labelSelector", "fieldSelector"):
        if (parts := query.text(parameter).count(",") + 1) > _MOST_PARTS:
            most = f"must have at most {_MOST_PARTS} requirements and values, got {parts}"
            raise BadRequest(f"{parameter}: {most}; use several requests")
    try:
        labels = Selector.parse(text) if (text := query.text("labelSelector")) else _NO_LABELS
        fields = FieldSelector.parse(text) if (text := query.text("fieldSelector")) else _NO_FIELDS
    except ValueError as error:
        raise BadRequest(str(error)) from error
    if name:
        fields = FieldSelector((*fields.requirements, FieldRequirement("metadata.name", "=", name)))
    return Selection(namespace, labels, fields)


def list_options(query: Query, namespace: str) -> ListOptions:
    query.integer("timeoutSeconds")
    return ListOptions(
        selection=selection(query, namespace),
        resource_version=query.text("resourceVersion"),
        resource_version_match=query.text("resourceVersionMatch"),
        limit=query.integer("limit") or 0,
        continue_token=query.text("continue"),
        initial_events=query.optional_flag("sendInitialEvents"),
    )


def watch_options(query: Query, namespace: str, name: str) -> WatchOptions:
    return WatchOptions(
        selection=selection(query, namespace, name),
        resource_version=query.text("resourceVersion"),
        resource_version_match=query.text("resourceVersionMatch"),
        bookmarks=query.flag("allowWatchBookmarks"),
        initial_events=query.optional_flag("sendInitialEvents"),
        timeout_seconds=query.integer("timeoutSeconds") or 0,
    )


def check_timeout(query: Query) -> None:
    """Raise BadRequest for an invalid `timeout`. A valid one has no effect, because no request takes long."""
    if text := query.text("timeout"):
        try:
            parse_duration(text)
        except ValueError as error:
            raise BadRequest(f"invalid timeout specified in the request URL - {error}") from error


def write_options(kind: str, query: Query, request: Request, user: UserInfo, *, force: bool = False) -> WriteOptions:
    """Return the options of a create, update or patch. Errors name `kind`. Raises Invalid."""
    errors = _dry_run_errors(query)
    manager = query.text("fieldManager")
    errors += _manager_errors(manager)
    validation = query.text("fieldValidation")
    if validation not in ("", "Ignore", "Strict", "Warn"):
        errors.append(not_supported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn")))
    if errors:
        raise Invalid.of(kind, META_GROUP, "", errors)
    raw: JSONObject = {"kind": kind, "apiVersion": f"{META_GROUP}/v1"}
    for name in ("fieldManager", "fieldValidation"):
        if text := query.text(name):
            raw[name] = text
    if query.dry_run:
        raw["dryRun"] = list(query.dry_run)
    agent = wire.readable(request.headers.get("user-agent", "").partition("/")[0])
    printable = "".join(each for each in agent if each.isprintable())
    return WriteOptions(
        user=user,
        field_manager=manager or printable[:_FIELD_MANAGER_LIMIT] or "unknown",
        dry_run=bool(query.dry_run),
        field_validation=cast("FieldValidation", validation or "Warn"),
        force=force,
        raw=raw,
    )


def apply_options(query: Query, request: Request, user: UserInfo) -> WriteOptions:
    """Return the options of a server-side apply. Raises Invalid without a fieldManager."""
    if not query.text("fieldManager"):
        error = required("fieldManager", "is required for apply patch")
        raise Invalid.of("PatchOptions", META_GROUP, "", [error])
    return write_options("PatchOptions", query, request, user, force=query.flag("force"))


def reject_force(query: Query) -> None:
    """Raise Invalid if `force` is set, which is only allowed for apply."""
    if query.flag("force"):
        error = FieldError("FieldValueForbidden", "force", None, "may not be specified for non-apply patch")
        raise Invalid.of("PatchOptions", META_GROUP, "", [error])


def delete_options(document: JSONObject | None, query: Query, user: UserInfo) -> DeleteOptions:
    """Return the options of a delete, from its body if it has one, else from its query. Raises Invalid, BadRequest."""
    return DeleteOptions.of(document if document is not None else _delete_document(query), user)


def _delete_document(query: Query) -> JSONObject:
    raw: JSONObject = {}
    if query.dry_run:
        raw["dryRun"] = list(query.dry_run)
    if text := query.text("propagationPolicy"):
        raw["propagationPolicy"] = text
    grace = query.integer("gracePeriodSeconds")
    if grace is not None:
        raw["gracePeriodSeconds"] = grace
    orphan = query.optional_flag("orphanDependents")
    if orphan is not None:
        raw["orphanDependents"] = orphan
    return raw


def _dry_run_errors(query: Query) -> list[FieldError]:
    if not query.dry_run or all(each == "All" for each in query.dry_run):
        return []
    return [not_supported("dryRun", list(query.dry_run), ("All",))]


def _manager_errors(manager: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(manager.encode()) > _FIELD_MANAGER_LIMIT:
        detail = f"may not be more than {_FIELD_MANAGER_LIMIT} bytes"
        errors.append(FieldError("FieldValueTooLong", "fieldManager", "", detail))
    for position, character in enumerate(manager):
        if not character.isprintable():
            detail = f"invalid character U+{ord(character):04X} (at position {position})"
            errors.append(invalid("fieldManager", manager, detail))
    return errors
