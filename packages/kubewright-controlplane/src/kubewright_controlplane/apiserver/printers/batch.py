"""Rows of batch."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from kubewright.machinery import time
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.printers.ages import age, human_duration
from kubewright_controlplane.apiserver.printers.cells import (
    NONE,
    age_of,
    at,
    containers,
    is_true,
    items,
    name,
    number,
    selector,
    text,
)
from kubewright_controlplane.apiserver.registry.model import Cells

_AFTER_DELETION = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def _job(obj: JSONObject, now: datetime) -> list[object]:
    return [
        name(obj),
        _state(obj),
        _completions(obj),
        _duration(obj, now),
        age_of(obj, now),
        *containers(obj, "spec", "template", "spec"),
        selector(at(obj, "spec", "selector")),
    ]


def _state(obj: JSONObject) -> str:
    for type in ("Complete", "Failed"):
        if is_true(obj, type):
            return type
    if at(obj, "metadata", "deletionTimestamp"):
        return "Terminating"
    return next((type for type in _AFTER_DELETION if is_true(obj, type)), "Running")


def _completions(obj: JSONObject) -> str:
    succeeded = number(obj, "status", "succeeded")
    wanted = at(obj, "spec", "completions")
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    parallel = number(obj, "spec", "parallelism")
    return f"{succeeded}/1 of {parallel}" if parallel > 1 else f"{succeeded}/1"


def _duration(obj: JSONObject, now: datetime) -> str:
    started, completed = at(obj, "status", "startTime"), at(obj, "status", "completionTime")
    if not started:
        return ""
    until = time.parse(completed) if completed else now
    return human_duration(int((until - time.parse(started)).total_seconds()))


def _cron_job(obj: JSONObject, now: datetime) -> list[object]:
    last = at(obj, "status", "lastScheduleTime")
    job = ("spec", "jobTemplate", "spec")
    return [
        name(obj),
        text(obj, "spec", "schedule"),
        text(obj, "spec", "timeZone", default=NONE),
        "True" if at(obj, "spec", "suspend") else "False",
        len(items(obj, "status", "active")),
        age(last, now) if last else NONE,
        age_of(obj, now),
        *containers(obj, *job, "template", "spec"),
        selector(at(obj, *job, "selector")),
    ]


CELLS: Final[Mapping[str, Cells]] = {"cronjobs": _cron_job, "jobs": _job}
