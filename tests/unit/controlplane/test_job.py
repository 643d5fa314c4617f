"""The counts, policies and progress of a Job."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kubewright.apis.core.v1 import Pod
from kubewright_controlplane.controllers.job import indexes, policy, progress, tally
from kubewright_controlplane.controllers.job.perindex import Failures
from kubewright_controlplane.controllers.job.podtemplate import build_pod

from .objects import NOW, ago, job, pod


def worker(name: str, phase: str = "Running", *, index: int | None = None, counted: bool = False, **fields: Any) -> Pod:
    meta: dict[str, Any] = {} if counted else {"finalizers": [tally.FINALIZER]}
    if index is not None:
        meta["annotations"] = {tally.INDEX: str(index)}
    return pod(name, meta=meta, **({"status": {"phase": phase}} | fields))


def ended(name: str, code: int, seconds_ago: float) -> Pod:
    terminated = {"exitCode": code, "finishedAt": ago(seconds_ago)}
    status = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    phase = "Failed" if code else "Succeeded"
    return worker(name, status={"phase": phase, "containerStatuses": [{**status, "state": {"terminated": terminated}}]})


def test_a_deadline_may_be_later_than_any_date() -> None:
    left = progress.time_left(job(activeDeadlineSeconds=2**62), NOW)
    assert left is not None
    assert left > timedelta(days=10_000)


@pytest.mark.parametrize(
    ("numbers", "text"), [(set(), ""), ({0}, "0"), ({0, 1}, "0,1"), ({0, 1, 2, 5}, "0-2,5"), ({3, 4, 5, 6}, "3-6")]
)
def test_indexes_are_written_as_ranges_and_parsed(numbers: set[int], text: str) -> None:
    assert indexes.text_of(numbers) == text
    assert indexes.parse(text, 7) == numbers
    assert indexes.parse(text, 4) == {each for each in numbers if each < 4}


def test_active_pods_never_exceed_the_remaining_completions() -> None:
    asked = job(completions=5, parallelism=3, status={"succeeded": 4})
    assert tally.Tally.of(asked, []).wanted(asked) == 1


def test_a_work_queue_gets_no_new_pods_after_the_first_success() -> None:
    queue = job(completions=None, parallelism=3)
    found = tally.Tally.of(queue, [worker("a", "Succeeded"), worker("b")])
    assert found.wanted(queue) == 1
    assert not found.is_complete(queue)
    assert tally.Tally.of(queue, [worker("a", "Succeeded")]).is_complete(queue)


def test_a_pod_is_counted_once_at_every_step() -> None:
    done = worker("a", "Succeeded")
    noted = job(status={"uncountedTerminatedPods": {"succeeded": ["a"]}})
    counted = job(status={"succeeded": 1})
    free = worker("a", "Succeeded", counted=True)
    for asked, present in ((job(), done), (noted, done), (noted, free), (counted, free)):
        assert tally.Tally.of(asked, [present]).succeeded == 1


def test_recorded_pods_without_a_finalizer_are_counted_next() -> None:
    """The process died after it removed finalizers and before it wrote the counts."""
    asked = job(completions=3, status={"succeeded": 1, "uncountedTerminatedPods": {"succeeded": ["a", "b"]}})
    status = progress.counted(asked.status, still_held={"b"})
    assert status.succeeded == 2
    assert status.uncounted_terminated_pods is not None
    assert status.uncounted_terminated_pods.succeeded == ["b"]


def test_an_index_counts_once_however_many_pods_succeeded_on_it() -> None:
    asked = job(completionMode="Indexed", completions=3, status={"completedIndexes": "0"})
    found = tally.Tally.of(asked, [worker("a", "Succeeded", index=1), worker("b", "Succeeded", index=1)])
    assert found.succeeded_indexes == {0, 1}
    assert found.free_indexes(asked, [], 5, frozenset()) == [2]


def test_a_second_pod_of_an_index_is_surplus() -> None:
    asked = job(completionMode="Indexed", completions=3, parallelism=3)
    present = [worker("a", index=0), worker("b", index=0), worker("c", index=7)]
    spare = tally.surplus(asked, tally.Tally.of(asked, present), NOW)
    assert [each.metadata.name for each in spare] == ["b", "c"]


def test_a_suspended_job_deletes_its_pods() -> None:
    asked = job(suspend=True, parallelism=2, completions=2)
    present = [worker("a"), worker("b")]
    assert len(tally.surplus(asked, tally.Tally.of(asked, present), NOW)) == 2


def test_each_consecutive_failure_doubles_the_pause() -> None:
    failures = [ended("a", 1, 30), ended("b", 1, 5)]
    assert tally.wait_after_failures(job(), failures[1:], NOW) == timedelta(seconds=5)
    assert tally.wait_after_failures(job(), failures, NOW) == timedelta(seconds=15)
    assert tally.wait_after_failures(job(), [*failures, ended("c", 0, 1)], NOW) == timedelta(0)


def test_a_job_fails_when_more_pods_failed_than_its_limit() -> None:
    asked = job(backoffLimit=1)
    present = [worker("a", "Failed"), worker("b", "Failed")]
    one = progress.verdict(asked, present[:1], tally.Tally.of(asked, present[:1]), Failures(frozenset(), {}), NOW)
    two = progress.verdict(asked, present, tally.Tally.of(asked, present), Failures(frozenset(), {}), NOW)
    assert one is None
    assert two is not None
    assert two.reason == "BackoffLimitExceeded"


def test_a_job_fails_after_its_deadline() -> None:
    asked = job(activeDeadlineSeconds=10, status={"startTime": ago(10)})
    found = progress.verdict(asked, [], tally.Tally.of(asked, []), Failures(frozenset(), {}), NOW)
    assert found is not None
    assert found.reason == "DeadlineExceeded"


def test_a_decision_is_kept() -> None:
    condition = {"type": "FailureTarget", "status": "True", "reason": "DeadlineExceeded", "message": "m"}
    asked = job(status={"conditions": [condition]})
    found = progress.verdict(asked, [], tally.Tally.of(asked, []), Failures(frozenset(), {}), NOW)
    assert found == progress.End(False, "DeadlineExceeded", "m")


def test_a_failure_policy_ignores_or_fails_by_exit_code() -> None:
    rules = [
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}},
        {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [1]}},
    ]
    asked = job(podFailurePolicy={"rules": rules})
    assert policy.verdict(asked, ended("a", 7, 1)) == policy.Verdict(False, "")
    assert policy.verdict(asked, ended("a", 1, 1)) == policy.Verdict(True, "")
    error = policy.verdict(asked, ended("a", 42, 1)).error
    assert error == "Container c for pod d/a failed with exit code 42 matching FailJob rule at index 1"


def test_a_success_policy_ends_a_job_early() -> None:
    rules = [{"succeededIndexes": "0,1"}, {"succeededCount": 3}]
    asked = job(completionMode="Indexed", completions=5, successPolicy={"rules": rules})
    assert policy.success(asked, {0}) == ""
    assert policy.success(asked, {0, 1}) == "Matched rules at index 0"
    assert policy.success(asked, {2, 3, 4}) == "Matched rules at index 1"


def test_the_pod_of_an_index_does_not_change_the_template() -> None:
    asked = job(completionMode="Indexed")
    made = build_pod(asked, 3, {})
    assert made.metadata.generate_name == "work-3-"
    assert made.metadata.finalizers == [tally.FINALIZER]
    assert made.spec.hostname == "work-3"
    assert made.spec.containers[0].env[0].name == "JOB_COMPLETION_INDEX"
    assert not asked.spec.template.spec.containers[0].env
    assert not asked.spec.template.metadata.finalizers
