"""Sets one condition of a Pod, and leaves the conditions that other programs set meanwhile."""

from __future__ import annotations

import msgspec

from kubewright.apis.core.v1 import Pod, PodCondition
from kubewright.client._client import Client
from kubewright.client._patch import StrategicPatch
from kubewright.models._values import plain
from kubewright_controlplane.common.pods import condition as find


async def set_condition(client: Client, pod: Pod, condition: PodCondition, **status: str | None) -> Pod:
    """Set a condition, and further fields of the status by their names on the wire. Returns the changed Pod.

    The condition keeps the time of its last transition if its status is the same. Raises NotFound, Conflict.
    """
    before = find(pod, condition.type)
    if before is not None and before.status == condition.status:
        condition = msgspec.structs.replace(condition, last_transition_time=before.last_transition_time)
    change = {"metadata": {"uid": pod.metadata.uid}, "status": {**status, "conditions": [plain(condition)]}}
    return await client.patch(pod, StrategicPatch(change), subresource="status")
