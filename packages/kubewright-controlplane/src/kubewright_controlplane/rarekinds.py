"""The controllers that start with the first object of their kind, and the kinds that they wait for.

The kinds are written here because their classes would have to be imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kubewright._runtime.clock import Clock
from kubewright.client._client import Client
from kubewright.controllers import Controller
from kubewright.models import APIResource
from kubewright_controlplane.ondemand import Demand

NAMES: Final = (
    "disruption-controller",
    "replicationcontroller-controller",
)


class RareKinds:
    """Imports each controller when it is needed."""

    def __init__(self, live: Client, clock: Clock) -> None:
        self._live = live
        self._clock = clock

    def demands(self) -> Mapping[str, Demand]:
        """Return what each controller waits for, by the controller's name."""
        return {
            "disruption-controller": Demand(
                APIResource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"), self._disruption
            ),
            "replicationcontroller-controller": Demand(
                APIResource("", "v1", "ReplicationController", "replicationcontrollers"), self._replication
            ),
        }

    def _disruption(self) -> Controller[Any]:
        from kubewright_controlplane.controllers.disruption import disruption_controller

        return disruption_controller(self._live, self._clock)

    def _replication(self) -> Controller[Any]:
        from kubewright_controlplane.controllers.replicationcontroller import replicationcontroller_controller

        return replicationcontroller_controller(self._live, self._clock)
