"""Lists: their entries, their revision, and their pages.

Follows apiserver's storage/etcd3 (GetList), storage/continue.go and metav1/validation for the options.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import msgspec
from msgspec.structs import replace as replace_struct

from kubewright.machinery.errors import BadRequest, Gone, InternalError, Invalid, Status
from kubewright.machinery.fields import FieldError, forbidden, invalid, not_supported
from kubewright.machinery.integers import parse_uint
from kubewright.machinery.selectors import FieldSelector
from kubewright_controlplane.apiserver.registry.failures import too_large_resource_version
from kubewright_controlplane.apiserver.registry.model import Resource
from kubewright_controlplane.apiserver.registry.options import ListOptions, Selection
from kubewright_controlplane.apiserver.storage.events import Entry
from kubewright_controlplane.apiserver.storage.store import EXPIRY_STEPS, Store

_ALWAYS_SELECTABLE = ("metadata.name", "metadata.namespace")

_TOKEN_VERSION = "meta.k8s.io/v1"

Matcher = Callable[[Entry], bool]

_EXPIRED_TOKEN = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class Page:
    """Some or all entries of a list, in order."""

    entries: list[Entry]
    revision: int
    continue_token: str = ""
    remaining: int | None = None


class _Token(msgspec.Struct):
    """A continue token. Revision -1 means the current revision at the time of the request."""

    v: str
    rv: int
    start: str
    step: int | None = None
    """`Store.expiry_steps` at the first page, because tokens expire also if nothing has changed since."""


def parse_revision(text: str) -> int:
    """Parse a resource version; 0 if empty. Raises InternalError, as a real API server does."""
    if not text:
        return 0
    try:
        return parse_uint(text)
    except ValueError as error:
        raise InternalError(str(invalid("resourceVersion", text, str(error))), reason="") from None


def reject_future(store: Store, revision: int) -> None:
    """Raise ServerTimeout for a future revision."""
    if revision > store.revision:
        raise too_large_resource_version(revision, store.revision)


def matcher(resource: Resource, selection: Selection) -> Matcher | None:
    """Return a function that decides whether an entry is selected; None if only the namespace selects.

    Raises BadRequest for a field that is not selectable.
    """
    for requirement in selection.fields.requirements:
        if not _is_selectable(resource, requirement.field):
            raise BadRequest(_not_selectable(resource, requirement.field))
    labels, fields = selection.labels, _stored_names(resource, selection.fields)
    if selection.everything:
        return None
    labels_match, fields_match = labels.matcher(), fields.matcher()
    if fields.empty:
        return lambda entry: labels_match(entry.labels)

    def matches(entry: Entry) -> bool:
        own = {"metadata.name": entry.name, "metadata.namespace": entry.namespace, **entry.fields}
        return fields_match(own) and labels_match(entry.labels)

    return matches


def _stored_names(resource: Resource, fields: FieldSelector) -> FieldSelector:
    names = resource.strategy.stored_field_names
    if not names:
        return fields
    return FieldSelector(
        tuple(replace_struct(each, field=names.get(each.field, each.field)) for each in fields.requirements)
    )


def _is_selectable(resource: Resource, field: str) -> bool:
    if field == "metadata.namespace" and not resource.namespaced and not resource.custom:
        return not resource.selectable_fields  # such a built-in kind selects by its own fields and its name
    return field in _ALWAYS_SELECTABLE or field in resource.selectable_fields


def _not_selectable(resource: Resource, field: str) -> str:
    if resource.strategy.unselectable:
        return resource.strategy.unselectable.format(field)
    if resource.custom or resource.selectable_fields:
        return f"field label not supported: {field}"
    return f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'


class Listing:
    """A list at one revision, before entries are selected.

    Raises Invalid or BadRequest for contradictory options, Gone for a revision that is no longer kept, ServerTimeout
    for a future revision.
    """

    def __init__(self, store: Store, resource: Resource, options: ListOptions) -> None:
        _check(options)
        self._selection = options.selection
        self._matches = matcher(resource, options.selection)
        self._entries, self._at, self._limit = _scanned(store, resource, options)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def comparisons(self) -> int:
        """How often a label or a field may have to be compared."""
        return len(self._entries) * self._selection.comparisons

    def page(self) -> Page:
        """Return the selected entries. Any thread may call it."""
        if self._limit:
            return _cut(self._entries, self._matches, self._limit, self._at)
        matches, entries = self._matches, self._entries
        return Page(entries if matches is None else [entry for entry in entries if matches(entry)], self._at.rv)


def _scanned(store: Store, resource: Resource, options: ListOptions) -> tuple[list[Entry], _Token, int]:
    """Return the entries to select from, where they start, and how many are wanted (0: all)."""
    try:
        asked = parse_revision(options.resource_version)
    except InternalError as error:
        raise BadRequest(f"invalid resource version: {error}") from error
    reject_future(store, asked)
    exact = options.resource_version_match == "Exact"
    limit = 0 if asked == 0 and options.resource_version and not exact else max(options.limit, 0)
    if asked and limit and not options.resource_version_match:
        exact = True
    at = _Token(_TOKEN_VERSION, asked if exact else store.revision, "", store.expiry_steps)
    if options.continue_token:
        at = _decode_token(options.continue_token)
        if at.rv < 0 or at.step is None:
            at = replace_struct(at, rv=store.revision if at.rv < 0 else at.rv, step=store.expiry_steps)
    try:
        return _scan(store, resource, options.selection.namespace, at), at, limit
    except Gone as gone:
        raise _expired(options, at) from gone


def _scan(store: Store, resource: Resource, namespace: str, at: _Token) -> list[Entry]:
    """Return the entries after a token. Raises Gone if the token has expired."""
    if at.step is not None and store.expiry_steps - at.step > EXPIRY_STEPS:
        raise Gone("The provided continue parameter is too old.")
    return store.scan(resource.storage, namespace=namespace, revision=at.rv, after=at.start)


def _cut(entries: list[Entry], matches: Matcher | None, limit: int, at: _Token) -> Page:
    """Return the first `limit` entries that match, and a token for the others."""
    if matches is None:
        page, remaining = entries[:limit], len(entries) - limit
        if remaining <= 0:
            return Page(page, at.rv)
        return Page(page, at.rv, _encode_token(at, page[-1].key), remaining)
    page = list(islice(filter(matches, entries), limit + 1))
    if len(page) <= limit:
        return Page(page, at.rv)
    page.pop()
    return Page(page, at.rv, _encode_token(at, page[-1].key))


def _check(options: ListOptions) -> None:
    match, version = options.resource_version_match, options.resource_version
    errors: list[FieldError] = []
    if match:
        if options.continue_token:
            errors.append(
                forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
            )
        if not version:
            errors.append(
                forbidden(
                    "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
                )
            )
        if match not in ("Exact", "NotOlderThan"):
            errors.append(not_supported("resourceVersionMatch", match, ("Exact", "NotOlderThan", "")))
        if match == "Exact" and version == "0":
            detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            errors.append(forbidden("resourceVersionMatch", detail))
    if options.initial_events is not None:
        errors.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if errors:
        raise Invalid.of("ListOptions", "meta.k8s.io", "", errors)
    if options.continue_token and version not in ("", "0"):
        raise BadRequest("specifying resource version is not allowed when using continue")


def _encode_token(at: _Token, last: str) -> str:
    """Return a token for what follows the key `last`."""
    data = msgspec.json.encode(replace_struct(at, start=f"{last}\0"))
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode_token(text: str) -> _Token:
    """Return the token, with the key after which the next page starts."""
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = msgspec.json.decode(data, type=_Token)
    except ValueError as error:
        raise BadRequest(f"invalid continue token: continue key is not valid: {error}") from error
    if token.v != _TOKEN_VERSION:
        why = f'server does not recognize this encoded version "{token.v}"'
        raise BadRequest(f"invalid continue token: continue key is not valid: {why}")
    return replace_struct(token, start=token.start.removeprefix("/").removesuffix("\0"))


def _expired(options: ListOptions, at: _Token) -> Gone:
    if not options.continue_token:
        return Gone("The resourceVersion for the provided list is too old.")
    metadata = {"continue": _encode_token(_Token(_TOKEN_VERSION, -1, ""), at.start)}
    return Gone(status=Status(410, "Expired", _EXPIRED_TOKEN, metadata=metadata))
