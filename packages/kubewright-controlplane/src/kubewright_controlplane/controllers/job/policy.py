"""The policies of a Job: the effect of a failed Pod, and when fewer successes are enough.

Follows kubernetes/pkg/controller/job (pod_failure_policy.go, success_policy.go).
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from kubewright.apis.batch.v1 import Job, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule
from kubewright.apis.core.v1 import ContainerStatus, Pod
from kubewright_controlplane.controllers.job import indexes


class Verdict(NamedTuple):
    """The effect of a failed Pod."""

    counts: bool = True
    """It counts towards `backoffLimit`."""
    error: str = ""
    """Why the Job fails because of it."""
    fails_index: bool = False
    """Its index is not tried again."""


def verdict(job: Job, pod: Pod) -> Verdict:
    """Return the effect by the first rule that matches."""
    policy = job.spec.pod_failure_policy
    for index, rule in enumerate(policy.rules if policy else ()):
        what = _match(rule, pod)
        if what:
            error = f"{what} matching {rule.action} rule at index {index}" if rule.action == "FailJob" else ""
            return Verdict(rule.action != "Ignore", error, rule.action == "FailIndex")
    return Verdict()


def success(job: Job, succeeded: Set[int]) -> str:
    """Return the rule of the success policy that is met; empty if none is."""
    policy = job.spec.success_policy
    for index, rule in enumerate(policy.rules if policy else ()):
        among = indexes.parse(rule.succeeded_indexes, job.spec.completions) if rule.succeeded_indexes else None
        have = len(succeeded if among is None else succeeded & among)
        enough = rule.succeeded_count if rule.succeeded_count is not None else len(among or ())
        if have and have >= enough:
            return f"Matched rules at index {index}"
    return ""


def _match(rule: PodFailurePolicyRule, pod: Pod) -> str:
    where = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.on_exit_codes is not None:
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
            code = _exit_code(status)
            if code and _matches_code(rule.on_exit_codes, status.name, code):
                return f"Container {status.name} for pod {where} failed with exit code {code}"
        return ""
    for found in pod.status.conditions:
        for pattern in rule.on_pod_conditions:
            if (found.type, found.status) == (pattern.type, pattern.status or "True"):
                return f"Pod {where} has condition {found.type}"
    return ""


def _exit_code(status: ContainerStatus) -> int:
    ended = status.state.terminated if status.state else None
    return ended.exit_code if ended else 0


def _matches_code(requirement: PodFailurePolicyOnExitCodesRequirement, container: str, code: int) -> bool:
    if requirement.container_name not in (None, container):
        return False
    return (code in requirement.values) == (requirement.operator == "In")
