"""Query parameters and option documents, read into the registry's options.

Follows metav1/validation and apiserver's handling of CreateOptions, DeleteOptions, ListOptions and the like.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast
from urllib.parse import parse_qsl

from kubewright.http.message import Request
from kubewright.machinery.errors import BadRequest, Invalid
from kubewright.machinery.fields import FieldError, invalid, not_supported, required
from kubewright.machinery.json import JSONObject
from kubewright.machinery.selectors import FieldRequirement, FieldSelector, Selector
from kubewright.machinery.time import parse_duration
from kubewright_controlplane.apiserver.registry.options import (
    DeleteOptions,
    FieldValidation,
    ListOptions,
    Selection,
    WatchOptions,
    WriteOptions,
)
from kubewright_controlplane.apiserver.user import UserInfo

_META = "meta.k8s.io"
_NO_LABELS, _NO_FIELDS = Selector(), FieldSelector()
_FIELD_MANAGER_LIMIT = 128


class Query:
    """The parameters of one request; the first of each name counts."""

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
        """A boolean: present and neither `false` nor `0`. Go's reading: `?watch` alone is true."""
        return name in self._values and self._values[name] not in ("false", "0")

    def optional_flag(self, name: str) -> bool | None:
        return self.flag(name) if name in self._values else None

    def integer(self, name: str) -> int | None:
        """A number, None when absent. Raises BadRequest."""
        text = self.text(name)
        if not text:
            return None
        if not text.removeprefix("-").removeprefix("+").isdecimal():
            raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax')
        return int(text)

    @property
    def dry_run(self) -> Sequence[str]:
        return self._dry_run


def selection(query: Query, namespace: str, name: str = "") -> Selection:
    """What a list or a watch selects. Raises BadRequest for a selector that cannot be read."""
    try:
        labels = Selector.parse(text) if (text := query.text("labelSelector")) else _NO_LABELS
        fields = FieldSelector.parse(text) if (text := query.text("fieldSelector")) else _NO_FIELDS
    except ValueError as error:
        raise BadRequest(str(error)) from error
    if name:
        fields = FieldSelector((*fields.requirements, FieldRequirement("metadata.name", "=", name)))
    return Selection(namespace, labels, fields)


def list_options(query: Query, namespace: str) -> ListOptions:
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
    """Raises BadRequest for a `timeout` that is no duration. One that is has no effect: no request here takes long."""
    if text := query.text("timeout"):
        try:
            parse_duration(text)
        except ValueError as error:
            raise BadRequest(f"invalid timeout specified in the request URL - {error}") from error


def write_options(kind: str, query: Query, request: Request, user: UserInfo) -> WriteOptions:
    """The options of a create, update or patch; `kind` is what the faults name. Raises Invalid."""
    faults = _dry_run_faults(query)
    manager = query.text("fieldManager")
    faults += _manager_faults(manager)
    validation = query.text("fieldValidation")
    if validation not in ("", "Ignore", "Strict", "Warn"):
        faults.append(not_supported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn")))
    if faults:
        raise Invalid.of(kind, _META, "", faults)
    raw: JSONObject = {"kind": kind, "apiVersion": f"{_META}/v1"}
    for name in ("fieldManager", "fieldValidation"):
        if text := query.text(name):
            raw[name] = text
    if query.dry_run:
        raw["dryRun"] = list(query.dry_run)
    agent = request.headers.get("user-agent", "")
    return WriteOptions(
        user=user,
        field_manager=manager or agent.partition("/")[0][:_FIELD_MANAGER_LIMIT] or "unknown",
        dry_run=bool(query.dry_run),
        field_validation=cast("FieldValidation", validation or "Warn"),
        raw=raw,
    )


def apply_options(query: Query, request: Request, user: UserInfo) -> WriteOptions:
    """The options of a server-side apply. Raises Invalid without a fieldManager."""
    if not query.text("fieldManager"):
        fault = required("fieldManager", "is required for apply patch")
        raise Invalid.of("PatchOptions", _META, "", [fault])
    options = write_options("PatchOptions", query, request, user)
    options.force = query.flag("force")
    return options


def refuse_force(query: Query) -> None:
    """`force` is for apply alone. Raises Invalid."""
    if query.flag("force"):
        fault = FieldError("FieldValueForbidden", "force", None, "may not be specified for non-apply patch")
        raise Invalid.of("PatchOptions", _META, "", [fault])


def delete_options(document: JSONObject | None, query: Query, user: UserInfo) -> DeleteOptions:
    """The options of a delete: of its body if it has one, else of its query. Raises Invalid, BadRequest."""
    raw = document if document is not None else _delete_document(query)
    faults: list[FieldError] = []
    dry_run: list[str] = raw.get("dryRun") or []
    if any(each != "All" for each in dry_run):
        faults.append(not_supported("dryRun", dry_run, ("All",)))
    propagation = raw.get("propagationPolicy") or ""
    orphan = raw.get("orphanDependents")
    if propagation and orphan is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        faults.append(invalid("propagationPolicy", propagation, detail))
    elif propagation not in ("", "Foreground", "Background", "Orphan"):
        faults.append(not_supported("propagationPolicy", propagation, ("Foreground", "Background", "Orphan", "nil")))
    if faults:
        raise Invalid.of("DeleteOptions", _META, "", faults)
    if orphan is not None:
        propagation = "Orphan" if orphan else "Background"
    preconditions: JSONObject = raw.get("preconditions") or {}
    grace = raw.get("gracePeriodSeconds")
    return DeleteOptions(
        user=user,
        dry_run=bool(dry_run),
        grace_seconds=None if grace is None else max(int(grace), 1) if int(grace) < 0 else int(grace),
        propagation=propagation,
        uid=preconditions.get("uid") or "",
        resource_version=preconditions.get("resourceVersion") or "",
        raw={"kind": "DeleteOptions", "apiVersion": f"{_META}/v1"} | raw,
    )


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


def _dry_run_faults(query: Query) -> list[FieldError]:
    if all(each == "All" for each in query.dry_run):
        return []
    return [not_supported("dryRun", list(query.dry_run), ("All",))]


def _manager_faults(manager: str) -> list[FieldError]:
    faults: list[FieldError] = []
    if len(manager.encode()) > _FIELD_MANAGER_LIMIT:
        detail = f"may not be more than {_FIELD_MANAGER_LIMIT} bytes"
        faults.append(FieldError("FieldValueTooLong", "fieldManager", "", detail))
    for position, character in enumerate(manager):
        if not character.isprintable():
            detail = f"invalid character U+{ord(character):04X} (at position {position})"
            faults.append(invalid("fieldManager", manager, detail))
    return faults
