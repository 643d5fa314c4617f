"""What extension servers serve, as discovery and OpenAPI show it, and the order of groups and versions.

The aggregator fills it in; discovery and OpenAPI only read it. So a slow extension server never delays them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kubewright.machinery.gvk import GroupVersion, version_order
from kubewright.machinery.json import JSONObject


class Priority(NamedTuple):
    """Where discovery lists a group version. Higher priorities come first."""

    group: int
    version: int


OWN: Final = Priority(20100, 1)
"""The priority of apiregistration.k8s.io, which is always first and has no APIService."""
DEFAULT: Final = Priority(1000, 100)
"""The priority of custom resources."""


@dataclass
class ExtensionVersion:
    """One group version of an extension server."""

    resources: list[JSONObject] = field(default_factory=list[JSONObject])
    """As in the aggregated discovery document."""
    fresh: bool = False
    """Whether the last attempt to read its discovery document succeeded."""
    openapi_hash: str = ""
    """The hash of its OpenAPI v3 document; empty if it has none."""
    swagger: bytes = b""
    """Its OpenAPI v2 document; empty if it has none."""


class Extensions:
    """The group versions of all extension servers. `generation` rises whenever something changes."""

    def __init__(self) -> None:
        self.generation = 0
        self.versions: dict[GroupVersion, ExtensionVersion] = {}
        self._priorities: dict[GroupVersion, Priority] = {}

    def set_priority(self, gv: GroupVersion, priority: Priority | None) -> None:
        """Set the priority of a group version; None: it has no APIService."""
        if self._priorities.get(gv) != priority:
            if priority is None:
                del self._priorities[gv]
            else:
                self._priorities[gv] = priority
            self.generation += 1

    def set_version(self, gv: GroupVersion, version: ExtensionVersion | None) -> None:
        """Set what an extension server serves; None: no extension server serves the group version."""
        if self.versions.get(gv) != version:
            if version is None:
                del self.versions[gv]
            else:
                self.versions[gv] = version
            self.generation += 1

    def ordered(self, served: Iterable[GroupVersion]) -> dict[str, list[str]]:
        """Return the versions of each group in the order of discovery: those `served` here, and of extension servers.

        Follows k8s.io/kube-aggregator pkg/apis/apiregistration/v1/helper.
        """
        versions = {*served, *self.versions}
        groups: dict[str, list[str]] = {}
        for gv in sorted(versions, key=lambda gv: (-self._priority(gv).group, f"{gv.version}.{gv.group}")):
            groups.setdefault(gv.group, []).append(gv.version)
        for group, listed in groups.items():
            listed.sort(key=lambda each: (-self._priority(GroupVersion(group, each)).version, version_order(each)))
        return groups

    def _priority(self, gv: GroupVersion) -> Priority:
        return OWN if gv.group == "apiregistration.k8s.io" else self._priorities.get(gv, DEFAULT)
