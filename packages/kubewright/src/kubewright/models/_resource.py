"""Objects: what stands at the top of a document, and where the API serves it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from kubewright.machinery.gvk import GroupVersion, GroupVersionKind, GroupVersionResource
from kubewright.models import _struct as struct
from kubewright.models._meta import ObjectMeta
from kubewright.models._struct import Struct


@dataclass(frozen=True, slots=True)
class APIResource:
    """A kind and how it is served, as discovery tells it (metav1.APIResource)."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str = ""
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    api_version: str = field(init=False, repr=False, compare=False)
    """`v1`, `apps/v1`: what a document's apiVersion says."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "api_version", str(self.group_version))

    @property
    def group_version(self) -> GroupVersion:
        """The API that serves it."""
        return GroupVersion(self.group, self.version)

    @property
    def gvk(self) -> GroupVersionKind:
        """What its objects are: group, version and kind."""
        return GroupVersionKind(self.group, self.version, self.kind)

    @property
    def gvr(self) -> GroupVersionResource:
        """Where it is served: group, version and plural."""
        return GroupVersionResource(self.group, self.version, self.plural)


class Object(Struct, gc=True, dict=True):
    """An object of some kind: what a Kubernetes API stores, with `metadata`.

    Its `apiVersion` and `kind` belong to the class (`__api__`), not to the object.
    """

    __api__: ClassVar[APIResource]

    metadata: ObjectMeta = struct.field(default_factory=ObjectMeta)

    @property
    def api_version(self) -> str:
        """The class's: `v1`, `apps/v1`."""
        return self.__api__.api_version

    @property
    def kind(self) -> str:
        """The class's: `Pod`, `Deployment`."""
        return self.__api__.kind
