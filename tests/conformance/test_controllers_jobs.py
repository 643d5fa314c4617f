"""Jobs: policies, indexes that fail on their own, deadlines, elastic indexed Jobs, and CronJobs that cannot run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conformance.rawapi import API, until

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"


class Jobs:
    """A Job whose Pods fit no node, so that a test decides how they end."""

    def __init__(self, api: API, ns: str) -> None:
        self.api, self.core, self.batch = api, ns, ns.replace("/api/v1", "/apis/batch/v1")

    async def create(self, **spec: Any) -> None:
        pod = {
            "restartPolicy": "Never",
            "nodeSelector": {"no": "such-node"},
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "busybox:1"}],
        }
        made = {"metadata": {"name": "j"}, "spec": {"template": {"spec": pod}, **spec}}
        (await self.api.post(f"{self.batch}/jobs", made)).expect(201)

    async def change(self, **spec: Any) -> None:
        (await self.api.patch(f"{self.batch}/jobs/j", {"spec": spec})).expect(200)

    async def status(self, **counts: Any) -> dict[str, Any]:
        """Wait until the status has these fields; None for a field that is missing."""

        async def check() -> dict[str, Any] | None:
            status: dict[str, Any] = (await self.api.get(f"{self.batch}/jobs/j")).expect(200).json["status"]
            return status if all(status.get(key) == value for key, value in counts.items()) else None

        status: dict[str, Any] = await until(check)
        return status

    async def ended(self) -> dict[str, Any]:
        """Wait for the end of the Job. Returns its status, with conditions as type, reason and message."""

        async def check() -> dict[str, Any] | None:
            status: dict[str, Any] = (await self.api.get(f"{self.batch}/jobs/j")).expect(200).json["status"]
            true = [each["type"] for each in status.get("conditions", []) if each["status"] == "True"]
            return status if {"Complete", "Failed"} & {*true} else None

        status: dict[str, Any] = await until(check)
        conditions = status["conditions"]
        status["conditions"] = [(each["type"], each["reason"], each["message"]) for each in conditions]
        return status

    async def active(self, count: int) -> list[dict[str, Any]]:
        """Wait for this number of active Pods, and return them by index or name."""

        async def check() -> list[dict[str, Any]] | None:
            pods = (await self.api.get(f"{self.core}/pods")).expect(200).json["items"]
            live = [
                each
                for each in pods
                if each["status"]["phase"] == "Pending" and "deletionTimestamp" not in each["metadata"]
            ]
            live.sort(key=lambda pod: (pod["metadata"].get("annotations", {}).get(INDEX, ""), pod["metadata"]["name"]))
            return live if len(live) == count else None

        pods: list[dict[str, Any]] = await until(check)
        return pods

    async def end(self, pod: dict[str, Any], code: int, **status: Any) -> None:
        """End a Pod as if it had ended an hour ago, so that nothing waits for a backoff."""
        ago = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        terminated = {"exitCode": code, "startedAt": ago, "finishedAt": ago}
        container = {"name": "c", "image": "busybox:1", "imageID": "", "ready": False, "restartCount": 0}
        phase = "Failed" if code else "Succeeded"
        change = {"phase": phase, "containerStatuses": [{**container, "state": {"terminated": terminated}}], **status}
        path = f"{self.core}/pods/{pod['metadata']['name']}/status"
        (await self.api.patch(path, {"status": change}, "strategic")).expect(200)


@pytest.fixture
def jobs(api: API, ns: str) -> Jobs:
    return Jobs(api, ns)


def annotation(pod: dict[str, Any], key: str) -> str:
    return str(pod["metadata"].get("annotations", {}).get(key, ""))


async def test_indexes_fail_on_their_own(jobs: Jobs) -> None:
    rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
    await jobs.create(
        completions=3,
        parallelism=3,
        completionMode="Indexed",
        backoffLimitPerIndex=1,
        podFailurePolicy={"rules": rules},
    )
    first, second, third = await jobs.active(3)
    assert [annotation(each, FAILURES) for each in (first, second, third)] == ["0", "0", "0"]
    await jobs.end(second, 0)
    await jobs.status(completedIndexes="1", failedIndexes="")
    await jobs.end(first, 1)

    async def replaced(before: dict[str, Any]) -> dict[str, Any]:
        async def check() -> dict[str, Any] | None:
            pods = await jobs.active(2)
            found = next(each for each in pods if annotation(each, INDEX) == "0")
            return found if found["metadata"]["uid"] != before["metadata"]["uid"] else None

        pod: dict[str, Any] = await until(check)
        return pod

    again = await replaced(first)
    assert (annotation(again, FAILURES), annotation(again, IGNORED)) == ("1", "")
    disrupted = [{"type": "DisruptionTarget", "status": "True", "reason": "Test"}]
    await jobs.end(again, 1, conditions=disrupted)
    ignored = await replaced(again)
    assert (annotation(ignored, FAILURES), annotation(ignored, IGNORED)) == ("1", "1")
    await jobs.end(ignored, 1)
    await jobs.status(failedIndexes="0", completedIndexes="1", failed=2)
    await jobs.end(third, 0)
    status = await jobs.ended()
    assert status["conditions"] == [
        ("FailureTarget", "FailedIndexes", "Job has failed indexes"),
        ("Failed", "FailedIndexes", "Job has failed indexes"),
    ]
    assert (status["failedIndexes"], status["completedIndexes"]) == ("0", "1,2")
    assert (status["succeeded"], status["failed"]) == (2, 2)


async def test_too_many_failed_indexes_end_a_job(jobs: Jobs) -> None:
    rules = [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}}]
    await jobs.create(
        completions=4,
        parallelism=3,
        completionMode="Indexed",
        backoffLimitPerIndex=5,
        maxFailedIndexes=1,
        podFailurePolicy={"rules": rules},
    )
    first, second, _ = await jobs.active(3)
    await jobs.end(first, 42)
    await jobs.status(failedIndexes="0")
    assert [annotation(each, INDEX) for each in await jobs.active(3)] == ["1", "2", "3"]
    await jobs.end(second, 42)
    status = await jobs.ended()
    message = "Job has exceeded the specified maximal number of failed indexes"
    assert status["conditions"][-1] == ("Failed", "MaxFailedIndexesExceeded", message)
    assert status["failedIndexes"] == "0,1"
    assert (status["failed"], status.get("active", 0)) == (4, 0)


async def test_a_pod_failure_policy_decides_what_a_failure_means(jobs: Jobs) -> None:
    rules = [
        {"action": "Ignore", "onExitCodes": {"containerName": "c", "operator": "In", "values": [7]}},
        {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [1, 2]}},
    ]
    await jobs.create(backoffLimit=3, podFailurePolicy={"rules": rules})
    [pod] = await jobs.active(1)
    await jobs.end(pod, 7)

    async def next_of(before: dict[str, Any]) -> dict[str, Any]:
        async def check() -> dict[str, Any] | None:
            [found] = await jobs.active(1)
            return found if found["metadata"]["uid"] != before["metadata"]["uid"] else None

        found: dict[str, Any] = await until(check)
        return found

    pod = await next_of(pod)
    assert (await jobs.status(active=1)).get("failed", 0) == 0
    await jobs.end(pod, 1)
    pod = await next_of(pod)
    await jobs.status(failed=1)
    await jobs.end(pod, 3)
    status = await jobs.ended()
    where = jobs.core.rpartition("/")[2]
    name = pod["metadata"]["name"]
    message = f"Container c for pod {where}/{name} failed with exit code 3 matching FailJob rule at index 1"
    assert status["conditions"] == [
        ("FailureTarget", "PodFailurePolicy", message),
        ("Failed", "PodFailurePolicy", message),
    ]


async def test_a_success_policy_ends_a_job_early(jobs: Jobs) -> None:
    rules = [{"succeededIndexes": "2-3", "succeededCount": 2}, {"succeededIndexes": "0"}]
    await jobs.create(completions=4, parallelism=4, completionMode="Indexed", successPolicy={"rules": rules})
    pods = await jobs.active(4)
    await jobs.end(pods[2], 0)
    await jobs.status(completedIndexes="2")
    await jobs.end(pods[0], 0)
    status = await jobs.ended()
    assert status["conditions"] == [
        ("SuccessCriteriaMet", "SuccessPolicy", "Matched rules at index 1"),
        ("Complete", "SuccessPolicy", "Matched rules at index 1"),
    ]
    assert status["completedIndexes"] == "0,2"
    assert (status["succeeded"], status.get("failed", 0)) == (2, 0)


async def test_the_deadline_of_a_job_ends_it(jobs: Jobs) -> None:
    await jobs.create(activeDeadlineSeconds=1)
    status = await jobs.ended()
    message = "Job was active longer than specified deadline"
    assert status["conditions"][-1] == ("Failed", "DeadlineExceeded", message)
    assert (status["failed"], status.get("active", 0)) == (1, 0)


async def test_an_indexed_job_can_be_resized(jobs: Jobs) -> None:
    await jobs.create(completions=2, parallelism=2, completionMode="Indexed")
    await jobs.active(2)
    await jobs.change(completions=4, parallelism=4)
    pods = await jobs.active(4)
    await jobs.end(pods[3], 0)
    await jobs.status(completedIndexes="3", succeeded=1)
    await jobs.change(completions=2, parallelism=2)
    await jobs.status(active=2, completedIndexes=None)
    for pod in await jobs.active(2):
        await jobs.end(pod, 0)
    status = await jobs.ended()
    assert (status["completedIndexes"], status["succeeded"]) == ("0,1", 2)


async def test_a_job_of_another_controller_is_left_alone(jobs: Jobs) -> None:
    await jobs.create(managedBy="example.com/controller")
    pod = {"metadata": {"name": "later"}, "spec": {"containers": [{"name": "c", "image": "busybox:1"}]}}
    other = {"metadata": {"name": "ours"}, "spec": {"template": {"spec": {**pod["spec"], "restartPolicy": "Never"}}}}
    (await jobs.api.post(f"{jobs.batch}/jobs", other)).expect(201)

    async def complete() -> bool:
        return bool((await jobs.api.get(f"{jobs.batch}/jobs/ours")).json["status"].get("completionTime"))

    await until(complete)
    assert (await jobs.api.get(f"{jobs.batch}/jobs/j")).json["status"] == {}


async def test_terminating_pods_are_replaced_as_the_policy_says(jobs: Jobs) -> None:
    await jobs.create(podReplacementPolicy="Failed", backoffLimit=3)
    [pod] = await jobs.active(1)
    keep = {"metadata": {"finalizers": ["batch.kubernetes.io/job-tracking", "test/keep"]}}
    name = pod["metadata"]["name"]
    (await jobs.api.patch(f"{jobs.core}/pods/{name}", keep)).expect(200)
    await jobs.api.patch(f"{jobs.core}/pods/{name}/status", {"status": {"phase": "Running"}})
    (await jobs.api.delete(f"{jobs.core}/pods/{name}")).expect(200)
    await jobs.status(terminating=1, active=None, failed=None)
    await jobs.end(pod, 1)
    await jobs.status(terminating=0, active=1, failed=1)
    await jobs.api.patch(f"{jobs.core}/pods/{name}", {"metadata": {"finalizers": None}})


async def test_a_schedule_that_never_fires_is_reported(jobs: Jobs) -> None:
    pod = {"containers": [{"name": "c", "image": "busybox:1"}], "restartPolicy": "Never"}
    spec = {"schedule": "0 0 31 2 *", "jobTemplate": {"spec": {"template": {"spec": pod}}}}
    (await jobs.api.post(f"{jobs.batch}/cronjobs", {"metadata": {"name": "never"}, "spec": spec})).expect(201)

    async def event() -> dict[str, Any] | None:
        query = "fieldSelector=involvedObject.name=never"
        events = (await jobs.api.get(f"{jobs.core}/events?{query}")).expect(200).json["items"]
        return events[0] if events else None

    found = await until(event)
    why = "time difference between two schedules is less than 1 second"
    assert (found["type"], found["reason"]) == ("Warning", "InvalidSchedule")
    assert found["message"] == f"invalid schedule: 0 0 31 2 * : {why}"
