"""Quota, memory and volumes that follow the data.

To grow, the volumes are expanded first, then the quota is written to the status, and then `members.roll` restarts one
member after the other with it. So a quota is never larger than its volume allows.
"""

from datetime import timedelta
from typing import Final

from kubewright import Forbidden, Invalid
from kubewright.apis.core.v1 import PersistentVolumeClaim
from kubewright.client import MergePatch
from kubewright.machinery.quantity import Quantity

from etcd_operator import objects
from etcd_operator.controller.members import Progress, Work

FULL: Final = 0.8
"""Share of the quota that is used when it doubles."""
IDLE: Final = 0.2
"""Share of the quota below which it may be halved."""


async def expand_volumes(work: Work) -> Progress | None:
    """Expand the claims that are smaller than the spec wants, or than the quota needs."""
    return await _expand(work, objects.volume_size(work.cluster, work.cluster.quota_bytes))


async def follow_data(work: Work) -> Progress | None:
    """Change the quota if the size of the data asks for it."""
    cluster, status = work.cluster, work.cluster.status
    if cluster.spec.autoscaling is None:
        return None
    used = max(int(each.status.db_size_in_use) for each in work.view.voters if each.status)
    largest = max(int(each.status.db_size) for each in work.view.voters if each.status)
    quota, limit = cluster.quota_bytes, max(cluster.spec.autoscaling.max_quota_bytes, cluster.spec.quota_bytes)
    is_idle = quota > cluster.spec.quota_bytes and largest < quota * IDLE
    status.idle_since = (status.idle_since or work.now) if is_idle else None
    if used > quota * FULL and quota < limit:
        wanted = min(quota * 2, limit)
        if (progress := await _expand(work, objects.volume_size(cluster, wanted))) is not None:
            return progress
        return await _scale(work, wanted, f"The database uses {used} bytes of {quota}: the quota grows to {wanted}")
    patience = timedelta(seconds=cluster.spec.autoscaling.shrink_after_seconds)
    if status.idle_since is not None and work.now - status.idle_since >= patience:
        wanted = max(quota // 2, cluster.spec.quota_bytes)
        return await _scale(work, wanted, f"The database has {largest} bytes of {quota}: the quota shrinks to {wanted}")
    return None


async def _scale(work: Work, quota: int, note: str) -> Progress:
    work.cluster.status.quota_bytes, work.cluster.status.idle_since = quota, None
    work.cluster = await work.ctx.client.update_status(work.cluster)
    work.event("QuotaScaled", note)
    return Progress("Scaling", note)


async def _expand(work: Work, size: Quantity) -> Progress | None:
    """Expand the claims of all members, and wait until they have this size."""
    claims = [each.claim for each in work.view.members if each.claim is not None]
    for claim in claims:
        if _requested(claim) < size:
            patch = MergePatch({"spec": {"resources": {"requests": {"storage": str(size)}}}})
            try:
                await work.ctx.patch(claim, patch)
            except (Forbidden, Invalid) as error:
                return Progress(
                    "VolumeNotExpandable", f"PersistentVolumeClaim {claim.metadata.name!r}: {error}", warning=True
                )
            work.event("VolumeExpanded", f"PersistentVolumeClaim {claim.metadata.name!r} grows to {size}")
            return Progress("ExpandingVolumes", f"{claim.metadata.name} grows to {size}")
    late = [each.metadata.name for each in claims if Quantity.of(each.status.capacity.get("storage", "0")) < size]
    return Progress("ExpandingVolumes", f"waiting until {', '.join(late)} have {size}") if late else None


def _requested(claim: PersistentVolumeClaim) -> Quantity:
    return Quantity.of(claim.spec.resources.requests["storage"]) if claim.spec.resources else Quantity.from_int(0)
