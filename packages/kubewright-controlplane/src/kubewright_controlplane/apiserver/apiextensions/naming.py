"""The names of custom resources: a definition gets the names that no other definition in its group has.

Follows k8s.io/apiextensions-apiserver pkg/controller/status.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.apiextensions.approval import approval_condition
from kubewright_controlplane.apiserver.registry.objects import has_condition, set_condition

_SINGLE: Final = (("plural", "Plural"), ("singular", "Singular"))
_KINDS: Final = (("kind", "Kind"), ("listKind", "ListKind"))


@dataclass(frozen=True, slots=True)
class NamesInUse:
    """The names of the other definitions in a group."""

    resources: frozenset[str]
    kinds: frozenset[str]

    @classmethod
    def of(cls, accepted: Iterable[JSONObject]) -> NamesInUse:
        resources: set[str] = set()
        kinds: set[str] = set()
        for names in accepted:
            resources.update((names.get("plural") or "", names.get("singular") or "", *(names.get("shortNames") or ())))
            kinds.update((names.get("kind") or "", names.get("listKind") or ""))
        return cls(frozenset(resources - {""}), frozenset(kinds - {""}))


def accept_names(crd: JSONObject, taken: NamesInUse, now: str) -> None:
    """Write the accepted names, and the conditions that follow from them, into a definition's status."""
    wanted: JSONObject = crd["spec"]["names"]
    status: JSONObject = crd.setdefault("status", {})
    had: JSONObject = status.get("acceptedNames") or {}
    accepted = dict(had)
    reason, message = "", ""
    for fields, others in ((_SINGLE, taken.resources), (_KINDS, taken.kinds)):
        for field, word in fields:
            name = wanted.get(field) or ""
            if name != had.get(field) and name in others:
                reason, message = f"{word}Conflict", f'"{name}" is already in use'
            else:
                accepted[field] = name
        if fields is _SINGLE:
            own = set(had.get("shortNames") or ())
            used = [name for name in wanted.get("shortNames") or () if name not in own and name in taken.resources]
            if used:
                listed = ", ".join(f'"{name}" is already in use' for name in used)
                reason, message = "ShortNamesConflict", listed if len(used) == 1 else f"[{listed}]"
            else:
                _copy(wanted, accepted, "shortNames")
    _copy(wanted, accepted, "categories")
    status["acceptedNames"] = {"plural": "", "kind": ""} | {key: value for key, value in accepted.items() if value}
    status["conditions"] = list(status.get("conditions") or ())
    approval = approval_condition(crd)
    if approval is not None:
        set_condition(crd, approval, now)
    _set(crd, "NamesAccepted", reason or "NoConflicts", message or "no conflicts found", now, holds=not reason)
    if is_established(crd):
        return
    if reason:
        _set(crd, "Established", "NotAccepted", "not all names are accepted", now, holds=False)
    else:
        _set(crd, "Established", "InitialNamesAccepted", "the initial names have been accepted", now, holds=True)


def is_established(crd: JSONObject) -> bool:
    return has_condition(crd, "Established")


def set_terminating(crd: JSONObject, reason: str, message: str, now: str, *, holds: bool) -> None:
    crd.setdefault("status", {})["conditions"] = list(crd["status"].get("conditions") or ())
    _set(crd, "Terminating", reason, message, now, holds=holds)


def _set(crd: JSONObject, kind: str, reason: str, message: str, now: str, *, holds: bool) -> None:
    status = "True" if holds else "False"
    set_condition(crd, {"type": kind, "status": status, "reason": reason, "message": message}, now)


def _copy(source: JSONObject, target: JSONObject, field: str) -> None:
    if source.get(field):
        target[field] = list(source[field])
    else:
        target.pop(field, None)
