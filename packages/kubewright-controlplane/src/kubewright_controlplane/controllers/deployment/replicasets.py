"""The ReplicaSets of a Deployment: the new one, how it is created, and the revisions.

The name of a ReplicaSet ends with a hash of its Pod template. So a template has one ReplicaSet, even if the controller
restarts between two writes.

Follows kubernetes/pkg/controller/deployment/util.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kubewright.apis.apps.v1 import Deployment, ReplicaSet, ReplicaSetSpec
from kubewright.apis.core.v1 import PodTemplateSpec
from kubewright.apis.meta.v1 import LabelSelector, ObjectMeta, owner_reference
from kubewright_controlplane.controllers.deployment import rollout
from kubewright_controlplane.controllers.hashing import short_hash

TEMPLATE_HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_NOT_COPIED = frozenset(
    {_LAST_APPLIED, REVISION, REVISION_HISTORY, rollout.DESIRED_REPLICAS, rollout.MAX_REPLICAS,
     "deprecated.deployment.rollback.to"}
)  # fmt: skip


def new_of(deployment: Deployment, sets: Iterable[ReplicaSet]) -> ReplicaSet | None:
    """Return the oldest ReplicaSet with the Deployment's template."""
    template = _comparable(deployment.spec.template)
    alike = [each for each in sets if _comparable(each.spec.template) == template]
    return rollout.by_age(alike)[0] if alike else None


def is_of(deployment: Deployment, replica_set: ReplicaSet) -> bool:
    """Return whether a ReplicaSet belongs to the Deployment and has its current template."""
    owned = any(
        each.controller and each.uid == deployment.metadata.uid for each in replica_set.metadata.owner_references
    )
    return owned and new_of(deployment, [replica_set]) is not None


def build(deployment: Deployment, olds: Sequence[ReplicaSet], revision: int) -> ReplicaSet:
    """Return the ReplicaSet for the Deployment's current template."""
    hashed = template_hash(deployment.spec.template, deployment.status.collision_count or 0)
    template = _with_label(deployment.spec.template, hashed)
    selector = deployment.spec.selector
    return ReplicaSet(
        metadata=ObjectMeta(
            name=f"{deployment.metadata.name}-{hashed}",
            namespace=deployment.metadata.namespace,
            labels=dict(template.metadata.labels),
            annotations=annotations_for(deployment, {}, revision),
            owner_references=[owner_reference(deployment)],
        ),
        spec=ReplicaSetSpec(
            replicas=rollout.size_at_birth(deployment, olds),
            min_ready_seconds=deployment.spec.min_ready_seconds,
            selector=LabelSelector(
                match_labels={**selector.match_labels, TEMPLATE_HASH: hashed},
                match_expressions=selector.match_expressions,
            ),
            template=template,
        ),
    )


def template_hash(template: PodTemplateSpec, collisions: int) -> str:
    """Return a hash of a template. Another collision count leads to another hash."""
    data = _comparable(template) + (str(collisions).encode() if collisions else b"")
    return short_hash(data)


def revision_of(replica_set: ReplicaSet) -> int:
    text = replica_set.metadata.annotations.get(REVISION, "0")
    return int(text) if text.isdecimal() else 0


def annotations_for(deployment: Deployment, present: Mapping[str, str], revision: int) -> dict[str, str]:
    """Return the annotations of the new ReplicaSet: the Deployment's, its revision, and the sizes that scaling uses."""
    result = dict(present)
    result.update({key: value for key, value in deployment.metadata.annotations.items() if key not in _NOT_COPIED})
    text = present.get(REVISION, "0")
    before = int(text) if text.isdecimal() else 0
    if revision > before:
        if before:
            history = result.get(REVISION_HISTORY)
            result[REVISION_HISTORY] = f"{history},{before}" if history else str(before)
        result[REVISION] = str(revision)
    result.update(rollout.size_annotations(deployment))
    return result


def surplus(deployment: Deployment, olds: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """Return the ReplicaSets beyond the revision history limit that have no Pods."""
    limit = deployment.spec.revision_history_limit
    if limit is None:
        return []
    empty = [
        each
        for each in olds
        if not (each.spec.replicas or each.status.replicas) and each.metadata.deletion_timestamp is None
    ]
    empty.sort(key=revision_of)
    return empty[: max(0, len(olds) - limit)]


def _comparable(template: PodTemplateSpec | None) -> bytes:
    document: dict[str, Any] = msgspec.to_builtins(template or PodTemplateSpec())
    labels = document.get("metadata", {}).get("labels")
    if labels:
        labels.pop(TEMPLATE_HASH, None)
    return msgspec.json.encode(document, order="sorted")


def _with_label(template: PodTemplateSpec, hashed: str) -> PodTemplateSpec:
    metadata = msgspec.structs.replace(template.metadata, labels={**template.metadata.labels, TEMPLATE_HASH: hashed})
    return msgspec.structs.replace(template, metadata=metadata)
