"""Tests of operators: a control plane, faults, waiting, and the pytest plugin.

Cluster                  access to a control plane, and what tests need often
eventually, gone         waiting for a state
Faults                   faults between an operator and its API server
killed_after_each_write  operators that die after their first write, their second, and so on
failure                  an answer that rejects a request, for `Faults.answer`
review                   the review of an object by a webhook, without a server
evaluate                 the evaluation of an admission policy, without a server
Decision                 what the results of both have in common: the message and causes of a denial
check_round_trips        whether conversions lose nothing, with generated objects
VirtualClock             a clock that a test moves
Clock, SystemClock       for clocks of your own: a subclass of SystemClock can be ahead of time
VirtualTimeLoop          an event loop whose time jumps, for tests without sockets
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kubewright._runtime.clock import Clock as Clock
    from kubewright._runtime.clock import SystemClock as SystemClock
    from kubewright.testing._cluster import Cluster as Cluster
    from kubewright.testing._decisions import Decision as Decision
    from kubewright.testing._faults import Faults as Faults
    from kubewright.testing._faults import failure as failure
    from kubewright.testing._faults import killed_after_each_write as killed_after_each_write
    from kubewright.testing._policies import Evaluation as Evaluation
    from kubewright.testing._policies import RequestOptions as RequestOptions
    from kubewright.testing._policies import evaluate as evaluate
    from kubewright.testing._reviews import Review as Review
    from kubewright.testing._reviews import review as review
    from kubewright.testing._round_trips import check_round_trips as check_round_trips
    from kubewright.testing._time import VirtualClock as VirtualClock
    from kubewright.testing._time import VirtualTimeLoop as VirtualTimeLoop
    from kubewright.testing._waiting import eventually as eventually
    from kubewright.testing._waiting import gone as gone

_HOMES: Final = {
    "Clock": ".._runtime.clock",
    "Cluster": "._cluster",
    "Decision": "._decisions",
    "Evaluation": "._policies",
    "Faults": "._faults",
    "RequestOptions": "._policies",
    "Review": "._reviews",
    "SystemClock": ".._runtime.clock",
    "VirtualClock": "._time",
    "VirtualTimeLoop": "._time",
    "check_round_trips": "._round_trips",
    "evaluate": "._policies",
    "eventually": "._waiting",
    "failure": "._faults",
    "gone": "._waiting",
    "killed_after_each_write": "._faults",
    "review": "._reviews",
}
"""Imported on demand, because pytest loads this package in every run."""

__all__ = [
    "Clock",
    "Cluster",
    "Decision",
    "Evaluation",
    "Faults",
    "RequestOptions",
    "Review",
    "SystemClock",
    "VirtualClock",
    "VirtualTimeLoop",
    "check_round_trips",
    "evaluate",
    "eventually",
    "failure",
    "gone",
    "killed_after_each_write",
    "review",
]


if not TYPE_CHECKING:  # type checkers see only the names above

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(_HOMES[name], __name__), name)
