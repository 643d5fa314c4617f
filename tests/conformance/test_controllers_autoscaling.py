"""HorizontalPodAutoscalers: the limits that need no metrics, and what is reported without them."""

from __future__ import annotations

from typing import Any

from conformance.rawapi import API, until

UNABLE = "the HPA controller was unable to get the target's current scale: "


class Autoscalers:
    """Autoscalers, each with a Deployment of its name."""

    def __init__(self, api: API, ns: str) -> None:
        self.api, self.core = api, ns
        self.apps = ns.replace("/api/v1", "/apis/apps/v1")
        self.hpas = ns.replace("/api/v1", "/apis/autoscaling/v2") + "/horizontalpodautoscalers"

    async def create(self, name: str, replicas: int = 1, kind: str = "Deployment", **spec: Any) -> None:
        """Create an autoscaler, and its target unless `replicas` is negative."""
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx:1"}]}}
        target = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        if replicas >= 0:
            body: dict[str, Any] = {"metadata": {"name": name}, "spec": target}
            (await self.api.post(f"{self.apps}/deployments", body)).expect(201)
        reference = {"apiVersion": "apps/v1", "kind": kind, "name": name}
        body = {"metadata": {"name": name}, "spec": {"scaleTargetRef": reference, "maxReplicas": 4, **spec}}
        (await self.api.post(self.hpas, body)).expect(201)

    async def condition(self, name: str, kind: str) -> tuple[str, str, str]:
        """Wait until the autoscaler has a condition, and return its status, reason and message."""

        async def check() -> tuple[str, str, str] | None:
            status = (await self.api.get(f"{self.hpas}/{name}")).expect(200).json.get("status", {})
            found = [each for each in status.get("conditions") or [] if each["type"] == kind]
            return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else None

        condition: tuple[str, str, str] = await until(check)
        return condition

    async def event(self, name: str, reason: str) -> str:
        async def check() -> str | None:
            query = f"fieldSelector=involvedObject.name={name},reason={reason}"
            events = (await self.api.get(f"{self.core}/events?{query}")).expect(200).json["items"]
            return events[0]["message"] if events else None

        message: str = await until(check)
        return message

    async def replicas(self, name: str, count: int) -> None:
        async def check() -> bool:
            found = (await self.api.get(f"{self.apps}/deployments/{name}")).expect(200).json
            return bool(found["spec"]["replicas"] == count)

        await until(check)

    async def settled(self, name: str) -> dict[str, Any]:
        """Return the status, once replicas are desired."""

        async def check() -> dict[str, Any] | None:
            status: dict[str, Any] = (await self.api.get(f"{self.hpas}/{name}")).expect(200).json["status"]
            return status if status.get("desiredReplicas") else None

        status: dict[str, Any] = await until(check)
        return status


async def test_autoscalers_keep_limits_and_report_failures(api: API, ns: str) -> None:
    scalers = Autoscalers(api, ns)  # one test: a real controller looks at new autoscalers after 15 seconds
    metrics = [
        {"type": "Pods", "pods": {"metric": {"name": "p"}, "target": {"type": "AverageValue", "averageValue": "1k"}}},
        {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "1k"}}},
    ]
    await scalers.create("above", 9)
    await scalers.create("below", 1, minReplicas=3)
    await scalers.create("zero", 0)
    await scalers.create("missing", -1)
    await scalers.create("unknown", -1, "Foo")
    await scalers.create("custom", 2, metrics=metrics)

    await scalers.replicas("above", 4)
    await scalers.replicas("below", 3)
    reason = "Current number of replicas above Spec.MaxReplicas"
    assert await scalers.event("above", "SuccessfulRescale") == f"New size: 4; reason: {reason}"
    reason = "Current number of replicas below Spec.MinReplicas"
    assert await scalers.event("below", "SuccessfulRescale") == f"New size: 3; reason: {reason}"
    status = await scalers.settled("above")
    assert (status["currentReplicas"], status["desiredReplicas"]) == (9, 4)
    assert status["lastScaleTime"]
    rescaled = ("True", "SucceededRescale", "the HPA controller was able to update the target scale to 4")
    assert await scalers.condition("above", "AbleToScale") == rescaled

    disabled = "scaling is disabled since the replica count of the target is zero"
    assert await scalers.condition("zero", "ScalingActive") == ("False", "ScalingDisabled", disabled)
    missing = 'deployments.apps "missing" not found'
    assert await scalers.condition("missing", "AbleToScale") == ("False", "FailedGetScale", f"{UNABLE}{missing}")
    assert await scalers.event("missing", "FailedGetScale") == missing
    unknown = 'no matches for kind "Foo" in group "apps"'
    assert await scalers.condition("unknown", "AbleToScale") == ("False", "FailedGetScale", f"{UNABLE}{unknown}")

    absent = "unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered"
    error = f"unable to get metric p: {absent}"
    failed = ("False", "FailedGetPodsMetric", f"the HPA was unable to compute the replica count: {error}")
    assert await scalers.condition("custom", "ScalingActive") == failed
    assert await scalers.event("custom", "FailedComputeMetricsReplicas") == (
        f"invalid metrics (2 invalid out of 2), first error is: failed to get pods metric value: {error}"
    )
    assert (await scalers.event("custom", "FailedGetExternalMetric")).endswith(
        "/q/nil: unable to fetch metrics from external metrics API: the server could not find the requested resource "
        "(get q.external.metrics.k8s.io)"
    )


async def test_autoscalers_report_a_metrics_server_that_is_not_available(api: API, ns: str) -> None:
    name = "v1beta1.external.metrics.k8s.io"
    service = {"name": "none", "namespace": ns.rpartition("/")[2]}
    spec = {"group": "external.metrics.k8s.io", "version": "v1beta1", "service": service, "insecureSkipTLSVerify": True}
    body = {"metadata": {"name": name}, "spec": {**spec, "groupPriorityMinimum": 100, "versionPriority": 100}}
    services = "/apis/apiregistration.k8s.io/v1/apiservices"
    (await api.post(services, body)).expect(201)
    try:

        async def unavailable() -> bool:
            return (await api.get("/apis/external.metrics.k8s.io/v1beta1/namespaces/x/q")).status == 503

        await until(unavailable)
        metric = {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "1k"}}}
        scalers = Autoscalers(api, ns)
        await scalers.create("down", 1, metrics=[metric])
        assert (await scalers.event("down", "FailedGetExternalMetric")).endswith(
            "/q/nil: unable to fetch metrics from external metrics API: the server is currently unable to handle the "
            "request (get q.external.metrics.k8s.io)"
        )
    finally:
        (await api.delete(f"{services}/{name}")).expect(200)
