"""How a kind is served: its group, version, names and scope."""

from __future__ import annotations

from functools import cached_property

import msgspec

from kubewright.machinery.gvk import GroupVersion, GroupVersionKind, GroupVersionResource


class APIResource(msgspec.Struct, frozen=True, dict=True):
    """A kind and how it is served, as discovery reports it (metav1.APIResource)."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str = ""
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()

    @cached_property
    def api_version(self) -> str:
        """The `apiVersion` of its documents: `v1`, `apps/v1`."""
        return str(self.group_version)

    @property
    def group_version(self) -> GroupVersion:
        """The group and version that serve it."""
        return GroupVersion(self.group, self.version)

    @property
    def gvk(self) -> GroupVersionKind:
        """Group, version and kind of its objects."""
        return GroupVersionKind(self.group, self.version, self.kind)

    @property
    def gvr(self) -> GroupVersionResource:
        """Group, version and plural: where it is served."""
        return GroupVersionResource(self.group, self.version, self.plural)
