"""Kills, stale caches, conflicts, restarts and load: the final state always matches the specs."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable

import pytest
from kubewright import Config, Manager
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import Service
from kubewright.testing import Faults, eventually, failure, gone, killed_after_each_write

from webserver_operator.api.v1.webserver import WebServer
from webservers import NEW, OLD, WebServers, ready_condition, reconciles

NewOperator = Callable[..., Manager]
MANY = 1000


async def test_a_webserver_is_created_wherever_the_operator_is_killed(
    webs: WebServers, account: Config, new_operator: NewOperator
) -> None:
    lives = 0
    async for faults in killed_after_each_write(account):
        name = f"web-{lives}"
        await webs.create(name, replicas=2)
        async with new_operator(faults):
            await faults.died_or(all_is_well, webs, name)
        async with new_operator():
            await webs.serves(name, replicas=2)
            await webs.delete(name)
            await gone(webs.service, name)
        lives += 1
    assert lives > 3  # a Deployment, a Service and a status are written at least


async def test_an_upgrade_completes_wherever_the_operator_is_killed(
    webs: WebServers, account: Config, new_operator: NewOperator
) -> None:
    async with new_operator():
        await webs.create(replicas=2)
        await webs.serves(replicas=2)
    images = [NEW, OLD]
    async for faults in killed_after_each_write(account):
        image, replicas = images[0], len(images[0]) % 3 + 1
        images.reverse()
        await webs.change(image=image, replicas=replicas)
        async with new_operator(faults):
            await faults.died_or(webs.serves, replicas=replicas, image=image)
        async with new_operator():
            await webs.serves(replicas=replicas, image=image)


async def test_a_stale_cache_leads_to_the_same_state(
    webs: WebServers, account: Config, new_operator: NewOperator
) -> None:
    faults = Faults(account)
    faults.lag = 0.5
    async with new_operator(faults):
        made = await webs.create(replicas=1)
        deployment = await eventually(webs.deployment)
        for replicas in (4, 2, 3):
            await webs.change(replicas=replicas)
        await webs.client.delete(await eventually(webs.service))
        web = await webs.serves(replicas=3)
        assert web.metadata.uid == made.metadata.uid
        assert (await webs.deployment()).metadata.uid == deployment.metadata.uid
        await webs.delete()
        await gone(webs.service)
        await webs.create(replicas=2)  # of the same name, while it still sees the one before
        await webs.serves(replicas=2)


async def test_conflicts_and_server_errors_are_retried(
    webs: WebServers, account: Config, new_operator: NewOperator
) -> None:
    faults = Faults(account)
    async with new_operator(faults):
        faults.storm(random.Random(1))
        await webs.create(replicas=1)
        for replicas in (2, 5, 3):
            await webs.change(replicas=replicas, image=NEW)
            await webs.serves(replicas=replicas, image=NEW)


async def test_a_rejection_is_reported(webs: WebServers, account: Config, new_operator: NewOperator) -> None:
    faults = Faults(account)
    faults.answer = lambda request: (
        failure(422, "Invalid", 'Service "web-service" is invalid: not today')
        if request.method == "PATCH" and request.path.endswith("/services/web-service")
        else None
    )
    async with new_operator(faults):
        await webs.create()

        async def is_reported() -> None:
            ready = ready_condition(await webs.get())
            assert (ready.status, ready.reason) == ("False", "Refused")
            assert ready.message == 'Service "web-service" is invalid: not today'

        await eventually(is_reported)
        faults.calm()
        await webs.serves()


@pytest.mark.timeout(600)
async def test_a_thousand_webservers_are_applied_and_then_nothing_is_written(
    webs: WebServers, account: Config, new_operator: NewOperator
) -> None:
    faults = Faults(account)
    async with new_operator(faults) as operator:
        replicas = {f"web-{number}": int(number % 10 == 0) for number in range(MANY)}
        await asyncio.gather(*(webs.create(name, replicas=number) for name, number in replicas.items()))
        for name, number in replicas.items():
            await eventually(is_reported, webs, name, number)
        await eventually(all_have_what_they_can, webs, replicas)
        await faults.rest()
        await eventually(a_round_without_writes, operator, faults)


async def a_round_without_writes(operator: Manager, faults: Faults) -> None:
    """Assert that a reconcile of every WebServer writes nothing."""
    written, reconciled = faults.writes, reconciles(operator)

    async def are_looked_at(so_many: int) -> None:
        assert reconciles(operator) >= reconciled + so_many

    for so_many in range(100, MANY + 1, 100):
        await eventually(are_looked_at, so_many)
    assert faults.writes == written


async def all_is_well(webs: WebServers, name: str) -> None:
    await webs.serves(name, replicas=2)


async def is_reported(webs: WebServers, name: str, replicas: int) -> None:
    """Assert that the status reports the replicas and whether the WebServer has the node port."""
    web = await webs.get(name)
    assert web.status.available_replicas == replicas
    assert web.status.observed_generation == web.metadata.generation
    assert ready_condition(web).reason in ("AllReplicasAvailable", "NodePortTaken")


async def all_have_what_they_can(webs: WebServers, replicas: dict[str, int]) -> None:
    """Assert that each WebServer has a Deployment, and that all others name the one with the node port."""
    deployments = await webs.client.list(Deployment, namespace=webs.namespace)
    assert {each.metadata.name: each.spec.replicas for each in deployments} == replicas
    services = await webs.client.list(Service, namespace=webs.namespace)
    assert len(services) == 1
    everything = await webs.client.list(WebServer, namespace=webs.namespace)
    reasons = Counter(ready_condition(web).reason for web in everything)
    assert reasons == {"AllReplicasAvailable": 1, "NodePortTaken": MANY - 1}
    who = f'Service "{webs.namespace}/{services.items[0].metadata.name}"'
    assert sum(f"taken by {who};" in ready_condition(web).message for web in everything) == MANY - 1
