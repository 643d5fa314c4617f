"""The API objects that a Pod refers to, which its node may read.

Follows k8s.io/kubernetes pkg/api/v1/pod and pkg/api/v1/persistentvolume.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from kubewright.machinery.json import JSONObject

Reference: TypeAlias = tuple[str, str]
"""Name of a resource, and name of an object in the Pod's namespace."""

MIRROR: Final = "kubernetes.io/config.mirror"
"""The annotation of a mirror Pod: a node has created it for a Pod of its own."""
CLAIMS: Final = "persistentvolumeclaims"
_DEVICE_CLAIMS: Final = "resourceclaims.resource.k8s.io"
_WITH_SECRET: Final = ("cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos")
_CSI_SECRETS: Final = ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef")


def references(pod: JSONObject) -> Iterator[Reference]:
    """Yield what a Pod refers to. A mirror Pod refers to nothing: its node must not gain access by creating it."""
    if MIRROR in (pod["metadata"].get("annotations") or {}):
        return
    account = pod["spec"].get("serviceAccountName")
    if account:
        yield "serviceaccounts", account
    yield from secrets_and_config_maps(pod["spec"])
    for volume in pod["spec"].get("volumes") or ():
        if volume.get("persistentVolumeClaim") is not None:
            yield CLAIMS, volume["persistentVolumeClaim"].get("claimName") or ""
        elif volume.get("ephemeral") is not None:
            yield CLAIMS, f"{pod['metadata']['name']}-{volume['name']}"
    yield from ((_DEVICE_CLAIMS, name) for name in _device_claims(pod))


def secrets_and_config_maps(spec: JSONObject) -> Iterator[Reference]:
    """Yield the Secrets and ConfigMaps of a Pod's spec."""
    for secret in spec.get("imagePullSecrets") or ():
        yield from _named("secrets", secret)
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(kind) or ():
            yield from _of_environment(container)
    for volume in spec.get("volumes") or ():
        yield from _of_volume(volume)


def _of_environment(container: JSONObject) -> Iterator[Reference]:
    for source in container.get("envFrom") or ():
        yield from _named("secrets", source.get("secretRef"))
        yield from _named("configmaps", source.get("configMapRef"))
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        yield from _named("secrets", source.get("secretKeyRef"))
        yield from _named("configmaps", source.get("configMapKeyRef"))


def _of_volume(volume: JSONObject) -> Iterator[Reference]:
    yield from _named("configmaps", volume.get("configMap"))
    yield from _named("secrets", volume.get("secret"), "secretName")
    yield from _named("secrets", volume.get("azureFile"), "secretName")
    yield from _named("secrets", (volume.get("csi") or {}).get("nodePublishSecretRef"))
    for kind in _WITH_SECRET:
        yield from _named("secrets", (volume.get(kind) or {}).get("secretRef"))
    for source in (volume.get("projected") or {}).get("sources") or ():
        yield from _named("secrets", source.get("secret"))
        yield from _named("configmaps", source.get("configMap"))


def _named(resource: str, reference: JSONObject | None, field: str = "name") -> Iterator[Reference]:
    name = (reference or {}).get(field)
    if name:
        yield resource, name


def _device_claims(pod: JSONObject) -> Iterator[str]:
    """Yield the names of a Pod's ResourceClaims that exist."""
    status: JSONObject = pod.get("status") or {}
    made = {each["name"]: each.get("resourceClaimName") for each in status.get("resourceClaimStatuses") or ()}
    extended = (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    for claim in pod["spec"].get("resourceClaims") or ():
        name = claim.get("resourceClaimName") or made.get(claim["name"])
        if name:
            yield name
    if extended:
        yield extended


def secrets_of_volume(volume: JSONObject) -> Iterator[tuple[str, str]]:
    """Yield namespace and name of the Secrets that a node needs for a PersistentVolume."""
    spec: JSONObject = volume["spec"]
    home = (spec.get("claimRef") or {}).get("namespace") or ""
    azure: JSONObject = spec.get("azureFile") or {}
    if azure.get("secretName"):
        yield azure.get("secretNamespace") or home, azure["secretName"]
    csi: JSONObject = spec.get("csi") or {}
    found = [(spec.get(kind) or {}).get("secretRef") for kind in _WITH_SECRET]
    for reference in (*found, *(csi.get(each) for each in _CSI_SECRETS)):
        if reference and reference.get("name"):
            yield reference.get("namespace") or home, reference["name"]
