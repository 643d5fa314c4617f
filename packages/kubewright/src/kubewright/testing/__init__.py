"""For tests of operators: an environment with a control plane, and the pytest plugin.

Cluster          access to a control plane of any sort, and what tests do there again and again
eventually, gone waiting
running          a Manager at work inside a test
Faults           what goes wrong between an operator and its API server
    killed_after_each_write  the lives of an operator that dies after its first write, its second, ...
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kubewright.testing._cluster import Cluster as Cluster
    from kubewright.testing._faults import Faults as Faults
    from kubewright.testing._faults import failure as failure
    from kubewright.testing._faults import killed_after_each_write as killed_after_each_write
    from kubewright.testing._operator import running as running
    from kubewright.testing._waiting import eventually as eventually
    from kubewright.testing._waiting import gone as gone

_HOMES: Final = {
    "Cluster": "._cluster",
    "Faults": "._faults",
    "eventually": "._waiting",
    "failure": "._faults",
    "gone": "._waiting",
    "killed_after_each_write": "._faults",
    "running": "._operator",
}
"""Imported when it is asked for: pytest loads this package in every run, whether it is about operators or not."""

__all__ = [
    "Cluster",
    "Faults",
    "eventually",
    "failure",
    "gone",
    "killed_after_each_write",
    "running",
]


if not TYPE_CHECKING:  # to a type checker the names above are all there are

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(_HOMES[name], __name__), name)
