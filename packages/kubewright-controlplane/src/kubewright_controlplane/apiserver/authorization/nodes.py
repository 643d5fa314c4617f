"""The Node authorizer: a node may read what its Pods refer to, and write its own objects.

Only a user `system:node:NAME` in the group `system:nodes` is a node. What such a user may do is decided by the Pods
that are bound to its node. The Pods are indexed from the first request of a node on, so a cluster whose nodes do not
use the API pays nothing.

Follows k8s.io/kubernetes plugin/pkg/auth/authorizer/node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from kubewright.machinery.json import JSONObject, quoted
from kubewright.machinery.selectors import FieldSelector
from kubewright_controlplane.apiserver import catalog
from kubewright_controlplane.apiserver.authorization.attributes import ALLOWED, AccessAttributes, Decision
from kubewright_controlplane.apiserver.authorization.podreferences import (
    CLAIMS,
    Reference,
    references,
    secrets_of_volume,
)
from kubewright_controlplane.apiserver.authorization.rbac import RBAC
from kubewright_controlplane.apiserver.authorization.rules import Rule, compile_rules
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.storage.events import Entry, Event
from kubewright_controlplane.apiserver.user import UserInfo
from kubewright_controlplane.schema.steps import on_loop

_USER: Final = "system:node:"
_GROUP: Final = "system:nodes"
_ROLE: Final = "system:node"
_LEASES: Final = "kube-node-lease"
_VOLUMES: Final = "persistentvolumes"


def node_of(user: UserInfo) -> str | None:
    """Return the name of the node that a user is; None if it is another user."""
    if not user.name.startswith(_USER) or _GROUP not in user.groups:
        return None
    return user.name[len(_USER) :]


class NodesAndRBAC:
    """Allows what the Node authorizer or RBAC allows. Without the former, a node is a user like others."""

    def __init__(self, nodes: NodeAuthorizer | None, rbac: RBAC) -> None:
        self.rbac: Final = rbac
        self._nodes = nodes

    def authorize(self, access: AccessAttributes) -> Decision:
        reason = self._denial(access)
        if reason is None:
            return ALLOWED
        decision = self.rbac.authorize(access)
        return decision if decision.allowed or not reason else Decision(False, _joined(reason, decision.reason))

    def explain(self, access: AccessAttributes) -> str:
        reason = self._denial(access)
        if reason is None:
            return ""
        why = self.rbac.explain(access)
        return why if not reason or self.rbac.allows(access) else _joined(reason, why)

    def _denial(self, access: AccessAttributes) -> str | None:
        """Return why the Node authorizer does not allow something; None if it does."""
        node = node_of(access.user) if self._nodes is not None else None
        return "" if self._nodes is None or node is None else self._nodes.denial(node, access)

    def has_further_rules(self, user: UserInfo) -> bool:
        """Return whether a user may do more than the rules of RBAC say."""
        return self._nodes is not None and node_of(user) is not None


def _joined(*reasons: str) -> str:
    return "\n".join(filter(None, reasons))


class NodeAuthorizer:
    """Decides what a node may do, by the Pods that are bound to it."""

    def __init__(self, resources: ResourceSet) -> None:
        self._resources = resources
        self._pods = BoundPods(resources)
        self._rules: tuple[Rule, ...] | None = None
        self._special: Mapping[tuple[str, str], Callable[[str, AccessAttributes], str | None]] = {
            ("", "secrets"): self._deny_reading,
            ("", "configmaps"): self._deny_reading,
            ("", CLAIMS): self._deny_claim,
            ("", _VOLUMES): self._deny_get,
            ("resource.k8s.io", "resourceclaims"): self._deny_get,
            ("storage.k8s.io", "volumeattachments"): self._deny_get,
            ("", "serviceaccounts"): self._deny_account,
            ("coordination.k8s.io", "leases"): self._deny_lease,
            ("storage.k8s.io", "csinodes"): self._deny_csi_node,
            ("resource.k8s.io", "resourceslices"): self._deny_slice,
            ("", "nodes"): self._deny_node,
            ("", "pods"): self._deny_pod,
            ("certificates.k8s.io", "podcertificaterequests"): lambda _node, _access: "",
        }

    def denial(self, node: str, access: AccessAttributes) -> str | None:
        """Return why a node may not do something, possibly an empty text; None if it may."""
        if not node:
            return f"unknown node for user {quoted(access.user.name)}"
        special = self._special.get((access.group, access.resource))
        if special is not None:
            return special(node, access)
        if not access.resource:
            return ""
        allowed = any(
            rule.matches_resource(access.verb, access.group, access.resource, access.subresource)
            for rule in self._common_rules()
        )
        return None if allowed else ""

    def _common_rules(self) -> tuple[Rule, ...]:
        """Return what every node may do: the rules of the ClusterRole as every cluster has it at first."""
        if self._rules is None:
            objects = catalog.bootstrap_objects()
            role = next(each for each in objects if each["kind"] == "ClusterRole" and each["metadata"]["name"] == _ROLE)
            self._rules = compile_rules(role["rules"])
        return self._rules

    # Objects that Pods refer to

    def _deny_reading(self, node: str, access: AccessAttributes) -> str | None:
        if access.verb not in ("get", "list", "watch"):
            return "can only read resources of this type"
        if access.subresource:
            return "cannot read subresource"
        if not access.namespace:
            return "can only read namespaced object of this type"
        return self._deny_unrelated(node, access)

    def _deny_get(self, node: str, access: AccessAttributes) -> str | None:
        if access.verb != "get":
            return "can only get individual resources of this type"
        if access.subresource:
            return "cannot get subresource"
        return self._deny_unrelated(node, access)

    def _deny_claim(self, node: str, access: AccessAttributes) -> str | None:
        if access.subresource != "status":
            return self._deny_get(node, access)
        if access.verb not in ("update", "patch"):
            return "can only get/update/patch this type"
        return self._deny_unrelated(node, access)

    def _deny_account(self, node: str, access: AccessAttributes) -> str | None:
        if access.verb == "get" and not access.subresource:
            return self._deny_reading(node, access)
        if access.verb != "create" or not access.name:
            return "can only create tokens for individual service accounts"
        if access.subresource != "token":
            return "can only create token subresource of serviceaccount"
        return self._deny_unrelated(node, access)

    def _deny_unrelated(self, node: str, access: AccessAttributes) -> str | None:
        if not access.name:
            return "No Object name found"
        if self._is_related(node, access):
            return None
        return f"no relationship found between node '{node}' and this object"

    def _is_related(self, node: str, access: AccessAttributes) -> bool:
        resource = f"{access.resource}.{access.group}" if access.group else access.resource
        if resource == "pods":
            return self._pods.has(node, access.namespace, access.name)
        if resource in ("volumeattachments.storage.k8s.io", "resourceslices.resource.k8s.io"):
            found = self._resources.registry(resource).read(access.name)
            return found is not None and found["spec"].get("nodeName") == node
        if resource == _VOLUMES:
            return any(each["metadata"]["name"] == access.name for each in self._volumes(node))
        if self._pods.refer_to(node, access.namespace, (resource, access.name)):
            return True
        wanted = (access.namespace, access.name)
        return resource == "secrets" and any(wanted in secrets_of_volume(each) for each in self._volumes(node))

    def _volumes(self, node: str) -> Iterator[JSONObject]:
        """Yield the volumes that are bound to the claims of a node's Pods."""
        for namespace, name in self._pods.claims(node):
            claim = self._resources.registry(CLAIMS).read(name, namespace)
            bound = ((claim or {}).get("spec") or {}).get("volumeName")
            volume = self._resources.registry(_VOLUMES).read(bound) if bound else None
            owner = (volume or {"spec": {}})["spec"].get("claimRef") or {}
            if volume is not None and (owner.get("namespace"), owner.get("name")) == (namespace, name):
                yield volume

    # Objects of the node itself

    def _deny_lease(self, node: str, access: AccessAttributes) -> str | None:
        if access.verb not in ("get", "create", "update", "patch", "delete"):
            return "can only get, create, update, patch, or delete a node lease"
        if access.namespace != _LEASES:
            return f'can only access leases in the "{_LEASES}" system namespace'
        if access.verb != "create" and access.name != node:
            return "can only access node lease with the same name as the requesting node"
        return None

    def _deny_csi_node(self, node: str, access: AccessAttributes) -> str | None:
        if access.verb not in ("get", "create", "update", "patch", "delete"):
            return "can only get, create, update, patch, or delete a CSINode"
        if access.subresource:
            return "cannot authorize CSINode subresources"
        if access.verb != "create" and access.name != node:
            return "can only access CSINode with the same name as the requesting node"
        return None

    def _deny_slice(self, node: str, access: AccessAttributes) -> str | None:
        if access.subresource:
            return "cannot authorize ResourceSlice subresources"
        match access.verb:
            case "create":
                return None
            case "get" | "update" | "patch" | "delete":
                return self._deny_unrelated(node, access)
            case "watch" | "list" | "deletecollection":
                why = "can only list/watch/deletecollection resourceslices with nodeName field selector"
                return None if _selects_node(access, node) else why
            case _:
                verbs = "get, watch, list, create, update, patch, delete, deletecollection"
                return f"only the following verbs are allowed for a ResourceSlice: {verbs}"

    def _deny_node(self, node: str, access: AccessAttributes) -> str | None:
        if access.subresource:
            return None if access.subresource == "status" and access.verb in ("update", "patch") else ""
        if access.verb in ("get", "list", "watch") and access.name != node:
            if not access.name:
                return f"node '{node}' cannot read all nodes, only its own Node object"
            return f"node '{node}' cannot read '{access.name}', only its own Node object"
        return None if access.verb in ("create", "update", "patch", "get", "list", "watch") else ""

    def _deny_pod(self, node: str, access: AccessAttributes) -> str | None:
        match access.subresource, access.verb:
            case "", "get":
                return self._deny_get(node, access)
            case "", ("list" | "watch"):
                if _selects_node(access, node):
                    return None
                why = "can only list/watch pods with spec.nodeName field selector"
                return self._deny_unrelated(node, access) if access.name else why
            case ("", ("create" | "delete")) | ("status", ("update" | "patch")) | ("eviction", "create"):
                return None
            case _:
                return ""


