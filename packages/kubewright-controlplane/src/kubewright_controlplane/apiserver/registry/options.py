"""Options of writes, deletes, lists and watches.

Follows metav1.CreateOptions, UpdateOptions, PatchOptions, DeleteOptions and ListOptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from kubewright.machinery.errors import Invalid
from kubewright.machinery.fields import FieldError, invalid, not_supported
from kubewright.machinery.json import JSONObject
from kubewright.machinery.selectors import FieldSelector, Selector
from kubewright_controlplane.apiserver.user import LOOPBACK, UserInfo

FieldValidation: TypeAlias = Literal["Ignore", "Warn", "Strict"]

META_GROUP: Final = "meta.k8s.io"
"""The group of the options, in errors and in documents for admission."""
_PROPAGATIONS: Final = ("", "Foreground", "Background", "Orphan")


@dataclass(slots=True)
class WriteOptions:
    """Options of a create, update, patch or apply, and the user."""

    user: UserInfo = LOOPBACK
    field_manager: str = "kube-apiserver"
    """Empty: no owner is recorded for what the write changes."""
    dry_run: bool = False
    field_validation: FieldValidation = "Ignore"
    force: bool = False
    """Server-side apply only: take over fields that other managers own."""
    raw: JSONObject = field(default_factory=dict[str, object])
    """The options as a document, for admission."""


class WrittenField(NamedTuple):
    """A field of a body, in the order in which the body has them."""

    path: str
    is_duplicate: bool
    """Whether the same JSON object has the field before."""


@dataclass(slots=True)
class WriteCall:
    """One write: its options, and the warnings about it."""

    options: WriteOptions = field(default_factory=WriteOptions)
    warnings: list[str] = field(default_factory=list[str])
    """Sent to the client as Warning headers."""
    strict_errors: Sequence[str] = ()
    """Errors that decoding the body found, for `field_validation`: `duplicate field "data.k"`."""
    written: Sequence[WrittenField] = ()
    """All fields of a JSON body that has duplicates, so that errors about built-in kinds are in written order."""


@dataclass(slots=True)
class DeleteOptions:
    """Options of a delete, and the user. A precondition of None is not checked."""

    user: UserInfo = LOOPBACK
    dry_run: bool = False
    in_collection: bool = False
    """The delete is part of a deletecollection."""
    grace_seconds: int | None = None
    propagation: str = ""
    """Orphan, Background, Foreground, or empty for the kind's default."""
    uid: str | None = None
    resource_version: str | None = None
    raw: JSONObject = field(default_factory=dict[str, object])
    """The options as a document, for admission."""

    @classmethod
    def of(cls, document: JSONObject, user: UserInfo) -> DeleteOptions:
        """Return the options in a decoded metav1.DeleteOptions. Raises Invalid."""
        errors = _delete_errors(document)
        if errors:
            raise Invalid.of("DeleteOptions", META_GROUP, "", errors)
        propagation, orphan = document.get("propagationPolicy") or "", document.get("orphanDependents")
        if orphan is not None:
            propagation = "Orphan" if orphan else "Background"
        preconditions: JSONObject = document.get("preconditions") or {}
        grace = document.get("gracePeriodSeconds")
        return cls(
            user=user,
            dry_run=bool(document.get("dryRun")),
            grace_seconds=None if grace is None else max(int(grace), 1) if int(grace) < 0 else int(grace),
            propagation=propagation,
            uid=preconditions.get("uid"),
            resource_version=preconditions.get("resourceVersion"),
            raw={"kind": "DeleteOptions", "apiVersion": f"{META_GROUP}/v1"} | document,
        )


def _delete_errors(document: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    dry_run: list[str] = document.get("dryRun") or []
    if any(each != "All" for each in dry_run):
        errors.append(not_supported("dryRun", dry_run, ("All",)))
    propagation = document.get("propagationPolicy") or ""
    if propagation and document.get("orphanDependents") is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(invalid("propagationPolicy", propagation, detail))
    elif propagation not in _PROPAGATIONS:
        errors.append(not_supported("propagationPolicy", propagation, (*_PROPAGATIONS[1:], "nil")))
    return errors


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects of a resource that a list or a watch selects."""

    namespace: str = ""
    labels: Selector = field(default_factory=Selector)
    fields: FieldSelector = field(default_factory=FieldSelector)

    @property
    def everything(self) -> bool:
        """Whether there is no selector other than the namespace."""
        return self.labels.empty and self.fields.empty

    @property
    def comparisons(self) -> int:
        """How often a label or a field may have to be compared for one object."""
        return len(self.fields.requirements) + sum(1 + len(each.values) // 8 for each in self.labels.requirements)


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Options of a list."""

    selection: Selection = field(default_factory=Selection)
    resource_version: str = ""
    resource_version_match: str = ""
    limit: int = 0
    """0: no limit."""
    continue_token: str = ""
    initial_events: bool | None = None
    """Must be None: sendInitialEvents is for watches only."""


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """Options of a watch."""

    selection: Selection = field(default_factory=Selection)
    resource_version: str = ""
    resource_version_match: str = ""
    bookmarks: bool = False
    initial_events: bool | None = None
    timeout_seconds: float = 0.0
    """0: a random time of 30 to 60 minutes, so that clients do not reconnect all at once."""
