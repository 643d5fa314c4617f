"""How long kubelets may cache Secrets and ConfigMaps: the annotation `node.alpha.kubernetes.io/ttl` of each Node.

The time grows with the number of Nodes.

Follows kubernetes/pkg/controller/ttl.
"""

from __future__ import annotations

from typing import Final

from kubewright.apis.core.v1 import Node
from kubewright.client import MergePatch
from kubewright.controllers import Context, Controller, controller
from kubewright_controlplane.common.selection import lister_of

ANNOTATION: Final = "node.alpha.kubernetes.io/ttl"
_SECONDS: Final = ((100, 0), (500, 15), (1000, 30), (2000, 60))
"""The largest number of Nodes of each time."""
_MOST: Final = 300


async def _annotate(ctx: Context[Node]) -> None:
    count = len(lister_of(ctx, Node))
    wanted = str(next((seconds for nodes, seconds in _SECONDS if count <= nodes), _MOST))
    if ctx.object.metadata.annotations.get(ANNOTATION) != wanted:
        await ctx.patch(ctx.object, MergePatch({"metadata": {"annotations": {ANNOTATION: wanted}}}))


def ttl_controller() -> Controller[Node]:
    """Return the controller `ttl-controller`."""
    return controller(Node, name="ttl-controller")(_annotate)
