"""The reconciler of HorizontalPodAutoscalers.

Metrics for resources and container resources are computed. Others come from the APIs for custom and external metrics,
and fail in a cluster without them.

Follows kubernetes/pkg/controller/podautoscaler.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from kubewright._runtime.clock import Clock
from kubewright.apis.autoscaling.v1 import Scale
from kubewright.apis.autoscaling.v2 import (
    ContainerResourceMetricStatus,
    ExternalMetricStatus,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerCondition,
    HorizontalPodAutoscalerStatus,
    HPAScalingRules,
    MetricIdentifier,
    MetricSpec,
    MetricStatus,
    MetricTarget,
    MetricValueStatus,
    ObjectMetricStatus,
    PodsMetricSource,
    PodsMetricStatus,
    ResourceMetricStatus,
)
from kubewright.apis.core.v1 import Pod
from kubewright.client._client import Client
from kubewright.client._mapper import RESTMapper
from kubewright.client._patch import MergePatch
from kubewright.controllers import Context, Controller, DeletedContext, Request, Result, controller
from kubewright.controllers.predicates import changed
from kubewright.machinery.errors import APIError, ConfigError
from kubewright.machinery.quantity import Quantity
from kubewright.models import Object
from kubewright_controlplane.common.conditions import with_condition
from kubewright_controlplane.controllers.autoscaling import replicas
from kubewright_controlplane.controllers.autoscaling.custommetrics import CustomMetrics, shown_selector
from kubewright_controlplane.controllers.autoscaling.limits import Record
from kubewright_controlplane.controllers.autoscaling.replicas import MetricFailed, Proposal, Tolerance
from kubewright_controlplane.controllers.autoscaling.usage import FETCH, MetricsAPI, UsageSource, refusal

_UNABLE: Final = "the HPA controller was unable to get the target's current scale: "


class _Wanted(NamedTuple):
    """What all metrics together ask for."""

    replicas: int
    metric: str
    statuses: list[MetricStatus]
    error: str


class AutoscalerReconciler:
    """Scales the target of an autoscaler."""

    def __init__(self, live: Client, clock: Clock, usage: UsageSource, period: timedelta) -> None:
        """`live` reads and writes scales. Each autoscaler is reconciled once in a `period`."""
        self._period = period
        self._live = live
        self._clock = clock
        self._usage = usage
        self._mapper = RESTMapper(live)
        self._custom = CustomMetrics(live, self._mapper)
        self._records: dict[Request, Record] = {}

    async def reconcile(
        self, ctx: Context[HorizontalPodAutoscaler] | DeletedContext[HorizontalPodAutoscaler]
    ) -> Result | None:
        if isinstance(ctx, DeletedContext) or ctx.object.metadata.deletion_timestamp is not None:
            self._records.pop(ctx.request, None)
            return None
        hpa = ctx.object
        try:
            kind, scale = await self._scale_of(hpa)
        except (APIError, ConfigError) as error:
            ctx.events.warning(hpa, "FailedGetScale", str(error), action="Scale")
            self._set(hpa, "AbleToScale", "False", "FailedGetScale", f"{_UNABLE}{error}")
            await ctx.update_status(hpa.status)
            return Result(requeue_after=self._period)
        found = "the HPA controller was able to get the target's current scale"
        self._set(hpa, "AbleToScale", "True", "SucceededGetScale", found)
        await self._autoscale(ctx, kind, scale)
        return Result(requeue_after=self._period)

    async def _scale_of(self, hpa: HorizontalPodAutoscaler) -> tuple[type[Object], Scale]:
        target, namespace = hpa.spec.scale_target_ref, hpa.metadata.namespace
        api_version = target.api_version or "v1"
        try:
            kind = await self._mapper.kind(api_version, target.kind)
        except ConfigError as error:
            group = api_version.rpartition("/")[0]
            raise ConfigError(f'no matches for kind "{target.kind}" in group "{group}"') from error
        return kind, await self._live.subresource(kind, target.name, "scale", namespace=namespace).get(Scale)

    async def _autoscale(self, ctx: Context[HorizontalPodAutoscaler], kind: type[Object], scale: Scale) -> None:
        hpa, now = ctx.object, self._clock.now()
        current, spec = scale.spec.replicas or 0, hpa.spec
        least = 1 if spec.min_replicas is None else spec.min_replicas
        record = self._records.setdefault(ctx.request, Record())
        record.start(current, now)
        desired, reason, statuses = current, "", list[MetricStatus]()
        if current == 0 and least != 0:
            disabled = "scaling is disabled since the replica count of the target is zero"
            self._set(hpa, "ScalingActive", "False", "ScalingDisabled", disabled)
        elif current > spec.max_replicas:
            desired, reason = spec.max_replicas, "Current number of replicas above Spec.MaxReplicas"
        elif current < least:
            desired, reason = least, "Current number of replicas below Spec.MinReplicas"
        else:
            wanted = await self._by_metrics(ctx, scale)
            if wanted is None:
                return
            statuses = wanted.statuses
            if wanted.replicas != current:
                up = wanted.replicas > current
                reason = f"{wanted.metric} above target" if up else "All metrics below target"
            desired = self._limited(hpa, record, wanted.replicas, current, least, now)
        rescales = desired != current
        if rescales and not await self._rescale(ctx, kind, desired, reason):
            rescales, desired = False, current
        if rescales and spec.behavior is not None:
            record.scaled(current, desired, now)
        hpa.status = HorizontalPodAutoscalerStatus(
            current_replicas=current,
            desired_replicas=desired,
            last_scale_time=now if rescales else hpa.status.last_scale_time,
            current_metrics=statuses,
            conditions=hpa.status.conditions,
        )
        await ctx.update_status(hpa.status)

    def _limited(
        self, hpa: HorizontalPodAutoscaler, record: Record, wanted: int, current: int, least: int, now: datetime
    ) -> int:
        behavior = hpa.spec.behavior
        stable = record.stabilize(wanted, current, behavior, now)
        if stable == wanted:
            self._set(hpa, "AbleToScale", "True", "ReadyForNewScale", "recommended size matches current size")
        elif behavior is not None and wanted >= current:
            message = "recent recommendations were lower than current one, applying the lowest recent recommendation"
            self._set(hpa, "AbleToScale", "True", "ScaleUpStabilized", message)
        else:
            message = "recent recommendations were higher than current one, applying the highest recent recommendation"
            self._set(hpa, "AbleToScale", "True", "ScaleDownStabilized", message)
        bounded = record.bound(stable, current, least, hpa.spec.max_replicas, behavior, now)
        limited = "True" if bounded.is_limited else "False"
        self._set(hpa, "ScalingLimited", limited, bounded.reason, bounded.message)
        return bounded.replicas

    async def _rescale(
        self, ctx: Context[HorizontalPodAutoscaler], kind: type[Object], desired: int, reason: str
    ) -> bool:
        hpa = ctx.object
        name, namespace = hpa.spec.scale_target_ref.name, hpa.metadata.namespace
        scales = self._live.subresource(kind, name, "scale", namespace=namespace)
        try:
            await scales.patch(Scale, MergePatch({"spec": {"replicas": desired}}))
        except APIError as error:
            note = f"New size: {desired}; reason: {reason}; error: {error}"
            ctx.events.warning(hpa, "FailedRescale", note, action="Scale")
            message = f"the HPA controller was unable to update the target scale: {error}"
            self._set(hpa, "AbleToScale", "False", "FailedUpdateScale", message)
            return False
        message = f"the HPA controller was able to update the target scale to {desired}"
        self._set(hpa, "AbleToScale", "True", "SucceededRescale", message)
        ctx.events.normal(hpa, "SuccessfulRescale", f"New size: {desired}; reason: {reason}", action="Scale")
        return True

    async def _by_metrics(self, ctx: Context[HorizontalPodAutoscaler], scale: Scale) -> _Wanted | None:
        """Return what the metrics ask for; None if they ask for nothing, which is reported."""
        hpa, current = ctx.object, scale.spec.replicas or 0
        best, metric, failures = 0, "", list[tuple[str, str, str]]()
        statuses: list[MetricStatus] = []
        selector = (scale.status.selector if scale.status else None) or ""
        if not selector:
            ctx.events.warning(hpa, "SelectorRequired", "selector is required", action="Scale")
            failures.append(("InvalidSelector", "the HPA target's scale is missing a selector", "selector is required"))
        for spec in hpa.spec.metrics if selector else ():
            try:
                proposal, name, status = await self._by_metric(ctx, spec, selector, scale)
            except (MetricFailed, APIError) as error:
                reason = f"FailedGet{spec.type}Metric"
                ctx.events.warning(hpa, reason, str(error), action="Scale")
                failures.append(
                    (reason, f"the HPA was unable to compute the replica count: {error}", f"{_what(spec)}{error}")
                )
                statuses.append(MetricStatus(type=""))
                continue
            statuses.append(status)
            if best == 0 or proposal.replicas > best:
                best, metric = proposal.replicas, name
        if failures and (not metric or best < current):
            await self._report_failure(ctx, failures, statuses, current)
            return None
        found = f"the HPA was able to successfully calculate a replica count from {metric}"
        self._set(hpa, "ScalingActive", "True", "ValidMetricFound", found)
        return _Wanted(best, metric, statuses, "")

    async def _report_failure(
        self,
        ctx: Context[HorizontalPodAutoscaler],
        failures: Sequence[tuple[str, str, str]],
        statuses: list[MetricStatus],
        current: int,
    ) -> None:
        hpa, (reason, message, error) = ctx.object, failures[0]
        self._set(hpa, "ScalingActive", "False", reason, message)
        hpa.status = msgspec.structs.replace(hpa.status, current_replicas=current, current_metrics=statuses)
        await ctx.update_status(hpa.status)
        if reason != "InvalidSelector":
            count = f"{len(failures)} invalid out of {len(hpa.spec.metrics)}"
            error = f"invalid metrics ({count}), first error is: {error}"
        ctx.events.warning(hpa, "FailedComputeMetricsReplicas", error, action="Scale")

    async def _by_metric(
        self, ctx: Context[HorizontalPodAutoscaler], spec: MetricSpec, selector: str, scale: Scale
    ) -> tuple[Proposal, str, MetricStatus]:
        """Return the proposal of a metric, its name and its status. Raises MetricFailed."""
        current = scale.spec.replicas or 0
        if spec.resource is not None:
            name, target = spec.resource.name, spec.resource.target
            proposal, value, kind = await self._by_resource(ctx, name, "", target, selector, current)
            status = ResourceMetricStatus(name=name, current=value)
            return proposal, f"{name} {kind}", MetricStatus(type=spec.type, resource=status)
        if spec.container_resource is not None:
            name, container = spec.container_resource.name, spec.container_resource.container
            target = spec.container_resource.target
            proposal, value, kind = await self._by_resource(ctx, name, container, target, selector, current)
            within = ContainerResourceMetricStatus(name=name, container=container, current=value)
            kind = f"container {kind}" if target.average_value is None else kind
            return proposal, f"{name} {kind}", MetricStatus(type=spec.type, container_resource=within)
        if spec.pods is not None:
            return await self._by_pods(ctx, spec.pods, selector, current)
        metric, target = _source_of(spec)
        namespace = ctx.request.namespace or ""
        if spec.object_ is not None:
            usage = await self._custom.of_object(namespace, spec.object_.described_object, metric)
        else:
            usage = await self._custom.external(namespace, metric)
        tolerance = _tolerance(ctx.object)
        if target.average_value is not None:
            share = Quantity.parse(target.average_value).milli_value
            observed = scale.status.replicas if scale.status else 0
            proposal = replicas.by_share(usage, share, observed or 0, tolerance)
            value = MetricValueStatus(average_value=_milli(proposal.average))
        elif target.value is not None:
            pods = list(await ctx.list(Pod, labels=selector))
            whole = Quantity.parse(target.value).milli_value
            proposal = Proposal(replicas.by_value(usage, whole, pods, current, tolerance), usage)
            value = MetricValueStatus(value=_milli(usage))
        else:
            kind = spec.type.lower()
            raise MetricFailed(
                f"invalid {kind} metric source: neither a value target nor an average value target was set"
            )
        if spec.object_ is not None and target.average_value is None:
            name = f"{spec.object_.described_object.kind} metric {metric.name}"
        else:
            name = f"external metric {metric.name}({shown_selector(metric)})"
        return proposal, name, _status_of(spec, metric, value)

    async def _by_pods(
        self, ctx: Context[HorizontalPodAutoscaler], source: PodsMetricSource, selector: str, current: int
    ) -> tuple[Proposal, str, MetricStatus]:
        metric, namespace = source.metric, ctx.request.namespace or ""
        samples = await self._custom.of_pods(namespace, metric, selector)
        groups = replicas.Groups.of(list(await ctx.list(Pod, labels=selector)), samples, "", "", self._clock.now())
        if not groups.values:
            raise MetricFailed("did not receive metrics for targeted pods (pods might be unready)")
        target = Quantity.parse(source.target.average_value or "0").milli_value
        proposal = replicas.by_average(groups, target, current, _tolerance(ctx.object))
        value = MetricValueStatus(average_value=_milli(proposal.average))
        status = MetricStatus(type="Pods", pods=PodsMetricStatus(metric=metric, current=value))
        return proposal, f"pods metric {metric.name}", status

    async def _by_resource(
        self,
        ctx: Context[HorizontalPodAutoscaler],
        name: str,
        container: str,
        target: MetricTarget,
        selector: str,
        current: int,
    ) -> tuple[Proposal, MetricValueStatus, str]:
        raw = target.average_value is not None
        doing = f"failed to get {name} {'usage' if raw else 'utilization'}"
        try:
            proposal = await self._proposal(ctx, name, container, target, selector, current)
        except MetricFailed as error:
            raise MetricFailed(f"{doing}: {error}") from error
        average = str(Quantity(proposal.average * 10**6, "BinarySI" if name == "memory" else "DecimalSI"))
        value = MetricValueStatus(average_value=average, average_utilization=proposal.utilization)
        return proposal, value, "resource" if raw else "resource utilization (percentage of request)"

    async def _proposal(
        self,
        ctx: Context[HorizontalPodAutoscaler],
        name: str,
        container: str,
        target: MetricTarget,
        selector: str,
        current: int,
    ) -> Proposal:
        pods = list(await ctx.list(Pod, labels=selector))
        getting = f"unable to get metrics for resource {name}: "
        try:
            samples = await self._usage.read(name, ctx.request.namespace or "", selector, pods)
        except APIError as error:
            why = f"{FETCH} resource metrics API: {refusal(error, 'get pods.metrics.k8s.io')}"
            raise MetricFailed(getting + why) from error
        if not samples:
            raise MetricFailed(f"{getting}no metrics returned from resource metrics API")
        groups = replicas.Groups.of(pods, samples, name, container, self._clock.now())
        if not groups.values:
            raise MetricFailed("did not receive metrics for targeted pods (pods might be unready)")
        tolerance = _tolerance(ctx.object)
        if target.average_value is not None:
            return replicas.by_average(groups, Quantity.parse(target.average_value).milli_value, current, tolerance)
        if target.average_utilization is None:
            raise MetricFailed(
                "invalid resource metric source: neither an average utilization target nor an average value (usage) "
                "target was set"
            )
        requests = replicas.requests_of(pods, name, container)
        return replicas.by_utilization(groups, requests, target.average_utilization, current, tolerance)

    def _set(self, hpa: HorizontalPodAutoscaler, kind: str, status: str, reason: str, message: str) -> None:
        now = self._clock.now()
        made = HorizontalPodAutoscalerCondition(
            type=kind, status=status, reason=reason, message=message, last_transition_time=now
        )
        hpa.status = msgspec.structs.replace(hpa.status, conditions=with_condition(hpa.status.conditions, made))


def _what(spec: MetricSpec) -> str:
    """Return the beginning of the error of a metric."""
    if spec.resource is not None:
        return f"failed to get {spec.resource.name} resource metric value: "
    if spec.container_resource is not None:
        return f"failed to get {spec.container_resource.container} container metric value: "
    if spec.external is not None:
        return f"failed to get {spec.external.metric.name} external metric value: "
    return f"failed to get {spec.type.lower()} metric value: "


def _source_of(spec: MetricSpec) -> tuple[MetricIdentifier, MetricTarget]:
    """Return the metric of an object, or of none, and its target."""
    if spec.object_ is not None:
        return spec.object_.metric, spec.object_.target
    if spec.external is not None:
        return spec.external.metric, spec.external.target
    raise MetricFailed(f'unknown metric source type "{spec.type}"')


def _status_of(spec: MetricSpec, metric: MetricIdentifier, value: MetricValueStatus) -> MetricStatus:
    if spec.object_ is not None:
        described = spec.object_.described_object
        found = ObjectMetricStatus(metric=metric, current=value, described_object=described)
        return MetricStatus(type=spec.type, object_=found)
    return MetricStatus(type=spec.type, external=ExternalMetricStatus(metric=metric, current=value))


def _milli(number: int) -> str:
    return str(Quantity(number * 10**6, "DecimalSI"))


def _tolerance(hpa: HorizontalPodAutoscaler) -> Tolerance:
    behavior = hpa.spec.behavior
    default = Tolerance()
    if behavior is None:
        return default
    return Tolerance(_own(behavior.scale_up, default.up), _own(behavior.scale_down, default.down))


def _own(rules: HPAScalingRules | None, default: float) -> float:
    return float(Quantity.parse(rules.tolerance)) if rules is not None and rules.tolerance is not None else default


def _spec(hpa: HorizontalPodAutoscaler) -> object:
    return hpa.spec


def autoscaler_controller(
    live: Client, clock: Clock, period: timedelta, usage: UsageSource | None = None
) -> Controller[HorizontalPodAutoscaler]:
    """Return the controller `horizontal-pod-autoscaler-controller`. `live` reads and writes scales."""
    declare = controller(
        HorizontalPodAutoscaler,
        name="horizontal-pod-autoscaler-controller",
        predicate=changed(_spec),
        cached=[Pod],
        reconcile_deleted=True,
        namespace_ending="stop",
        workers=5,
    )
    return declare(AutoscalerReconciler(live, clock, usage or MetricsAPI(live), period))
