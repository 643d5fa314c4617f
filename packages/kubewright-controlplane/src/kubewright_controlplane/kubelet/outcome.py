"""What a simulated pod comes to. Pods of a Job do their work and end; all others run and are ready.

A pod that says otherwise in the annotation `simulation.kubewright.dev/phase` does that instead: `Pending` (its
containers are never started), `NotReady` (it runs, and is not ready), `Running`, `Succeeded`, `Failed`. The annotation
may change while the pod lives; what has ended stays so.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from kubewright.apis.core.v1 import Pod
from kubewright_controlplane.controllers.pods import is_finished

ANNOTATION: Final = "simulation.kubewright.dev/phase"


class Outcome(StrEnum):
    """The values of the annotation."""

    PENDING = "Pending"
    NOT_READY = "NotReady"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def phase(self) -> str:
        return "Running" if self is Outcome.NOT_READY else self.value

    @property
    def ends(self) -> bool:
        return self in (Outcome.SUCCEEDED, Outcome.FAILED)


def outcome_of(pod: Pod) -> Outcome:
    """What becomes of the pod. Raises ValueError for an annotation that is none of the values."""
    if is_finished(pod):
        return Outcome(pod.status.phase or "")
    asked = pod.metadata.annotations.get(ANNOTATION)
    if asked is not None:
        return Outcome(asked)
    works = any(each.kind == "Job" and each.controller for each in pod.metadata.owner_references)
    return Outcome.SUCCEEDED if works else Outcome.RUNNING
