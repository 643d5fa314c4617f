"""Durations of any length do not stop a controller."""

from __future__ import annotations

from typing import Any

from conformance.rawapi import API, until

LONG = 2**62
SPEC: dict[str, Any] = {"containers": [{"name": "c", "image": "busybox:1"}], "nodeSelector": {"no": "such-node"}}


async def test_controllers_survive_durations_beyond_any_date(api: API, ns: str) -> None:
    batch = ns.replace("/api/v1", "/apis/batch/v1")
    template = {"spec": {**SPEC, "restartPolicy": "Never", "terminationGracePeriodSeconds": LONG}}
    jobs = {"activeDeadlineSeconds": LONG, "ttlSecondsAfterFinished": 2**31 - 1, "template": template}
    scheduled = {"schedule": "* * * * *", "startingDeadlineSeconds": LONG, "jobTemplate": {"spec": jobs}}
    (await api.post(f"{batch}/jobs", {"metadata": {"name": "long"}, "spec": jobs})).expect(201)
    (await api.post(f"{batch}/cronjobs", {"metadata": {"name": "long"}, "spec": scheduled})).expect(201)
    toleration = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": LONG}
    spec = {**SPEC, "tolerations": [toleration], "terminationGracePeriodSeconds": LONG}
    (await api.post(f"{ns}/pods", {"metadata": {"name": "long"}, "spec": spec})).expect(201)
    (await api.delete(f"{ns}/pods/long?gracePeriodSeconds={LONG}")).expect(200)
    short = {"activeDeadlineSeconds": 1, "template": {"spec": {**SPEC, "restartPolicy": "Never"}}}
    (await api.post(f"{batch}/jobs", {"metadata": {"name": "short"}, "spec": short})).expect(201)

    async def has_failed() -> bool:
        status = (await api.get(f"{batch}/jobs/short")).expect(200).json["status"]
        return any(each["type"] == "Failed" and each["status"] == "True" for each in status.get("conditions", []))

    await until(has_failed)
