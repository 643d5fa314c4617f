"""The message of a Pod that fits no node: how many nodes each reason rules out.

Follows kubernetes/pkg/scheduler/framework (FitError).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kubewright_controlplane.scheduler.filters import Refusal


def diagnosis(nodes: int, refusals: Iterable[Refusal]) -> str:
    """Return the reasons of all nodes as text, sorted."""
    reasons = Counter(reason for refusal in refusals for reason in refusal.reasons)
    parts = sorted(f"{count} {reason}" for reason, count in reasons.items())
    return " ".join([f"0/{nodes} nodes are available:", *([f"{', '.join(parts)}."] if parts else [])])
