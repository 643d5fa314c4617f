"""Which nodes are simulated."""

from __future__ import annotations

from typing import Final

PROCESSES: Final = "kubewright.dev/processes"
"""The label of nodes that have a kubelet of their own, and are not simulated."""