def _selects_node(access: AccessAttributes, node: str) -> bool:
    try:
        return FieldSelector.parse(access.field_selector).exact("spec.nodeName") == node
    except ValueError:
        return False  # reported when the request is served


class BoundPods:
    """The Pods of each node. Observes Pods from the first question on."""

    def __init__(self, resources: ResourceSet) -> None:
        self._resources = resources
        self._by_node: dict[str, dict[str, Entry]] = {}
        self._references: dict[str, tuple[Entry, frozenset[Reference]]] = {}
        """What Pods refer to, by their keys, for those that were asked for."""
        self._observes = False

    def has(self, node: str, namespace: str, name: str) -> bool:
        """Return whether a Pod is bound to a node."""
        return f"{namespace}/{name}" in self._of(node)

    def refer_to(self, node: str, namespace: str, reference: Reference) -> bool:
        """Return whether a Pod of a node refers to an object in its namespace."""
        pods = self._of(node).values()
        return any(reference in self._references_of(each) for each in pods if each.namespace == namespace)

    def claims(self, node: str) -> Iterator[tuple[str, str]]:
        """Yield namespace and name of the claims of a node's Pods."""
        for entry in self._of(node).values():
            yield from ((entry.namespace, name) for kind, name in self._references_of(entry) if kind == CLAIMS)

    def _of(self, node: str) -> Mapping[str, Entry]:
        if not self._observes:
            on_loop(self._observe)
        return dict(self._by_node.get(node, {}))

    def _observe(self) -> None:
        if not self._observes:
            self._observes = True
            self._resources.observe("pods", self._on_commit)

    def _on_commit(self, event: Event) -> None:
        entry = event.entry
        node = entry.fields.get("spec.nodeName")
        if not node:
            return
        if event.type == "DELETED":
            self._by_node.get(node, {}).pop(entry.key, None)
            self._references.pop(entry.key, None)
            if not self._by_node.get(node):
                self._by_node.pop(node, None)
        else:
            self._by_node.setdefault(node, {})[entry.key] = entry

    def _references_of(self, entry: Entry) -> frozenset[Reference]:
        kept = self._references.get(entry.key)
        if kept is None or kept[0] is not entry:
            kept = (entry, frozenset(references(self._resources.decode(entry.data))))
            self._references[entry.key] = kept
        return kept[1]
