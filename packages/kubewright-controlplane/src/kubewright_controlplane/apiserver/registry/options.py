"""Options of writes, deletes, lists and watches.

Follows metav1.CreateOptions, UpdateOptions, PatchOptions, DeleteOptions and ListOptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from kubewright.machinery.json import JSONObject
from kubewright.machinery.selectors import FieldSelector, Selector
from kubewright_controlplane.apiserver.user import LOOPBACK, UserInfo

FieldValidation: TypeAlias = Literal["Ignore", "Warn", "Strict"]


@dataclass(slots=True)
class WriteOptions:
    """Options of a create, update, patch or apply, and the user."""

    user: UserInfo = LOOPBACK
    field_manager: str = "kube-apiserver"
    dry_run: bool = False
    field_validation: FieldValidation = "Ignore"
    force: bool = False
    """Server-side apply only: take over fields that other managers own."""
    raw: JSONObject = field(default_factory=dict[str, object])
    """The options as a document, for admission."""


@dataclass(slots=True)
class WriteCall:
    """One write: its options, and the warnings about it."""

    options: WriteOptions = field(default_factory=WriteOptions)
    warnings: list[str] = field(default_factory=list[str])
    """Sent to the client as Warning headers."""
    duplicate_fields: Sequence[str] = ()
    """Errors that decoding the body found, for `field_validation`: `duplicate field "data.k"`."""


@dataclass(slots=True)
class DeleteOptions:
    """Options of a delete, and the user. An empty precondition is not checked."""

    user: UserInfo = LOOPBACK
    dry_run: bool = False
    in_collection: bool = False
    """The delete is part of a deletecollection."""
    grace_seconds: int | None = None
    propagation: str = ""
    """Orphan, Background, Foreground, or empty for the kind's default."""
    uid: str = ""
    resource_version: str = ""
    raw: JSONObject = field(default_factory=dict[str, object])
    """The options as a document, for admission."""


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
