"""Many Pods, many PodSets, and rejections."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import count
from typing import ParamSpec

import pytest
from kubewright import Config, Manager, ObjectMeta
from kubewright.apis.core.v1 import ResourceQuota, ResourceQuotaSpec
from kubewright.apis.events.v1 import Event
from kubewright.client import MergePatch, Transport
from kubewright.controllers import Outcome, is_controlled_by
from kubewright.http.message import Request
from kubewright.testing import Faults, eventually

from podset_operator.api.v1.podset import PodSet
from podset_operator.controller.podset import LARGEST_BATCH
from podsets import PodSets, ready_condition
from podsets_audit import Audit
from podsets_held import Held

pytestmark = pytest.mark.timeout(600)

P = ParamSpec("P")
NewOperator = Callable[[Config | Transport], Manager]
MANY = 1000


async def test_one_podset_of_500_pods(podsets: PodSets, account: Config, new_operator: NewOperator) -> None:
    faults = Faults(account)
    async with Audit(podsets).kept(), new_operator(faults):
        await podsets.create(replicas=500)
        await comes_true(podsets.is_complete, replicas=500)
        await podsets.scale(replicas=20)
        await comes_true(podsets.is_complete, replicas=20)
        await faults.rest()


async def test_a_thousand_podsets(podsets: PodSets, account: Config, new_operator: NewOperator) -> None:
    names = [f"x-{number}" for number in range(MANY)]
    faults = Faults(account)
    async with new_operator(faults):
        for start in range(0, MANY, 50):
            await asyncio.gather(*(podsets.create(name, replicas=1) for name in names[start : start + 50]))
        await comes_true(all_are_complete, podsets)
        await faults.rest()


async def test_a_large_podset_does_not_delay_a_small_one(
    podsets: PodSets, account: Config, new_operator: NewOperator
) -> None:
    """All concurrent requests of the large PodSet are held back."""
    sent = count()

    def is_of_a_full_batch(request: Request) -> bool:
        is_create = request.method == "POST" and request.path.endswith("/pods") and b'"large-pod-' in request.body
        return is_create and next(sent) >= 1 + 2 + 4 + 8

    late = Held(account, is_of_a_full_batch)
    async with new_operator(late):
        await podsets.create("large", replicas=400)
        await late.holding.wait()
        await podsets.create("small", replicas=3)
        await podsets.completes("small", replicas=3)
        assert late.held == LARGEST_BATCH
        assert len(await podsets.pods("large")) == 15
        await podsets.scale("large", replicas=20)
        late.let_go.set()
        await podsets.completes("large", replicas=20)


async def test_a_rejection_is_reported_and_costs_few_requests(
    podsets: PodSets, account: Config, new_operator: NewOperator
) -> None:
    metadata = ObjectMeta(name="few", namespace=podsets.namespace)
    quota = await podsets.client.create(ResourceQuota(metadata=metadata, spec=ResourceQuotaSpec(hard={"pods": "2"})))

    async def is_enforced() -> None:
        found = await podsets.client.get(ResourceQuota, "few", namespace=podsets.namespace)
        assert found.status.hard == {"pods": "2"}

    async def is_told() -> str:
        podset = await podsets.get()
        ready = ready_condition(podset)
        assert (ready.status, ready.reason) == ("False", "FailedCreate")
        assert "exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2" in ready.message
        assert podset.status.replicas == podset.status.ready_replicas == len(await podsets.pods()) == 2
        events = await podsets.client.list(Event, namespace=podsets.namespace)
        notes = [each.note for each in events if (each.type, each.reason) == ("Warning", "FailedCreate")]
        assert f"Cannot create Pods: {ready.message}" in notes
        return podset.metadata.resource_version

    await eventually(is_enforced)
    faults = Faults(account)
    async with Audit(podsets).kept(), new_operator(faults) as operator:
        await podsets.create(replicas=300)
        version = await eventually(is_told)
        outcomes = operator.metrics.controllers["podset"].outcomes
        tries, writes = outcomes[Outcome.ERROR], faults.writes

        async def has_tried_twice_more() -> tuple[int, int]:
            more = outcomes[Outcome.ERROR] - tries
            assert more >= 2
            return more, faults.writes - writes

        more, written = await eventually(has_tried_twice_more)
        assert written <= 3 * (more + 1)  # for each try the confirmation, one Pod, and an Event's count
        assert await is_told() == version
        await podsets.client.patch(quota, MergePatch({"spec": {"hard": {"pods": "1000"}}}))
        await podsets.scale(replicas=30)
        await comes_true(podsets.is_complete, replicas=30)
        assert (await podsets.get()).status.reserved_pod_names == []


async def all_are_complete(podsets: PodSets) -> None:
    found = await podsets.client.list(PodSet, namespace=podsets.namespace)
    pods = {pod.metadata.owner_references[0].uid: pod for pod in await podsets.all_pods()}
    assert len(pods) == len(await podsets.all_pods()) == MANY
    for podset in found:
        pod = pods[podset.metadata.uid]
        assert is_controlled_by(pod, podset)
        assert podset.status.pod_names == [pod.metadata.name]
        assert podset.status.ready_replicas == 1


async def comes_true(check: Callable[P, Awaitable[object]], *args: P.args, **kwargs: P.kwargs) -> None:
    """Check less often than `eventually`: each check is expensive and the test may take minutes."""
    deadline = time.monotonic() + 300
    while True:
        try:
            await check(*args, **kwargs)
        except AssertionError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(2)
        else:
            return
