"""NodeRestriction: a node writes only its own objects, the status of its Pods, and labels that steer nothing.

Follows k8s.io/kubernetes plugin/pkg/admission/noderestriction.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Final

from cryptography.x509 import load_pem_x509_csr
from cryptography.x509.oid import NameOID

from kubewright.machinery.json import JSONObject, equal, quoted
from kubewright_controlplane.apiserver.admission.plugin import Plugin, rejection
from kubewright_controlplane.apiserver.authorization.attributes import AccessAttributes, Authorizer
from kubewright_controlplane.apiserver.authorization.nodes import node_of
from kubewright_controlplane.apiserver.authorization.podreferences import CLAIMS, MIRROR, secrets_and_config_maps
from kubewright_controlplane.apiserver.registry.failures import not_found
from kubewright_controlplane.apiserver.registry.model import Attributes
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet

_REQUESTS: Final = "certificatesigningrequests.certificates.k8s.io"
_CSI_NODES: Final = "csinodes.storage.k8s.io"
_LEASES: Final = "leases.coordination.k8s.io"
_SLICES: Final = "resourceslices.resource.k8s.io"
_LEASE_NAMESPACE: Final = "kube-node-lease"
_SIGNERS: Final = ("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet")
_OWN_LABELS: Final = frozenset(
    (
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    )
)
_OWN_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_RESERVED_DOMAINS: Final = ("kubernetes.io", "k8s.io")
_RESTRICTED_DOMAIN: Final = "node-restriction.kubernetes.io"
_LOCAL_VOLUMES: Final = frozenset(
    (
        "awsElasticBlockStore", "azureDisk", "cephfs", "cinder", "downwardAPI", "emptyDir", "fc", "flexVolume",
        "flocker", "gcePersistentDisk", "gitRepo", "hostPath", "image", "iscsi", "nfs", "photonPersistentDisk",
        "portworxVolume", "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume",
    )
)  # fmt: skip
_REMOTE_VOLUMES: Final = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_REMOTE_SOURCES: Final = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}
_OPEN_STATUS: Final = ("capacity", "conditions", "allocatedResourceStatuses", "allocatedResources")
"""The fields of a claim's status that a node may write."""


