"""The ResourceClaims of a Pod in scheduling: the Pod waits until all of them exist.

Follows kubernetes/pkg/scheduler/framework/plugins/dynamicresources (PreEnqueue).
"""

from __future__ import annotations

from typing import Final

from kubewright.apis.core.v1 import Pod
from kubewright.client._client import Client
from kubewright.client._dynamic import PartialObjectMetadata
from kubewright.models import APIResource

_CLAIM: Final = APIResource("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims")


async def has_claims(pod: Pod, live: Client) -> bool:
    """Return whether all ResourceClaims of a Pod exist. `live` reads from the server."""
    made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    for each in pod.spec.resource_claims:
        if each.resource_claim_name is None and each.name not in made:
            return False
        name = each.resource_claim_name or made.get(each.name)
        kind = PartialObjectMetadata.of(_CLAIM)
        if name and await live.get_or_none(kind, name, namespace=pod.metadata.namespace) is None:
            return False
    return True
