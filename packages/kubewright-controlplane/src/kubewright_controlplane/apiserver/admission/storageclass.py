"""Plugins for storage: DefaultStorageClass, PersistentVolumeClaimResize.

Follows k8s.io/kubernetes plugin/pkg/admission/storage.
"""

from __future__ import annotations

from typing import Final

from kubewright.machinery.json import JSONObject
from kubewright.machinery.quantity import Quantity
from kubewright_controlplane.apiserver.admission.defaultclass import newest_default
from kubewright_controlplane.apiserver.admission.plugin import Plugin, concerns, rejection
from kubewright_controlplane.apiserver.registry.model import Attributes
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet

_CLASSES: Final = "storageclasses.storage.k8s.io"
_IS_DEFAULT: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


class DefaultStorageClass(Plugin):
    """Sets the storage class of a claim without one to the newest class that is marked as default."""

    name = "DefaultStorageClass"
    only_for = ("persistentvolumeclaims",)

    def __init__(self, resources: ResourceSet) -> None:
        self._resources = resources

    def admit(self, attributes: Attributes) -> None:
        if not concerns(attributes, "persistentvolumeclaims", "CREATE"):
            return
        assert attributes.object is not None
        spec = attributes.object["spec"]
        if spec.get("storageClassName") is not None:
            return
        name = newest_default(self._resources.registry(_CLASSES), _IS_DEFAULT)
        if name is not None:
            spec["storageClassName"] = name


class PersistentVolumeClaimResize(Plugin):
    """Rejects the growth of a claim unless its class allows volume expansion."""

    name = "PersistentVolumeClaimResize"
    only_for = ("persistentvolumeclaims",)

    def __init__(self, resources: ResourceSet) -> None:
        self._resources = resources

    def validate(self, attributes: Attributes) -> None:
        if not concerns(attributes, "persistentvolumeclaims", "UPDATE"):
            return
        new, old = attributes.object, attributes.old_object
        assert new is not None
        assert old is not None
        if _size(new) <= _size(old):
            return
        if (old.get("status") or {}).get("phase") != "Bound":
            raise rejection(attributes, "Only bound persistent volume claims can be expanded")
        name = new["spec"].get("storageClassName")
        found = self._resources.registry(_CLASSES).read(name) if name else None
        if found is None or not found.get("allowVolumeExpansion"):
            why = (
                "only dynamically provisioned pvc can be resized and "
                "the storageclass that provisions the pvc must support resize"
            )
            raise rejection(attributes, why)


def _size(claim: JSONObject) -> Quantity:
    return Quantity.of(((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", 0))