class NodeRestriction(Plugin):
    """Rejects writes of nodes that concern other nodes."""

    name = "NodeRestriction"
    only_for = ("nodes", "pods", "serviceaccounts", CLAIMS, _CSI_NODES, _LEASES, _REQUESTS, _SLICES)

    def __init__(self, resources: ResourceSet, authorizer: Authorizer) -> None:
        self._resources = resources
        self._authorizer = authorizer

    def admit(self, attributes: Attributes) -> None:
        node = node_of(attributes.user)
        if node is None:
            return
        if not node:
            raise rejection(attributes, f"could not determine node from user {quoted(attributes.user.name)}")
        why = self._objection(node, attributes)
        if why:
            raise rejection(attributes, why)

    def _objection(self, node: str, attributes: Attributes) -> str:
        """Return why a node may not make a write; empty if it may."""
        match attributes.resource.qualified:
            case "pods":
                return self._of_pod(node, attributes)
            case "nodes":
                return _of_node(node, attributes)
            case "persistentvolumeclaims":
                return _of_claim(node, attributes)
            case "serviceaccounts":
                return self._of_account(node, attributes)
            case "leases.coordination.k8s.io":
                return _of_lease(node, attributes)
            case "csinodes.storage.k8s.io":
                why = "can only access CSINode with the same name as the requesting node"
                return "" if attributes.name == node else why
            case "resourceslices.resource.k8s.io":
                return _of_slice(node, attributes)
            case _:
                return _of_request(node, attributes)

    # Pods

    def _of_pod(self, node: str, attributes: Attributes) -> str:
        match attributes.subresource, attributes.operation:
            case "", "CREATE":
                assert attributes.object is not None
                return self._of_new_pod(node, attributes.object)
            case "", "DELETE":
                bound = (attributes.old_object or {"spec": {}})["spec"].get("nodeName")
                why = f"node {quoted(node)} can only delete pods with spec.nodeName set to itself"
                return "" if bound == node else why
            case "", operation:
                what = f"unexpected operation {quoted(operation)}"
                return f"{what}, node {quoted(node)} can only create and delete mirror pods"
            case "status", "UPDATE":
                return _of_pod_status(node, attributes)
            case "status", operation:
                return f"unexpected operation {quoted(operation)}"
            case "eviction", _:
                why = f"node {node} can only evict pods with spec.nodeName set to itself"
                return "" if self._pod(attributes.name, attributes)["spec"].get("nodeName") == node else why
            case subresource, _:
                what = f"unexpected pod subresource {quoted(subresource)}"
                return f"{what}, only 'status' and 'eviction' are allowed"

    def _pod(self, name: str, attributes: Attributes) -> JSONObject:
        registry = self._resources.registry("pods")
        found = registry.read(name, attributes.namespace)
        if found is None:
            raise not_found(registry.resource, name)
        return found

    def _of_new_pod(self, node: str, pod: JSONObject) -> str:
        name, metadata = quoted(node), pod["metadata"]
        if MIRROR not in (metadata.get("annotations") or {}):
            return f"pod does not have {quoted(MIRROR)} annotation, node {name} can only create mirror pods"
        if pod["spec"].get("nodeName") != node:
            return f"node {name} can only create pods with spec.nodeName set to itself"
        owners = metadata.get("ownerReferences") or []
        if len(owners) > 1:
            return f"node {name} can only create pods with a single owner reference set to itself"
        own = {"apiVersion": "v1", "kind": "Node", "name": node}
        if not owners or any(owners[0].get(key) != value for key, value in own.items()):
            return f"node {name} can only create pods with an owner reference set to itself"
        if not owners[0].get("controller"):
            return f"node {name} can only create pods with a controller owner reference set to itself"
        if owners[0].get("blockOwnerDeletion"):
            return f"node {name} must not set blockOwnerDeletion on an owner reference"
        return self._of_owner(node, owners[0]) or _of_references(name, pod["spec"])

    def _of_owner(self, node: str, owner: JSONObject) -> str:
        registry = self._resources.registry("nodes")
        found = registry.read(node)
        if found is None:
            raise not_found(registry.resource, node)
        uid = found["metadata"]["uid"]
        return "" if owner.get("uid") == uid else f"node {node} UID mismatch: expected {owner.get('uid')} got {uid}"

    # Tokens

    def _of_account(self, node: str, attributes: Attributes) -> str:
        if attributes.operation != "CREATE" or attributes.subresource != "token":
            return ""
        spec = (attributes.object or {}).get("spec") or {}
        reference = spec.get("boundObjectRef") or {}
        if reference.get("apiVersion") != "v1" or reference.get("kind") != "Pod" or not reference.get("name"):
            return "node requested token not bound to a pod"
        uid = reference.get("uid")
        if not uid:
            return "node requested token with a pod binding without a uid"
        pod = self._pod(reference["name"], attributes)
        if pod["metadata"]["uid"] != uid:
            return (
                f"the UID in the bound object reference ({uid}) does not match the UID in record. The object might "
                "have been deleted and then recreated"
            )
        if pod["spec"].get("nodeName") != node:
            return "node requested token bound to a pod scheduled on a different node"
        return self._of_audiences(spec.get("audiences") or [""], pod, attributes)

    def _of_audiences(self, audiences: list[str], pod: JSONObject, attributes: Attributes) -> str:
        if len(audiences) > 1:
            return "node may only request 0 or 1 audiences"
        audience, user = audiences[0], attributes.user
        if audience in self._audiences(pod):
            return ""
        verb = "request-serviceaccounts-token-audience"
        access = AccessAttributes(
            user, verb, "", "v1", audience, namespace=attributes.namespace, name=attributes.name
        )  # fmt: skip
        if self._authorizer.authorize(access).allowed:
            return ""
        why = f"{user.name} is not authorized to request tokens for this audience"
        return f"audience {quoted(audience)} not found in pod spec volume, {why}"

    def _audiences(self, pod: JSONObject) -> Iterator[str]:
        """Yield the audiences of the tokens that a Pod mounts, and of those that its CSI drivers ask for."""
        for volume in pod["spec"].get("volumes") or ():
            for source in (volume.get("projected") or {}).get("sources") or ():
                if source.get("serviceAccountToken") is not None:
                    yield source["serviceAccountToken"].get("audience") or ""
            driver = self._driver(volume, pod["metadata"])
            found = self._resources.registry("csidrivers.storage.k8s.io").read(driver) if driver else None
            for request in ((found or {}).get("spec") or {}).get("tokenRequests") or ():
                yield request.get("audience") or ""

    def _driver(self, volume: JSONObject, metadata: JSONObject) -> str:
        """Return the CSI driver of a Pod's volume; empty if there is none."""
        if volume.get("csi") is not None:
            return volume["csi"].get("driver") or ""
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if volume.get("ephemeral") is not None:
            name = f"{metadata['name']}-{volume['name']}"
        claim = self._resources.registry(CLAIMS).read(name, metadata["namespace"]) if name else None
        bound = ((claim or {}).get("spec") or {}).get("volumeName")
        found = self._resources.registry("persistentvolumes").read(bound) if bound else None
        return (((found or {}).get("spec") or {}).get("csi") or {}).get("driver") or ""


