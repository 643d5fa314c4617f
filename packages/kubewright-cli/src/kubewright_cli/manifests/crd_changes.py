"""Changes of CRDs that break users of a release: what `kubewright generate --check --released` reports.

Compares the versions that the release serves. A version that the release marks as deprecated may go; everything else
that users can depend on must stay: see `schema_changes` for the schemas.

Source: https://kubernetes.io/docs/reference/using-api/deprecation-policy/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from kubewright.machinery.json import JSONObject
from kubewright_cli.manifests.schema_changes import schema_changes

_MOVE: Final = "add a kind with another name, and let the operator move the objects"


@dataclass(frozen=True, slots=True)
class BreakingChange:
    """A change of a CRD that breaks users of the released one."""

    crd: str
    version: str
    """Empty for what all versions share."""
    path: str
    """The field of the object, or of `spec` of the CRD; empty for the whole."""
    change: str
    """What changed, from what to what."""
    reason: str
    """Why it breaks users."""
    remedy: str
    """How to make the change without breaking them."""

    def __str__(self) -> str:
        where = " ".join(each for each in (self.crd, self.version, self.path) if each)
        return f"{where}: {self.change}; {self.reason}. Way out: {self.remedy}"


def breaking_changes(released: Iterable[JSONObject], current: Iterable[JSONObject]) -> list[BreakingChange]:
    """Return the changes from the `released` to the `current` CRDs that break users, by CRD, version and field.

    The documents have the apiVersion apiextensions.k8s.io/v1.
    """
    now = {crd["metadata"]["name"]: crd for crd in current}
    found: list[BreakingChange] = []
    for crd in sorted(released, key=lambda each: str(each["metadata"]["name"])):
        found += _changes(crd, now)
    return found


def _changes(released: JSONObject, now: dict[str, JSONObject]) -> Iterator[BreakingChange]:
    name = released["metadata"]["name"]
    current = now.get(name)
    if current is None:
        yield _removed(released, now)
        return
    old, new = released["spec"], current["spec"]
    yield from _shared(name, old, new)
    versions = {each["name"]: each for each in new["versions"]}
    for version in old["versions"]:
        yield from _version(name, version, versions.get(version["name"]))


def _removed(released: JSONObject, now: dict[str, JSONObject]) -> BreakingChange:
    name, kind = released["metadata"]["name"], released["spec"]["names"]["kind"]
    other = next((each for each, crd in now.items() if crd["spec"]["names"]["kind"] == kind), None)
    change = f"kind {kind} removed" if other is None else f"group or plural changed: kind {kind} is now {other}"
    reason = "users lose all objects of the kind when its CRD is deleted"
    remedy = "keep the kind, mark its versions as deprecated, and let the operator move the objects first"
    return BreakingChange(name, "", "", change, reason, remedy)


def _shared(crd: str, old: JSONObject, new: JSONObject) -> Iterator[BreakingChange]:
    """Yield changes of the scope and the names."""
    if old["scope"] != new["scope"]:
        yield BreakingChange(
            crd,
            "",
            "scope",
            f"changed from {old['scope']} to {new['scope']}",
            "the API server refuses the CRD, and users' objects have other paths",
            _MOVE,
        )
    for key in ("kind", "listKind", "singular"):
        before, after = (_names(spec)[key] for spec in (old, new))
        if before != after:
            yield BreakingChange(
                crd,
                "",
                f"names.{key}",
                f"changed from {before} to {after}",
                "users' files and clients have the old name",
                _MOVE if key == "kind" else "keep the name",
            )
    for key in ("shortNames", "categories"):
        gone = [each for each in old["names"].get(key, []) if each not in new["names"].get(key, [])]
        if gone:
            yield BreakingChange(
                crd,
                "",
                f"names.{key}",
                f"removed: {', '.join(gone)}",
                "kubectl no longer finds the kind by the name",
                "keep the names and add others",
            )


def _names(spec: JSONObject) -> dict[str, str]:
    """Return the names with the API server's defaults."""
    kind = str(spec["names"]["kind"])
    return {"listKind": f"{kind}List", "singular": kind.lower(), **spec["names"]}


def _version(crd: str, old: JSONObject, new: JSONObject | None) -> Iterator[BreakingChange]:
    name = str(old["name"])
    if new is None and old["storage"]:
        yield BreakingChange(
            crd,
            name,
            "",
            "storage version removed",
            "objects may be stored in it, and the API server refuses the CRD while they may be",
            "keep the version with served=False, run `kubewright migrate` in each cluster, and remove the version in a "
            "later release",
        )
    elif old["served"] and not old.get("deprecated") and (new is None or not new["served"]):
        yield BreakingChange(
            crd,
            name,
            "",
            "served version removed" if new is None else "version is no longer served",
            "users' files and clients that name the version fail",
            'serve it with deprecated="use ..." in a release, and remove it in a later one',
        )
    if new is not None and old["served"] and new["served"]:
        yield from _content(crd, name, old, new)


def _content(crd: str, name: str, old: JSONObject, new: JSONObject) -> Iterator[BreakingChange]:
    """Yield changes of a version that the release serves and the program serves, too."""
    yield from _subresources(crd, name, old.get("subresources") or {}, new.get("subresources") or {})
    kept = {each["jsonPath"] for each in new.get("selectableFields") or ()}
    for each in old.get("selectableFields") or ():
        if each["jsonPath"] not in kept:
            path = str(each["jsonPath"]).removeprefix(".")
            reason = "lists and watches with this field selector fail"
            yield BreakingChange(crd, name, path, "selectable field removed", reason, "keep it selectable")
    for change in schema_changes(_schema(old), _schema(new)):
        yield BreakingChange(crd, name, change.path, change.change, change.reason, change.remedy)


def _subresources(crd: str, name: str, old: JSONObject, new: JSONObject) -> Iterator[BreakingChange]:
    if ("status" in old) != ("status" in new):
        yield BreakingChange(
            crd,
            name,
            "",
            f"subresource status {'removed' if 'status' in old else 'added'}",
            "clients write the status through another path, and their writes of it are ignored",
            "keep it as it is, or change it in a new version",
        )
    if "scale" in old and old["scale"] != new.get("scale"):
        yield BreakingChange(
            crd,
            name,
            "",
            "subresource scale changed" if "scale" in new else "subresource scale removed",
            "`kubectl scale` and autoscalers fail or change another field",
            "keep it as it is, or change it in a new version",
        )


def _schema(version: JSONObject) -> JSONObject:
    schema: JSONObject = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return schema
