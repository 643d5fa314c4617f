"""The identity of a StatefulSet's Pod: its ordinal, its name and its claims.

Follows kubernetes/pkg/controller/statefulset.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from kubewright.apis.apps.v1 import StatefulSet
from kubewright.apis.core.v1 import (
    PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodTemplateSpec,
    Volume,
)
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright_controlplane.controllers.history import REVISION_HASH
from kubewright_controlplane.controllers.podcontrol import pod_of

POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"
_NAME: Final = re.compile(r"(.*)-([0-9]+)")


def first_ordinal(stateful_set: StatefulSet) -> int:
    ordinals = stateful_set.spec.ordinals
    return (ordinals.start or 0) if ordinals else 0


def ordinals(stateful_set: StatefulSet) -> range:
    """Return the ordinals of the wanted Pods."""
    first = first_ordinal(stateful_set)
    replicas = stateful_set.spec.replicas
    return range(first, first + (1 if replicas is None else replicas))


def ordinal_of(stateful_set: StatefulSet, pod: Pod) -> int | None:
    """Return the ordinal of a Pod; None for a name of another form."""
    found = _NAME.fullmatch(pod.metadata.name)
    return int(found[2]) if found is not None and found[1] == stateful_set.metadata.name else None


def build_pod(stateful_set: StatefulSet, template: PodTemplateSpec, revision: str, ordinal: int) -> Pod:
    """Return the Pod with an ordinal, of the template's revision."""
    name = f"{stateful_set.metadata.name}-{ordinal}"
    pod = pod_of(stateful_set, template)
    pod.metadata.name = name
    pod.metadata.labels |= {POD_NAME: name, POD_INDEX: str(ordinal), REVISION_HASH: revision}
    pod.spec = msgspec.structs.replace(
        pod.spec,
        hostname=name,
        subdomain=stateful_set.spec.service_name or None,
        volumes=_volumes(stateful_set, pod, ordinal),
    )
    return pod


def claim_name(stateful_set: StatefulSet, template: PersistentVolumeClaim, ordinal: int) -> str:
    return f"{template.metadata.name}-{stateful_set.metadata.name}-{ordinal}"


def build_claims(stateful_set: StatefulSet, ordinal: int) -> list[PersistentVolumeClaim]:
    """Return the claims of the Pod with an ordinal."""
    return [
        PersistentVolumeClaim(
            metadata=ObjectMeta(
                name=claim_name(stateful_set, template, ordinal),
                namespace=stateful_set.metadata.namespace,
                labels={**template.metadata.labels, **stateful_set.spec.selector.match_labels},
                annotations=dict(template.metadata.annotations),
            ),
            spec=template.spec,
        )
        for template in stateful_set.spec.volume_claim_templates
    ]


def _volumes(stateful_set: StatefulSet, pod: Pod, ordinal: int) -> list[Volume]:
    """Return the template's volumes. A claim replaces a volume of the same name."""
    claims = {
        template.metadata.name: claim_name(stateful_set, template, ordinal)
        for template in stateful_set.spec.volume_claim_templates
    }
    others = [volume for volume in pod.spec.volumes if volume.name not in claims]
    return [
        Volume(name=name, persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=claim))
        for name, claim in claims.items()
    ] + others