def _of_pod_status(node: str, attributes: Attributes) -> str:
    new, old, name = attributes.object, attributes.old_object, quoted(node)
    assert new is not None
    assert old is not None
    if old["spec"].get("nodeName") != node:
        return f"node {name} can only update pod status for pods with spec.nodeName set to itself"
    if (old["metadata"].get("labels") or {}) != (new["metadata"].get("labels") or {}):
        return f"node {name} cannot update labels through pod status"
    before, after = old.get("status") or {}, new.get("status") or {}
    if (before.get("resourceClaimStatuses") or []) != (after.get("resourceClaimStatuses") or []):
        return f"node {name} cannot update resource claim statues"
    if before.get("extendedResourceClaimStatus") != after.get("extendedResourceClaimStatus"):
        return f"node {name} cannot update extended resource claim status"
    return ""


def _of_references(name: str, spec: JSONObject) -> str:
    """Return the objection to what a mirror Pod refers to: it needs nothing from the API."""
    why = f"node {name} can not create pods that reference"
    if spec.get("serviceAccountName"):
        return f"{why} serviceaccounts"
    found = {resource for resource, _ in secrets_and_config_maps(spec)}
    for resource in ("secrets", "configmaps"):
        if resource in found:
            return f"{why} {resource}"
    if spec.get("resourceClaims"):
        return f"{why} resourceclaims"
    what = next(filter(None, map(_remote, spec.get("volumes") or ())), "")
    return f"{why} {what}" if what else ""


def _remote(volume: JSONObject) -> str:
    """Return what a volume takes from the API; empty if nothing."""
    if any(volume.get(each) is not None for each in _LOCAL_VOLUMES):
        return ""
    for kind, what in _REMOTE_VOLUMES.items():
        if volume.get(kind) is not None:
            return what
    for source in (volume.get("projected") or {}).get("sources") or ():
        for kind, what in _REMOTE_SOURCES.items():
            if source.get(kind) is not None:
                return what
    return ""


# Nodes, and what has their names


