"""The nodes of a DaemonSet's Pods, and the Pod for a node.

A Pod is restricted to its node by affinity, and bound by the scheduler. It has the tolerations of every daemon.

Follows kubernetes/pkg/controller/daemon and https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/.
"""

from __future__ import annotations

from typing import Final

import msgspec

from kubewright.apis.apps.v1 import DaemonSet
from kubewright.apis.core.v1 import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodTemplateSpec,
    Toleration,
)
from kubewright_controlplane.common import affinity, taints
from kubewright_controlplane.controllers.history import REVISION_HASH
from kubewright_controlplane.controllers.podcontrol import pod_of

_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_ON_HOST_NETWORK: Final = ("node.kubernetes.io/network-unavailable", "NoSchedule")
_FIELD: Final = "metadata.name"
_GENERATION: Final = "deprecated.daemonset.template.generation"
_GENERATION_LABEL: Final = "pod-template-generation"


def build_pod(daemon_set: DaemonSet, revision_hash: str, node: str) -> Pod:
    """Return the Pod for a node."""
    pod = pod_of(daemon_set, daemon_set.spec.template)
    generation = daemon_set.metadata.annotations.get(_GENERATION, "")
    pod.metadata.labels |= {REVISION_HASH: revision_hash, **({_GENERATION_LABEL: generation} if generation else {})}
    pod.spec = msgspec.structs.replace(
        pod.spec, affinity=_tied(pod.spec.affinity, node), tolerations=tolerations(daemon_set.spec.template)
    )
    return pod


def node_of(pod: Pod) -> str:
    """Return the node that a Pod runs on, or is created for."""
    if pod.spec.node_name:
        return pod.spec.node_name
    required = _required(pod.spec.affinity)
    for term in required.node_selector_terms if required else ():
        for field in term.match_fields:
            if field.key == _FIELD and field.operator == "In" and len(field.values) == 1:
                return field.values[0]
    return ""


def tolerations(template: PodTemplateSpec) -> list[Toleration]:
    """Return the tolerations of the template and those of every daemon."""
    keys = [*_TOLERATED, *([_ON_HOST_NETWORK] if template.spec.host_network else [])]
    added = [Toleration(key=key, operator="Exists", effect=effect) for key, effect in keys]
    return template.spec.tolerations + [each for each in added if each not in template.spec.tolerations]


def should_run(daemon_set: DaemonSet, node: Node) -> bool:
    """Return whether a Pod should start on the node."""
    return _may_stay(daemon_set, node, "NoSchedule", "NoExecute")


def may_stay(daemon_set: DaemonSet, node: Node) -> bool:
    """Return whether a Pod that is on the node keeps running."""
    return _may_stay(daemon_set, node, "NoExecute")


def _may_stay(daemon_set: DaemonSet, node: Node, *effects: str) -> bool:
    template = daemon_set.spec.template
    probe = Pod(metadata=template.metadata, spec=template.spec)
    return affinity.matches(probe, node) and taints.untolerated(node, tolerations(template), *effects) is None


def _tied(present: Affinity | None, node: str) -> Affinity:
    """Return the affinity of the template, with the node in place of its own terms."""
    only = NodeSelectorRequirement(key=_FIELD, operator="In", values=[node])
    required = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[only])])
    before = present or Affinity()
    node_affinity = msgspec.structs.replace(
        before.node_affinity or NodeAffinity(), required_during_scheduling_ignored_during_execution=required
    )
    return msgspec.structs.replace(before, node_affinity=node_affinity)


def _required(present: Affinity | None) -> NodeSelector | None:
    node_affinity = present.node_affinity if present else None
    return node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None
