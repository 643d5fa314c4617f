"""Objects: the top level of a document, with `metadata`."""

from __future__ import annotations

from typing import ClassVar

from kubewright.models._apiresource import APIResource as APIResource
from kubewright.models._meta import ObjectMeta, OwnerReference
from kubewright.models._struct import Struct, field


class Object(Struct, gc=True, dict=True):
    """An object of some kind, as a Kubernetes API stores it.

    `apiVersion` and `kind` belong to the class (`__api__`), not to the object.
    """

    __api__: ClassVar[APIResource]

    metadata: ObjectMeta = field(default_factory=ObjectMeta)

    @property
    def api_version(self) -> str:
        """The class's `apiVersion`: `v1`, `apps/v1`."""
        return self.__api__.api_version

    @property
    def kind(self) -> str:
        """The class's kind: `Pod`, `Deployment`."""
        return self.__api__.kind


def owner_reference(owner: Object, *, controller: bool = True) -> OwnerReference:
    """Return the reference that makes `owner` the owner of an object, and by default its controlling owner.

    `owner` must have been read from the server, because the reference contains its uid. A controlling reference blocks
    the deletion of `owner` in the foreground, as controller-runtime's SetControllerReference does.
    """
    api, meta = owner.__api__, owner.metadata
    return OwnerReference(
        api_version=api.api_version,
        kind=api.kind,
        name=meta.name,
        uid=meta.uid,
        controller=controller or None,
        block_owner_deletion=controller or None,
    )