def _of_node(node: str, attributes: Attributes) -> str:
    if attributes.name != node:
        return f"node {quoted(node)} is not allowed to modify node {quoted(attributes.name)}"
    new, old = attributes.object, attributes.old_object
    if new is None:
        return ""
    if old is None:
        return _of_new_node(node, new)
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if after.get("configSource") is not None and after["configSource"] != before.get("configSource"):
        return f"node {quoted(node)} is not allowed to update configSource to a new non-nil configSource"
    if (before.get("taints") or []) != (after.get("taints") or []):
        return f"node {quoted(node)} is not allowed to modify taints"
    if (old["metadata"].get("ownerReferences") or []) != (new["metadata"].get("ownerReferences") or []):
        return f"node {quoted(node)} is not allowed to modify ownerReferences"
    labels = _forbidden_labels(new["metadata"].get("labels") or {}, old["metadata"].get("labels") or {})
    return f"is not allowed to modify labels: {labels}" if labels else ""


def _of_new_node(node: str, new: JSONObject) -> str:
    if (new.get("spec") or {}).get("configSource") is not None:
        return f"node {quoted(node)} is not allowed to create pods with a non-nil configSource"
    labels = _forbidden_labels(new["metadata"].get("labels") or {}, {})
    return f"node {quoted(node)} is not allowed to set the following labels: {labels}" if labels else ""


def _forbidden_labels(new: Mapping[str, str], old: Mapping[str, str]) -> str:
    """Return the changed labels that a node must not change, as text."""
    changed = {key for key in {*new, *old} if new.get(key) != old.get(key)}
    return ", ".join(sorted(filter(_is_forbidden, changed)))


def _is_forbidden(label: str) -> bool:
    domain, slash, _ = label.partition("/")
    if not slash:
        return False
    if _is_below(domain, _RESTRICTED_DOMAIN):
        return True
    is_reserved = any(_is_below(domain, each) for each in _RESERVED_DOMAINS)
    return is_reserved and label not in _OWN_LABELS and not any(_is_below(domain, each) for each in _OWN_DOMAINS)


def _is_below(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")


def _of_lease(node: str, attributes: Attributes) -> str:
    if attributes.namespace != _LEASE_NAMESPACE:
        return f"can only access leases in the {quoted(_LEASE_NAMESPACE)} system namespace"
    why = "can only access node lease with the same name as the requesting node"
    return "" if attributes.name == node else why


def _of_slice(node: str, attributes: Attributes) -> str:
    verb, obj = {"CREATE": ("create", attributes.object), "DELETE": ("delete", attributes.old_object)}.get(
        attributes.operation, ("", None)
    )
    if not verb or ((obj or {}).get("spec") or {}).get("nodeName") == node:
        return ""
    return f"can only {verb} ResourceSlice with the same NodeName as the requesting node"


def _of_claim(node: str, attributes: Attributes) -> str:
    if attributes.subresource != "status":
        return "may only update PVC status"
    if attributes.operation != "UPDATE":
        return f"unexpected operation {quoted(attributes.operation)}"
    new, old = _fixed(attributes.object or {}), _fixed(attributes.old_object or {})
    if equal(new, old):
        return ""
    changed = ", ".join(sorted(key for key in {*new, *old} if new.get(key) != old.get(key)))
    what = "fields other than status.quantity and status.conditions"
    return f"node {quoted(node)} is not allowed to update {what}: {changed} differs"


def _fixed(claim: JSONObject) -> JSONObject:
    """Return the parts of a claim that a node must not change."""
    ignored = ("resourceVersion", "managedFields")
    metadata = {key: value for key, value in claim["metadata"].items() if key not in ignored and value}
    status = {key: value for key, value in (claim.get("status") or {}).items() if key not in _OPEN_STATUS}
    return {"metadata": metadata, "spec": claim.get("spec"), "status": status}


def _of_request(node: str, attributes: Attributes) -> str:
    spec = (attributes.object or {}).get("spec") or {}
    if attributes.operation != "CREATE" or spec.get("signerName") not in _SIGNERS:
        return ""
    try:
        request = load_pem_x509_csr(base64.b64decode(spec.get("request") or ""))
    except ValueError as error:
        return f"unable to parse csr: {error}"
    names = [str(each.value) for each in request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    why = f"can only create a node CSR with CN=system:node:{node}"
    return "" if names == [f"system:node:{node}"] else why
