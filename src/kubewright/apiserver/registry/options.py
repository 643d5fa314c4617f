"""What a caller may say beside the object: options of writes, deletes, lists and watches.

Follows metav1.CreateOptions, UpdateOptions, PatchOptions, DeleteOptions and ListOptions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from kubewright.apiserver.authentication.user import LOOPBACK, UserInfo
from kubewright.machinery.json import JSONObject

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
    warnings: list[str] = field(default_factory=list[str])
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
