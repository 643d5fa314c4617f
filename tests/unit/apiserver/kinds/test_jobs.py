"""Jobs: immutable fields and orphans, with the messages of kube-apiserver 1.36."""

from __future__ import annotations

import json
from typing import Any

from unit.apiserver.harness import API, MERGE

JOBS = "/apis/batch/v1/namespaces/default/jobs"
FIXED = "spec.template: Invalid value"


def job(**spec: Any) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "nginx:1"}]}
    return {"metadata": {"name": "j"}, "spec": {"template": {"spec": pod}, **spec}}


def moved(**spec: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"nodeSelector": {"disk": "fast"}}}, **spec}}


async def test_a_job_without_labels_gets_those_of_its_pods(api: API) -> None:
    created = await api.ok("POST", JOBS, job())
    uid = created["metadata"]["uid"]
    assert created["metadata"]["labels"] == {
        "job-name": "j",
        "controller-uid": uid,
        "batch.kubernetes.io/job-name": "j",
        "batch.kubernetes.io/controller-uid": uid,
    }


async def test_scheduling_of_a_job_can_change_only_while_it_is_suspended(api: API) -> None:
    await api.ok("POST", JOBS, job(suspend=True))
    refused = await api.rejected(422, "PATCH", f"{JOBS}/j", moved(), content_type=MERGE)
    assert FIXED in refused["message"]

    suspended = {"type": "Suspended", "status": "True"}
    await api.ok("PATCH", f"{JOBS}/j/status", {"status": {"conditions": [suspended]}}, content_type=MERGE)
    changed = await api.ok("PATCH", f"{JOBS}/j", moved(suspend=False), content_type=MERGE)
    assert changed["spec"]["template"]["spec"]["nodeSelector"] == {"disk": "fast"}

    back = {"spec": {"template": {"spec": {"nodeSelector": None}}}}
    refused = await api.rejected(422, "PATCH", f"{JOBS}/j", back, content_type=MERGE)
    assert FIXED in refused["message"]


async def test_the_image_of_a_suspended_job_cannot_change(api: API) -> None:
    await api.ok("POST", JOBS, job(suspend=True))
    suspended = {"type": "Suspended", "status": "True"}
    await api.ok("PATCH", f"{JOBS}/j/status", {"status": {"conditions": [suspended]}}, content_type=MERGE)
    other = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}}}
    refused = await api.rejected(422, "PATCH", f"{JOBS}/j", other, content_type=MERGE)
    assert "spec.template.spec: Invalid value" in refused["message"]


async def test_completions_of_an_indexed_job_change_with_its_parallelism(api: API) -> None:
    await api.ok("POST", JOBS, job(completionMode="Indexed", completions=3, parallelism=3))
    refused = await api.rejected(422, "PATCH", f"{JOBS}/j", {"spec": {"completions": 4}}, content_type=MERGE)
    assert refused["message"] == (
        'Job.batch "j" is invalid: spec.completions: Invalid value: 4: can only be modified in tandem with '
        "spec.parallelism"
    )
    both = {"spec": {"completions": 4, "parallelism": 4}}
    assert (await api.ok("PATCH", f"{JOBS}/j", both, content_type=MERGE))["spec"]["completions"] == 4


async def test_deleting_a_job_orphans_its_pods_by_default(api: API) -> None:
    await api.ok("POST", JOBS, job())
    response = await api("DELETE", f"{JOBS}/j")
    assert json.loads(await response.read())["metadata"]["finalizers"] == ["orphan"]
    assert "child pods are preserved by default when jobs are deleted" in response.headers["warning"]


async def test_deleting_a_job_with_a_propagation_policy_causes_no_warning(api: API) -> None:
    await api.ok("POST", JOBS, job())
    response = await api("DELETE", f"{JOBS}/j?propagationPolicy=Background")
    assert json.loads(await response.read())["status"] == "Success"
    assert "warning" not in response.headers
