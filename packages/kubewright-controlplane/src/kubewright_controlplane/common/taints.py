"""Taints of nodes, and the tolerations of Pods.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubewright.apis.core.v1 import Node, Taint, Toleration

UNSCHEDULABLE: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def untolerated(node: Node, tolerations: Sequence[Toleration], *effects: str) -> Taint | None:
    """Return the first taint of the node, with one of `effects`, that is not tolerated."""
    taints = (each for each in node.spec.taints if each.effect in effects)
    return next((taint for taint in taints if not tolerated(taint, tolerations)), None)


def tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    return any(_tolerates(each, taint) for each in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and (toleration.value or "") == (taint.value or "")
