"""Plans of an operator: order, failures, kills, requests of users, drift, cleanup."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from integration.zoos import (
    EXEC,
    Zoo,
    Zoos,
    ZooSpec,
    condition,
    config_for,
    secret_for,
    service_for,
    ticket_manager,
    tickets_for,
    zoo_manager,
    zoo_plans,
)
from kubewright import Config, Context, Manager, ObjectMeta, Result, TerminalError, controller, plans
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.batch.v1 import Job
from kubewright.apis.core.v1 import ConfigMap, Namespace, Pod, Secret, Service
from kubewright.apis.events.v1 import Event
from kubewright.client import MergePatch
from kubewright.manager._exposition import render
from kubewright.plans import CEL, Apply, Call, Delete, Phase, Pipe, Plan, Plans, Step, StepContext, Strategy, Waiting
from kubewright.testing import Cluster, Faults, eventually, gone, killed_after_each_write
from kubewright_controlplane import STAND_INS


@pytest_asyncio.fixture
async def zoos(cluster: Cluster, namespace: str) -> Zoos:
    await cluster.install(Zoo)
    return Zoos(cluster, namespace)


@pytest_asyncio.fixture
async def account(cluster: Cluster, zoos: Zoos) -> AsyncIterator[Config]:
    """Credentials with the permissions that the operator declares."""
    rules = zoo_manager(zoo_plans()).rbac_rules()
    async with cluster.service_account(rules, namespace=zoos.namespace) as account:
        yield account


def operator(access: Config | Faults, namespace: str, manager: Manager) -> Manager:
    if isinstance(access, Faults):
        return manager.replace(transport=access, namespaces=namespace)
    return manager.replace(config=access, namespaces=namespace)


async def test_a_plan_runs_in_order_and_its_status_says_where_it_is(zoos: Zoos, account: Config) -> None:
    opened = asyncio.Event()
    seen: list[Zoo] = []

    async def inspect(step: StepContext[Zoo]) -> Waiting | None:
        seen.append(step.object)
        houses = await step.ctx.get(Deployment, "z-houses")
        assert houses.status.available_replicas == 2
        return None if opened.is_set() else Waiting("the inspector is not here", requeue_after=0.05)

    async with operator(account, zoos.namespace, zoo_manager(zoo_plans(inspect))):
        await zoos.create(spec=ZooSpec(houses=2, shop=True))

        async def waits() -> Zoo:
            zoo = await zoos.get()
            assert zoo.status.plan is not None
            assert zoo.status.plan.message == "the inspector is not here"
            return zoo

        zoo = await eventually(waits)
        assert zoo.status.plan is not None
        assert (zoo.status.plan.name, zoo.status.plan.phase, zoo.status.plan.step) == ("deploy-1", "houses", "inspect")
        assert [each.state for each in zoo.status.plan.phases] == ["Complete", "InProgress", "Pending"]
        assert condition(zoo, "Progressing") == ("True", "PlanInProgress")
        assert condition(zoo, "Ready") == ("Unknown", "PlanInProgress")
        opened.set()
        await zoos.reaches("deploy-1", "Complete")
        zoo = await zoos.is_ready()
        assert condition(zoo, "Progressing") == ("False", "PlanComplete")


async def test_a_plan_ends_the_same_wherever_the_operator_is_killed(zoos: Zoos, account: Config) -> None:
    lives = 0
    async for faults in killed_after_each_write(account):
        name = f"z{lives}"
        await zoos.create(name, ZooSpec(houses=2, shop=True))
        async with operator(faults, zoos.namespace, zoo_manager(zoo_plans())):
            await faults.died_or(zoos.is_ready, name)
        async with operator(account, zoos.namespace, zoo_manager(zoo_plans())):
            zoo = await zoos.is_ready(name)
            assert zoo.status.plan is not None
            assert zoo.status.plan.name == "deploy-1"
            await zoos.client.delete(zoo)
            await gone(zoos.get, name)
        lives += 1
    assert lives > 8


@pytest.mark.long  # the test above kills an operator after each write too
async def test_an_upgrade_and_a_backup_end_the_same_wherever_the_operator_is_killed(
    zoos: Zoos, account: Config
) -> None:
    async with operator(account, zoos.namespace, zoo_manager(zoo_plans())):
        await zoos.create()
        await zoos.is_ready()
    lives = 0
    async for faults in killed_after_each_write(account):
        lives += 1
        await zoos.change(ZooSpec(version=f"{lives + 1}", backup=f"{lives}"))
        expected = {"deploy": 1, "upgrade": lives, "backup": lives}
        async with operator(faults, zoos.namespace, zoo_manager(zoo_plans())):
            await faults.died_or(executed, zoos, expected)
        async with operator(account, zoos.namespace, zoo_manager(zoo_plans())):
            await eventually(executed, zoos, expected)
            assert await zoos.client.get(Job, f"z-backup-{lives}", namespace=zoos.namespace)
    assert lives > 4


async def test_changes_are_made_by_the_plans_that_they_trigger(zoos: Zoos, account: Config) -> None:
    async with operator(account, zoos.namespace, zoo_manager(zoo_plans())):
        await zoos.create(spec=ZooSpec(backup="first"))
        zoo = await zoos.is_ready()
        assert {each.name: each.executions for each in zoo.status.plans} == {"deploy": 1, "upgrade": 0, "backup": 0}
        await zoos.change(ZooSpec(version="2", backup="first"))
        await zoos.reaches("upgrade-1", "Complete")
        await zoos.change(ZooSpec(version="3", houses=2, backup="second"))
        await eventually(executed, zoos, {"deploy": 2, "upgrade": 2})
        await eventually(executed, zoos, {"deploy": 2, "upgrade": 2, "backup": 1})
        assert await zoos.client.get(Job, "z-backup-1", namespace=zoos.namespace)
        await plans.start(zoos.client, await zoos.get(), "backup", "by hand")
        await eventually(executed, zoos, {"deploy": 2, "upgrade": 2, "backup": 2})
        await zoos.is_ready()


async def executed(zoos: Zoos, expected: dict[str, int]) -> None:
    """Assert that the plans have been complete so often."""
    zoo = await zoos.get()
    assert {each.name: each.executions for each in zoo.status.plans}.items() >= expected.items()
    assert {each.name for each in zoo.status.plans if each.state == "Complete"} >= expected.keys()


async def test_a_failed_attempt_is_repeated_and_a_fatal_error_is_not(zoos: Zoos, account: Config) -> None:
    errors: list[Exception] = [RuntimeError("the inspector fell asleep"), TerminalError("the zoo is too loud")]
    calls: list[str] = []

    async def inspect(step: StepContext[Zoo]) -> Waiting | None:
        calls.append(step.execution)
        if errors:
            raise errors.pop(0)
        return None

    async with operator(account, zoos.namespace, zoo_manager(zoo_plans(inspect))) as manager:
        await zoos.create()
        zoo = await zoos.reaches("deploy-1", "Failed")
        assert zoo.status.plan is not None
        assert (zoo.status.plan.step, zoo.status.plan.message) == ("inspect", "the zoo is too loud")
        assert condition(zoo, "Progressing") == ("False", "PlanFailed")
        assert condition(zoo, "Ready") == ("Unknown", "PlanFailed")
        assert calls == ["deploy-1", "deploy-1"]
        await zoos.client.delete(ConfigMap, "z-config", namespace=zoos.namespace)
        await plans.retry(zoos.client, zoo, "deploy-1")
        zoo = await zoos.reaches("deploy-2", "Complete")
        assert calls == ["deploy-1", "deploy-1", "deploy-2"]  # from the failed step
        shown = render(manager.metrics, "")[1].decode()
        for line in (
            'kubewright_plan_executions_total{controller="zoo",plan="deploy",result="Failed"} 1.0',
            'kubewright_plan_executions_total{controller="zoo",plan="deploy",result="Complete"} 1.0',
            'kubewright_plan_step_failures_total{controller="zoo",plan="deploy"} 2.0',
            'kubewright_plan_seconds_count{controller="zoo",plan="deploy"} 1.0',
        ):
            assert line in shown
        notes = {
            each.note
            for each in await zoos.client.list(Event, namespace=zoos.namespace)
            if each.regarding is not None and each.regarding.name == "z"
        }
        assert {"Started deploy-1", "deploy-1 failed in step inspect: the zoo is too loud"} <= notes
        await zoos.is_ready()  # and drift repair has brought back what was deleted


async def test_a_change_of_the_spec_replaces_a_plan_that_hangs_or_has_failed(zoos: Zoos, account: Config) -> None:
    async def inspect(step: StepContext[Zoo]) -> Waiting | None:
        if step.object.spec.houses == 1:
            return Waiting("one house is not enough")
        if step.object.spec.houses == 2:
            raise TerminalError("two houses fight")
        return None

    async with operator(account, zoos.namespace, zoo_manager(zoo_plans(inspect))):
        await zoos.create()
        await zoos.reaches("deploy-1", "InProgress")
        await zoos.change(ZooSpec(houses=2))
        await zoos.reaches("deploy-2", "Failed")
        await zoos.change(ZooSpec(houses=3))
        await zoos.reaches("deploy-3", "Complete")
        await zoos.is_ready()


async def test_a_user_pauses_resumes_and_cancels_a_plan(zoos: Zoos, account: Config) -> None:
    calls = 0
    opened = asyncio.Event()

    async def inspect(step: StepContext[Zoo]) -> Waiting | None:
        nonlocal calls
        calls += 1
        return None if opened.is_set() else Waiting("closed", requeue_after=0.02)

    async with operator(account, zoos.namespace, zoo_manager(zoo_plans(inspect))):
        await zoos.create()

        async def inspected() -> None:
            assert calls > 2

        await eventually(inspected)
        await plans.pause(zoos.client, await zoos.get())
        zoo = await zoos.reaches("deploy-1", "Paused")
        assert condition(zoo, "Progressing") == ("False", "PlanPaused")
        until_paused = calls
        opened.set()
        await plans.resume(zoos.client, zoo)
        await zoos.reaches("deploy-1", "Complete")
        assert calls == until_paused + 1
        opened.clear()
        await zoos.change(ZooSpec(houses=0))
        zoo = await zoos.reaches("deploy-2", "InProgress")
        await plans.cancel(zoos.client, zoo, "deploy-2")
        zoo = await zoos.reaches("deploy-2", "Canceled")
        assert condition(zoo, "Ready") == ("Unknown", "PlanCanceled")
        opened.set()
        await plans.retry(zoos.client, zoo, "deploy-2")
        await zoos.reaches("deploy-3", "Complete")
        await zoos.is_ready()


async def test_drift_is_repaired_after_a_plan_is_complete(zoos: Zoos, account: Config) -> None:
    async with operator(account, zoos.namespace, zoo_manager(zoo_plans())) as manager:
        await zoos.create(spec=ZooSpec(backup=None))
        await zoos.is_ready()
        await zoos.client.delete(Service, "z-gate", namespace=zoos.namespace)
        change = MergePatch({"data": {"houses": "many"}})
        await zoos.client.patch(ConfigMap, change, name="z-config", namespace=zoos.namespace)
        zoo = await zoos.is_ready()
        assert zoo.status.plan is not None
        assert zoo.status.plan.name == "deploy-1"
        assert manager.metrics.controllers["zoo"].drift_repairs >= 2


async def test_the_cleanup_plan_runs_before_an_object_is_deleted(zoos: Zoos, account: Config) -> None:
    said: list[str] = []

    async def farewell(step: StepContext[Zoo]) -> Waiting | None:
        said.append(step.execution)
        if len(said) == 1:
            raise TerminalError("nobody listens")
        return None

    async def never(step: StepContext[Zoo]) -> Waiting | None:
        return Waiting("the inspector never comes")

    async with operator(account, zoos.namespace, zoo_manager(zoo_plans(never, farewell))):
        await zoos.create()
        zoo = await zoos.reaches("deploy-1", "InProgress")
        await zoos.client.delete(zoo)
        await zoos.reaches("cleanup-1", "Failed")
        await plans.retry(zoos.client, zoo, "cleanup-1")
        await gone(zoos.get)
        assert said == ["cleanup-1", "cleanup-2"]


async def test_storms_and_stale_caches_lead_to_the_same_end(zoos: Zoos, account: Config) -> None:
    faults = Faults(account)
    faults.lag = 0.2
    async with operator(faults, zoos.namespace, zoo_manager(zoo_plans())):
        faults.storm(random.Random(3))
        await zoos.create(spec=ZooSpec(houses=2))
        await zoos.is_ready()
        await zoos.change(ZooSpec(houses=1, shop=True))
        await zoos.is_ready()
        faults.calm()
        zoo = await zoos.is_ready()
        assert {each.name: each.executions for each in zoo.status.plans} == {"deploy": 2, "upgrade": 0, "backup": 0}


async def test_drift_is_repaired_while_a_plan_runs_that_does_not_affect_the_children(
    zoos: Zoos, account: Config
) -> None:
    async def wait(step: StepContext[Zoo]) -> Waiting | None:
        return Waiting("the tape is full")

    deploy = Plan("deploy", [Phase("all", [Step("config", [Apply(config_for)])])], trigger=lambda zoo: zoo.spec.houses)
    backup = Plan("backup", [Phase("all", [Step("tape", [Call(wait)])])], affects_children=False)
    both = Plans(deploy, backup, cleanup=Plan("cleanup"))
    async with operator(account, zoos.namespace, zoo_manager(both)):
        await zoos.create()
        zoo = await zoos.reaches("deploy-1", "Complete")
        await plans.start(zoos.client, zoo, "backup", "now")
        await zoos.reaches("backup-1", "InProgress")
        await zoos.client.delete(ConfigMap, "z-config", namespace=zoos.namespace)
        await eventually(zoos.client.get, ConfigMap, "z-config", namespace=zoos.namespace)
        assert condition(await zoos.get(), "Ready") == ("True", "ResourcesReady")


def one_phase(*steps: Step[Zoo], strategy: Strategy = "serial") -> Plans[Zoo]:
    """Return plans that deploy in these steps, and leave a note when they clean up."""
    cleanup = Plan("cleanup", [Phase("end", [Step("note", [Apply(note_for)])])])
    return Plans(Plan("deploy", [Phase("all", steps, strategy=strategy)]), cleanup=cleanup)


def note_for(zoo: Zoo) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=f"{zoo.metadata.name}-note"))


async def message_of(zoos: Zoos, expected: str) -> Zoo:
    """Return the Zoo once its plan shows this message."""
    zoo = await zoos.get()
    assert zoo.status.plan is not None
    assert zoo.status.plan.message == expected
    return zoo


async def test_gates_hold_a_step_until_they_open(zoos: Zoos, account: Config) -> None:
    opened = asyncio.Event()

    async def is_tidy(step: StepContext[Zoo]) -> Waiting | None:
        return None if opened.is_set() else Waiting("the gardener still works", requeue_after=0.02)

    gated = one_phase(
        Step(
            "config",
            [Apply(config_for, ready=CEL("object.metadata.labels.open == 'yes'", message="the config is not open"))],
            precondition=CEL("object.spec.houses > 1", message="houses are missing"),
        ),
        Step("tidy", [Delete(config_for, deleted=is_tidy)], ready=CEL("object.spec.shop")),
    )
    async with operator(account, zoos.namespace, zoo_manager(gated)):
        await zoos.create()
        await eventually(message_of, zoos, "houses are missing")
        assert await zoos.client.get_or_none(ConfigMap, "z-config", namespace=zoos.namespace) is None
        await zoos.change(ZooSpec(houses=2))
        await eventually(message_of, zoos, "the config is not open (no such key: open)")
        change = MergePatch({"metadata": {"labels": {"open": "yes"}}})
        await zoos.client.patch(ConfigMap, change, name="z-config", namespace=zoos.namespace)
        await eventually(message_of, zoos, "the gardener still works")
        assert await zoos.client.get_or_none(ConfigMap, "z-config", namespace=zoos.namespace) is None
        opened.set()
        await eventually(message_of, zoos, "object.spec.shop is not true")


async def test_a_step_that_takes_too_long_fails_the_plan_but_not_its_neighbors(zoos: Zoos, account: Config) -> None:
    async def hang(step: StepContext[Zoo]) -> Waiting | None:
        await asyncio.sleep(3600)
        return None

    slow = one_phase(Step("hang", [Call(hang)], timeout=1), Step("config", [Apply(config_for)]), strategy="parallel")
    async with operator(account, zoos.namespace, zoo_manager(slow)):
        await zoos.create()
        zoo = await zoos.reaches("deploy-1", "Failed")
        assert zoo.status.plan is not None
        assert zoo.status.plan.message == "not complete after 1 s: the step still runs"
        assert [step.state for step in zoo.status.plan.phases[0].steps] == ["Failed", "Complete"]


async def test_retries_are_limited(zoos: Zoos, account: Config) -> None:
    async def fail(step: StepContext[Zoo]) -> Waiting | None:
        raise OSError("the line is dead")

    limited = one_phase(Step("call", [Call(fail)], retries=2, retry_delay=0.01))
    async with operator(account, zoos.namespace, zoo_manager(limited)):
        await zoos.create()
        zoo = await zoos.reaches("deploy-1", "Failed")
        assert zoo.status.plan is not None
        step = zoo.status.plan.phases[0].steps[0]
        assert (step.attempts, step.message) == (3, "OSError: the line is dead")


async def test_a_new_version_of_the_operator_continues_a_plan_that_has_changed(zoos: Zoos, account: Config) -> None:
    async def wait(step: StepContext[Zoo]) -> Waiting | None:
        return Waiting("an old step")

    config = Step("config", [Apply(config_for)])
    async with operator(account, zoos.namespace, zoo_manager(one_phase(config, Step("old", [Call(wait)])))):
        await zoos.create()
        await eventually(message_of, zoos, "an old step")
    async with operator(account, zoos.namespace, zoo_manager(one_phase(config, Step("new", [Apply(service_for)])))):
        zoo = await zoos.reaches("deploy-1", "Complete")
        assert zoo.status.plan is not None
        assert [step.name for step in zoo.status.plan.phases[0].steps] == ["config", "new"]


async def test_a_cleanup_plan_does_not_block_the_deletion_of_a_namespace(cluster: Cluster, account: Config) -> None:
    async with cluster.namespace() as name:
        zoos = Zoos(cluster, name)
        async with operator(account, name, zoo_manager(one_phase(Step("config", [Apply(config_for)])))):
            await zoos.create()
            await zoos.reaches("deploy-1", "Complete")
            await cluster.client.delete(Namespace, name)
            await gone(zoos.get)
    await gone(cluster.client.get, Namespace, name)


async def test_an_object_of_another_owner_is_not_deleted(zoos: Zoos, account: Config) -> None:
    tidy = one_phase(Step("tidy", [Delete(note_for)]))
    async with operator(account, zoos.namespace, zoo_manager(one_phase(Step("note", [Apply(note_for)])))):
        await zoos.create("owner")
        await zoos.reaches("deploy-1", "Complete", "owner")
    note = await zoos.client.get(ConfigMap, "owner-note", namespace=zoos.namespace)
    copy = ConfigMap(metadata=ObjectMeta(name="z-note", namespace=zoos.namespace))
    copy.metadata.owner_references = note.metadata.owner_references
    await zoos.client.create(copy)
    async with operator(account, zoos.namespace, zoo_manager(tidy)):
        await zoos.create()
        expected = (
            'ConfigMap "z-note" is controlled by Zoo "owner", so it is not deleted; remove it from the step "tidy", or '
            "give the object of this plan another name"
        )
        await eventually(message_of, zoos, expected)


@pytest_asyncio.fixture
async def printing(cluster: Cluster, kubewright_target: str) -> AsyncIterator[None]:
    """Let Pods of the image busybox run as processes."""
    if kubewright_target == "kubeconfig":
        pytest.skip("Pods of this cluster do not run as processes")
    async with cluster.images(STAND_INS):
        yield


async def printed(zoos: Zoos, name: str, houses: int) -> None:
    """Assert that what the Pod has printed is stored, and that the Pod is gone."""
    client, namespace = zoos.client, zoos.namespace
    secret = await client.get(Secret, f"{name}-tickets", namespace=namespace)
    assert secret.data == {"fixed": b"here", "number": b"%d\n" % (1000 + houses)}
    settings = await client.get(ConfigMap, f"{name}-settings", namespace=namespace)
    assert settings.data == {"OPEN": "yes", "STREET": "Main Street"}
    assert await client.get_or_none(Pod, f"{name}-tickets", namespace=namespace) is None


@pytest_asyncio.fixture
async def ticket_account(cluster: Cluster, zoos: Zoos) -> AsyncIterator[Config]:
    async with cluster.service_account(ticket_manager().rbac_rules(), namespace=zoos.namespace) as account:
        yield account


@pytest.mark.usefixtures("printing")
async def test_files_of_a_pod_are_stored_and_follow_the_next_execution(zoos: Zoos, ticket_account: Config) -> None:
    async with operator(ticket_account, zoos.namespace, ticket_manager()):
        await zoos.create(spec=ZooSpec(houses=2))
        await zoos.reaches("deploy-1", "Complete")
        await eventually(printed, zoos, "z", 2)
        await zoos.change(ZooSpec(houses=3))
        await zoos.reaches("deploy-2", "Complete")
        await eventually(printed, zoos, "z", 3)


@pytest.mark.long
@pytest.mark.usefixtures("printing")
async def test_a_pipe_ends_the_same_wherever_the_operator_is_killed(zoos: Zoos, ticket_account: Config) -> None:
    lives = 0
    async for faults in killed_after_each_write(ticket_account):
        name = f"z{lives}"
        await zoos.create(name, ZooSpec(houses=lives))
        async with operator(faults, zoos.namespace, ticket_manager()):
            await faults.died_or(zoos.reaches, "deploy-1", "Complete", name)
        async with operator(ticket_account, zoos.namespace, ticket_manager()):
            await zoos.reaches("deploy-1", "Complete", name)
            await eventually(printed, zoos, name, lives)
        lives += 1
    assert lives > 5


@pytest.mark.usefixtures("printing")
async def test_a_pipe_without_its_file_fails_the_plan_with_the_reason(zoos: Zoos, ticket_account: Config) -> None:
    missing = one_phase(Step("print", [Pipe(tickets_for, into=secret_for, files={"number": "/out/other"})]))
    outside = one_phase(Step("print", [Pipe(tickets_for, into=secret_for, files={"number": "/etc/hosts"})]))
    for name, which, reason in (
        ("a", missing, r'Pod "a-tickets": cat in Pod .*/a-tickets ended with exit code 1: .*/out/other.*'),
        ("b", outside, r'Pod "b-tickets": the file /etc/hosts is in no emptyDir that a container mounts; write it .*'),
    ):

        @controller(Zoo, owns=[ConfigMap, Secret, Pod], rules=[EXEC])
        async def reconcile(ctx: Context[Zoo], plans: Plans[Zoo] = which) -> Result | None:
            return await plans.run(ctx)

        async with operator(ticket_account, zoos.namespace, Manager([reconcile])):
            await zoos.create(name)
            zoo = await zoos.reaches("deploy-1", "Failed", name)
            assert zoo.status.plan is not None
            assert re.fullmatch(reason, zoo.status.plan.message)
            await zoos.client.delete(zoo)
