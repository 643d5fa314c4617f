"""Health against kubectl and kstatus: whatever is ready here is for them, too."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from clients.goprograms import BUILD_SECONDS, go_program
from health.cases import cases
from health.oracle import PROGRAM, go_answers, recorded
from kubewright.health import HealthState, health_of

OF_ROLLOUT = {"done": HealthState.READY, "waiting": HealthState.PROGRESSING, "error": HealthState.STALLED}
OF_KSTATUS = {
    "Current": {HealthState.READY},
    "InProgress": {HealthState.PROGRESSING, HealthState.STALLED},
    "Failed": {HealthState.STALLED, HealthState.FAILED},
    "Terminating": {HealthState.PROGRESSING},
}
STRICTER = (
    r"Pod: failed",
    r"Job: runs",
    r"Service: load balancer without an address",
    r"Widget: (Available|Succeeded|Healthy|Synced) False, .*",
    r"Widget: (Degraded|Failed) True, .*",
    r"Widget: Ready True and Synced False, .*",
)
"""Objects that are Current for kstatus, and not ready here."""
OTHERWISE = {
    "Pod: unschedulable": "Failed after 15 seconds for kstatus; here the answer does not depend on the time",
    "PersistentVolumeClaim: lost": "InProgress for kstatus, although the volume never comes back",
}


def test_rollouts_are_judged_as_by_kubectl() -> None:
    answers = recorded()
    wrong: list[str] = []
    for each in cases():
        expected = answers[each.name]["rollout"]
        if expected and health_of(each.document).state is not OF_ROLLOUT[expected]:
            wrong.append(f"{each.name}: kubectl says {expected}, here {health_of(each.document)}")
    assert wrong == []


def test_other_kinds_are_judged_as_by_kstatus_or_more_strictly() -> None:
    answers = recorded()
    wrong: list[str] = []
    for each in cases():
        expected, found = answers[each.name], health_of(each.document)
        if expected["rollout"] or each.name in OTHERWISE:
            continue
        is_stricter = any(re.fullmatch(pattern, each.name) for pattern in STRICTER)
        fits = found.state in OF_KSTATUS[expected["kstatus"]]
        if fits if is_stricter and expected["kstatus"] == "Current" else not fits:
            wrong.append(f"{each.name}: kstatus says {expected['kstatus']}, here {found}")
    assert wrong == []


def test_what_is_not_ready_says_why() -> None:
    found = {each.name: health_of(each.document) for each in cases()}
    assert [name for name, health in found.items() if bool(health.message) is health.is_ready] == []


def test_the_recorded_answers_are_those_of_the_table() -> None:
    assert list(recorded()) == [each.name for each in cases()]


@pytest.mark.long
@pytest.mark.timeout(2 * BUILD_SECONDS)
def test_the_recorded_answers_are_those_of_go(tmp_path_factory: pytest.TempPathFactory) -> None:
    if shutil.which("go") is None:
        pytest.skip("Go was not found")
    program: Path = go_program(tmp_path_factory, PROGRAM)
    assert go_answers((program,), cases()) == list(recorded().values())
