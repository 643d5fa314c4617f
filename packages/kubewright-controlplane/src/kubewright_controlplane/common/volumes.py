"""The claims that a Pod mounts, and how the scheduler and the volume controllers agree on their volumes.

Source: https://kubernetes.io/docs/reference/labels-annotations-taints/
"""

from __future__ import annotations

from typing import Final

from kubewright.apis.core.v1 import Pod, Volume

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""The annotation by which the scheduler requests a volume for a claim, on the node that it names."""
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
"""The annotation of a claim that is bound."""
PROVISIONER: Final = "simulation.kubewright.dev"
"""The built-in provisioner, which is also the CSI driver of its volumes."""
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
"""The binding mode of classes whose volumes are provisioned after a Pod is scheduled."""


def claims_of(pod: Pod) -> list[str]:
    """Return the names of the claims that a Pod mounts, including those of its ephemeral volumes."""
    return [name for volume in pod.spec.volumes if (name := claim_name(pod, volume)) is not None]


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """Return the name of the claim of a volume; None if the volume has none."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.metadata.name}-{volume.name}" if volume.ephemeral is not None else None
