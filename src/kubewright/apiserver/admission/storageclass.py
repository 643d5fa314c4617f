"""Plugins for storage: DefaultStorageClass, StorageObjectInUseProtection.

Follows k8s.io/kubernetes plugin/pkg/admission/storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kubewright.apiserver.admission.attributes import Attributes
from kubewright.apiserver.admission.plugin import Plugin, concerns
from kubewright.machinery.json import JSONObject

if TYPE_CHECKING:
    from kubewright.apiserver.registry.resourceset import ResourceSet

_CLASSES: Final = "storageclasses.storage.k8s.io"
_IS_DEFAULT: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_FINALIZERS: Final = {
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
    "persistentvolumes": "kubernetes.io/pv-protection",
}


class DefaultStorageClass(Plugin):
    """Gives a claim that names no class the default one: the newest of those that are marked as such."""

    name = "DefaultStorageClass"

    def __init__(self, resources: ResourceSet) -> None:
        self._resources = resources

    def admit(self, attributes: Attributes) -> None:
        if not concerns(attributes, "persistentvolumeclaims", "CREATE"):
            return
        assert attributes.object is not None
        spec = attributes.object["spec"]
        if spec.get("storageClassName") is not None:
            return
        marked = [each for each in self._resources.registry(_CLASSES).read_all() if _is_default(each)]
        newest = max(marked, key=lambda each: str(each["metadata"]["creationTimestamp"]), default=None)
        if newest is not None:
            spec["storageClassName"] = newest["metadata"]["name"]


class StorageObjectInUseProtection(Plugin):
    """Keeps claims and volumes until nobody uses them: a finalizer that the control plane takes away."""

    name = "StorageObjectInUseProtection"

    def admit(self, attributes: Attributes) -> None:
        finalizer = _FINALIZERS.get(attributes.resource.qualified)
        if finalizer is None or attributes.subresource or attributes.operation != "CREATE":
            return
        assert attributes.object is not None
        metadata = attributes.object["metadata"]
        finalizers = metadata.get("finalizers") or []
        if finalizer not in finalizers:
            metadata["finalizers"] = [*finalizers, finalizer]


def _is_default(storage_class: JSONObject) -> bool:
    annotations = storage_class["metadata"].get("annotations") or {}
    return any(annotations.get(each) == "true" for each in _IS_DEFAULT)
