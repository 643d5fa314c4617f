"""StorageObjectInUseProtection: keeps claims, volumes and attributes classes until nothing uses them.

This plugin adds the finalizer, and removes it as soon as what uses the object is gone. On a real cluster the controller
manager removes it (`persistentvolumeclaim-protection-controller` and two like it). Follows
k8s.io/kubernetes plugin/pkg/admission/storage/storageobjectinuseprotection.
"""

from __future__ import annotations

from typing import Final

from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.admission.plugin import Plugin
from kubewright_controlplane.apiserver.registry.model import Attributes
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.storage.events import Event

_CLAIMS: Final = "persistentvolumeclaims"
_VOLUMES: Final = "persistentvolumes"
_ATTRIBUTES_CLASSES: Final = "volumeattributesclasses.storage.k8s.io"
_FINALIZERS: Final = {
    _CLAIMS: "kubernetes.io/pvc-protection",
    _VOLUMES: "kubernetes.io/pv-protection",
    _ATTRIBUTES_CLASSES: "kubernetes.io/vac-protection",
}
_DONE: Final = ("Succeeded", "Failed")


class StorageObjectInUseProtection(Plugin):
    name = "StorageObjectInUseProtection"
    only_for = tuple(_FINALIZERS)

    def __init__(self, resources: ResourceSet) -> None:
        self._resources = resources
        self._ending_classes: set[str] = set()
        resources.observe("pods", self._pod_changed)
        resources.observe(_CLAIMS, self._claim_changed)
        resources.observe(_VOLUMES, self._volume_changed)
        resources.observe(_ATTRIBUTES_CLASSES, self._class_changed)

    def admit(self, attributes: Attributes) -> None:
        finalizer = _FINALIZERS.get(attributes.resource.qualified)
        if finalizer is None or attributes.subresource or attributes.operation != "CREATE":
            return
        assert attributes.object is not None
        metadata = attributes.object["metadata"]
        finalizers = metadata.get("finalizers") or []
        if finalizer not in finalizers:
            metadata["finalizers"] = [*finalizers, finalizer]

    def _pod_changed(self, event: Event) -> None:
        if event.type != "DELETED" and event.entry.fields.get("status.phase") not in _DONE:
            return
        pod = self._resources.decode(event.entry.data)
        for claim in _claims_of(pod):
            self._release_claim(claim, event.entry.namespace)

    def _claim_changed(self, event: Event) -> None:
        if event.type != "DELETED" and b'"deletionTimestamp"' in event.entry.data:
            self._release_claim(event.entry.name, event.entry.namespace)
        self._user_changed(event)

    def _volume_changed(self, event: Event) -> None:
        self._user_changed(event)
        if event.type == "DELETED" or b'"deletionTimestamp"' not in event.entry.data:
            return
        volume = self._resources.decode(event.entry.data)
        if (volume.get("status") or {}).get("phase") != "Bound":
            self._release(_VOLUMES, volume)

    def _class_changed(self, event: Event) -> None:
        self._ending_classes.discard(event.entry.name)
        if event.type != "DELETED" and b'"deletionTimestamp"' in event.entry.data:
            self._ending_classes.add(event.entry.name)
            self._release_class(event.entry.name)

    def _user_changed(self, event: Event) -> None:
        """Release the deleted classes that a claim or volume has named until now."""
        entries = [each for each in (event.entry, event.previous) if each is not None]
        for name in tuple(self._ending_classes):
            if any(name.encode() in each.data for each in entries):
                self._release_class(name)

    def _release_class(self, name: str) -> None:
        ending = self._resources.registry(_ATTRIBUTES_CLASSES).read(name, "")
        if ending is not None and not self._is_class_used(name):
            self._release(_ATTRIBUTES_CLASSES, ending)

    def _is_class_used(self, name: str) -> bool:
        for kind in (_CLAIMS, _VOLUMES):
            for entry in self._resources.registry(kind).entries():
                if name.encode() in entry.data and name in _classes_of(self._resources.decode(entry.data)):
                    return True
        return False

    def _release_claim(self, name: str, namespace: str) -> None:
        claim = self._resources.registry(_CLAIMS).read(name, namespace)
        if claim is not None and not self._is_used(name, namespace):
            self._release(_CLAIMS, claim)

    def _is_used(self, claim: str, namespace: str) -> bool:
        """Return whether a Pod that is scheduled and not finished uses the claim."""
        for pod in self._resources.registry("pods").read_all(namespace):
            running = pod["spec"].get("nodeName") and (pod.get("status") or {}).get("phase") not in _DONE
            if running and claim in _claims_of(pod):
                return True
        return False

    def _release(self, resource: str, obj: JSONObject) -> None:
        finalizer, metadata = _FINALIZERS[resource], obj["metadata"]
        if not metadata.get("deletionTimestamp") or finalizer not in (metadata.get("finalizers") or ()):
            return
        registry = self._resources.registry(resource)
        target = registry.open(metadata["name"], metadata.get("namespace", ""))
        released = target.draft()
        released["metadata"]["finalizers"] = [kept for kept in metadata["finalizers"] if kept != finalizer]
        registry.replace(target, released)


def _classes_of(obj: JSONObject) -> set[str | None]:
    """Return the attributes classes that a claim or volume names."""
    spec, status = obj["spec"], obj.get("status") or {}
    modified = status.get("modifyVolumeStatus") or {}
    return {
        spec.get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        modified.get("targetVolumeAttributesClassName"),
    }


def _claims_of(pod: JSONObject) -> list[str]:
    """Return the names of the claims that a Pod mounts, including those of ephemeral volumes."""
    name = pod["metadata"]["name"]
    found: list[str] = []
    for volume in pod["spec"].get("volumes") or ():
        claim = volume.get("persistentVolumeClaim")
        if claim is not None:
            found.append(claim.get("claimName") or "")
        elif volume.get("ephemeral") is not None:
            found.append(f"{name}-{volume['name']}")
    return found
