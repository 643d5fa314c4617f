"""What a caller may say beside the object: options of writes, deletes, lists and watches.

Follows metav1.CreateOptions, UpdateOptions, PatchOptions, DeleteOptions and ListOptions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from kubewright.machinery.json import JSONObject
from kubewright.machinery.selectors import FieldSelector, Selector
from kubewright_controlplane.apiserver.user import LOOPBACK, UserInfo

FieldValidation: TypeAlias = Literal["Ignore", "Warn", "Strict"]


@dataclass(slots=True)
class WriteOptions:
    """Who writes, and how."""

    user: UserInfo = LOOPBACK
    field_manager: str = "kube-apiserver"
    dry_run: bool = False
    field_validation: FieldValidation = "Ignore"
    force: bool = False
    """Server-side apply only: take over fields that others own."""
    faults: list[str] = field(default_factory=list[str])
    """What decoding the body found that `field_validation` is about: `duplicate field "data.k"`."""
    warnings: list[str] = field(default_factory=list[str])
    """Filled with what the client should be told."""
    raw: JSONObject = field(default_factory=dict[str, object])
    """The options as a document, for admission."""


@dataclass(slots=True)
class DeleteOptions:
    """Who deletes, and how. A precondition that is empty is not checked."""

    user: UserInfo = LOOPBACK
    dry_run: bool = False
    grace_seconds: int | None = None
    propagation: str = ""
    """Orphan, Background, Foreground, or empty for the kind's default."""
    uid: str = ""
    resource_version: str = ""
    warnings: list[str] = field(default_factory=list[str])
    raw: JSONObject = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a resource a list or a watch is about."""

    namespace: str = ""
    labels: Selector = field(default_factory=Selector)
    fields: FieldSelector = field(default_factory=FieldSelector)

    @property
    def everything(self) -> bool:
        """Whether the namespace alone decides."""
        return self.labels.empty and self.fields.empty


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Which objects, as of when, and how many."""

    selection: Selection = field(default_factory=Selection)
    resource_version: str = ""
    resource_version_match: str = ""
    limit: int = 0
    """0: all of them."""
    continue_token: str = ""
    initial_events: bool | None = None
    """Not None is an error: it is for watches."""


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """Which objects, from when, and for how long."""

    selection: Selection = field(default_factory=Selection)
    resource_version: str = ""
    resource_version_match: str = ""
    bookmarks: bool = False
    initial_events: bool | None = None
    timeout_seconds: float = 0.0
    """0: half an hour to an hour, at random, so that clients do not come back all at once."""
