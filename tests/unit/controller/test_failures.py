"""Failed reconciles: logs, retries and backoff."""

import asyncio
import inspect
import logging
from datetime import timedelta
from typing import Any

import pytest

from kubewright.apis.core.v1 import ConfigMap, Secret
from kubewright.client._patch import MergePatch
from kubewright.controllers import Backoff, Context, Retry, controller
from kubewright.controllers._reconcile import Failure, Outcome
from kubewright.http.message import Request as HTTPRequest
from kubewright.http.message import Response
from kubewright.machinery.errors import Conflict, Forbidden, NotFound, StatusCause, StatusDetails, TerminalError
from kubewright.models import Object, field
from kubewright.testing import VirtualClock

from .workshop import NAMESPACE, Workshop, config_map, errors, ours, secret


async def test_a_reconcile_that_raises_is_logged_and_retried_after_its_backoff(
    shop: Workshop, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[tuple[float, int]] = []

    @controller(ConfigMap, predicate=ours, retry=Retry(backoff=Backoff(base=timedelta(seconds=1))))
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        tries.append((clock.monotonic(), ctx.attempt))
        if len(tries) < 4:
            raise OSError("the cloud is down")

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    await clock.advance(100)
    assert tries == [(0, 1), (1, 2), (3, 3), (7, 4)]
    assert errors(caplog) == ["Reconcile failed"] * 3
    line: Any = next(each for each in caplog.records if each.msg == "Reconcile failed")
    assert line.fields["error"] == "OSError: the cloud is down"
    assert line.fields["name"] == "web"
    assert line.fields["causes"] == "ConfigMap default/web add"
    assert line.exc_info is None
    assert shop.told.outcomes == [Outcome.ERROR] * 3 + [Outcome.SUCCESS]
    assert shop.told.failures == [Failure.ERROR] * 3


async def test_a_wrong_return_value_is_a_mistake_that_is_named(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    async def look(ctx: Context[ConfigMap]) -> Any:
        return timedelta(seconds=5)

    loop = await shop.run(controller(ConfigMap, predicate=ours)(look))
    await shop.create(config_map("web"))
    await shop.stop(loop)
    assert shop.told.failures[0] is Failure.MISTAKE
    error = next(vars(each)["fields"]["error"] for each in caplog.records if each.levelno >= logging.ERROR)
    assert error == "TypeError: the reconciler returned datetime.timedelta(seconds=5); it must return None or a Result"


async def test_a_mistake_in_the_code_stays_local_and_is_logged_with_its_traceback(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    @controller(ConfigMap, predicate=ours, retry=Retry(backoff=Backoff(base=3600)))
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        seen.append(ctx.request.name)
        if ctx.request.name == "bad":
            raise KeyError("spec")

    await shop.run(reconcile)
    await shop.create(config_map("bad"))
    await shop.create(config_map("good"))
    assert seen == ["bad", "good"]
    assert shop.told.failures == [Failure.MISTAKE]
    (line,) = [each for each in caplog.records if each.msg == "Reconcile failed"]
    assert line.exc_info is not None


async def test_a_traceback_begins_in_the_reconciler_and_is_shown_again_only_for_another_error(
    shop: Workshop, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    @controller(ConfigMap, predicate=ours, retry=Retry(backoff=Backoff(base=timedelta(seconds=1))))
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        if ctx.object.data.get("good") != "yes":
            raise KeyError("spec" if ctx.attempt < 3 else "status")

    await shop.run(reconcile)
    bad = await shop.create(config_map("web"))
    await clock.advance(10)
    traces = [each.exc_info for each in caplog.records if each.msg == "Reconcile failed"]
    assert [trace is not None for trace in traces] == [True, False, True, False]
    first = traces[0][2] if traces[0] is not None else None
    assert first is not None
    assert first.tb_frame.f_code.co_filename == __file__
    caplog.clear()
    bad.data = {"good": "yes"}
    bad = await shop.admin.update(bad)
    await clock.advance(100)
    bad.data = {}
    await shop.admin.update(bad)
    await shop.settle()
    assert [each.exc_info is not None for each in caplog.records if each.msg == "Reconcile failed"] == [True]


async def test_an_error_without_a_traceback_is_logged_with_the_line_of_the_call(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    @controller(ConfigMap, owns=[Secret], predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        await ctx.apply(Secret())

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    line: Any = next(each for each in caplog.records if each.msg == "Reconcile failed")
    assert line.fields["error"] == "ConfigError: Secret: a name is required"
    assert line.fields["at"] == f"{__file__}:{inspect.getsourcelines(reconcile.reconcile)[1] + 2}"


async def test_an_error_that_retries_repeat_within_a_second_is_logged_once(
    shop: Workshop, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        raise OSError("the cloud is down")

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    await clock.advance(0.9)
    assert len(shop.told.failures) == 8
    assert errors(caplog) == ["Reconcile failed"]
    await clock.advance(5)
    assert errors(caplog) == ["Reconcile failed"] * 4


async def test_a_reconciler_whose_own_task_was_cancelled_is_retried(shop: Workshop, clock: VirtualClock) -> None:
    tries: list[int] = []

    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        tries.append(ctx.attempt)
        if ctx.attempt == 1:
            inner = asyncio.create_task(asyncio.sleep(3600))
            inner.cancel()
            await inner

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    await clock.advance(1)
    assert tries == [1, 2]


async def test_a_conflict_is_retried_soon_and_is_not_an_error(
    shop: Workshop, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[float] = []

    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        tries.append(clock.monotonic())
        if len(tries) < 3:
            raise Conflict("changed")

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    await clock.advance(1)
    first, second, third = tries
    assert first == 0
    assert 0.0025 <= second <= 0.005  # jitter: two writers that collided should not collide again
    assert 0.005 <= third - second <= 0.01
    assert [each for each in caplog.records if each.levelno > logging.INFO] == []
    assert shop.told.outcomes == [Outcome.REQUEUE, Outcome.REQUEUE, Outcome.SUCCESS]
    assert shop.told.failures == []


async def test_a_namespace_that_is_being_deleted_is_not_an_error(
    shop: Workshop, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        raise in_a_deleted_namespace()

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    await clock.advance(1)
    assert [each for each in caplog.records if each.levelno > logging.INFO] == []
    assert set(shop.told.outcomes) == {Outcome.REQUEUE}
    assert shop.told.failures == []


async def test_a_namespace_that_was_deleted_with_the_object_is_not_an_error(
    shop: Workshop, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    missing = NAMESPACE

    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        raise NotFound(f'namespaces "{missing}" not found', details=StatusDetails(name=missing, kind="namespaces"))

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    await clock.advance(1)
    assert shop.told.outcomes == [Outcome.SUCCESS]
    missing = "another"
    await shop.create(config_map("web-2"))
    await clock.advance(0)
    assert shop.told.outcomes[1] == Outcome.ERROR


async def test_conflicts_that_do_not_end_cause_warnings(
    shop: Workshop, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        raise Conflict("changed")

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    await clock.advance(1)
    warned = [each for each in caplog.records if each.msg == "Conflict found"]
    assert warned[0].fields["conflicts"] == 6  # type: ignore[attr-defined]


async def test_a_terminal_error_is_not_retried_until_something_changes(
    shop: Workshop, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[int] = []

    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        tries.append(ctx.attempt)
        raise TerminalError("spec.size cannot shrink")

    await shop.run(reconcile)
    obj = await shop.create(config_map("web"))
    await clock.advance(timedelta(days=1))
    assert tries == [1]
    assert errors(caplog) == ["Reconcile failed permanently"]
    assert shop.told.failures == [Failure.TERMINAL]
    obj.data["a"] = "b"
    await shop.admin.update(obj)
    await shop.settle()
    assert tries == [1, 1]


class Numbers(Object):
    """A ConfigMap class that declares numbers as data, so that no ConfigMap can be decoded."""

    __api__ = ConfigMap.__api__

    data: dict[str, int] = field(default_factory=dict)


async def test_an_object_that_cannot_be_decoded_is_reported_once_and_reconciled_when_it_is_fixed(
    shop: Workshop, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    @controller(Numbers, predicate=ours)
    async def reconcile(ctx: Context[Numbers]) -> None:
        seen.append(ctx.request.name)

    await shop.run(reconcile)
    bad = await shop.create(config_map("bad", a="one"))
    await shop.create(config_map("good"))
    await clock.advance(timedelta(days=1))
    assert seen == ["good"]
    assert errors(caplog) == ["Reconcile failed permanently"]
    assert "expected int, got str; it will be reconciled once it is fixed" in caplog.text
    bad.data.clear()
    await shop.admin.update(bad)
    await shop.settle()
    assert seen == ["good", "bad"]


async def test_a_delete_of_the_object_during_its_reconcile_is_not_an_error(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        await shop.admin.delete(ConfigMap, "web", namespace=NAMESPACE)
        ctx.object.data["a"] = "b"
        await ctx.client.update(ctx.object)

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    assert shop.told.failures == []
    assert errors(caplog) == []


async def test_another_object_that_is_missing_is_an_error(shop: Workshop) -> None:
    @controller(ConfigMap, predicate=ours, cached=[Secret], retry=Retry(backoff=Backoff(base=3600)))
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        await ctx.get(Secret, "web")

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    assert shop.told.failures == [Failure.ERROR]


async def test_a_reconcile_that_takes_too_long_is_cancelled_and_retried(
    shop: Workshop, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    cleaned_up: list[int] = []
    cancelled = asyncio.Event()

    @controller(
        ConfigMap,
        predicate=ours,
        timeout=0.001,
        retry=Retry(backoff=Backoff(base=3600)),
    )
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned_up.append(ctx.attempt)
            cancelled.set()

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    await asyncio.wait_for(cancelled.wait(), 10)
    await shop.settle()
    assert cleaned_up == [1]
    assert shop.told.failures == [Failure.TIMEOUT]
    assert "took longer than 0.001 s" in str([each.__dict__ for each in caplog.records])


async def test_a_timeout_inside_a_reconcile_is_not_a_timeout_of_the_reconcile(shop: Workshop) -> None:
    @controller(ConfigMap, predicate=ours, timeout=timedelta(hours=1), retry=Retry(backoff=Backoff(base=3600)))
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        raise TimeoutError("the database did not answer")

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    assert shop.told.failures == [Failure.ERROR]


async def test_the_only_error_of_a_task_group_is_handled_like_any_other(shop: Workshop) -> None:
    @controller(ConfigMap, predicate=ours, retry=Retry(backoff=Backoff(base=3600)))
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        raise ExceptionGroup("unhandled errors in a TaskGroup", [Conflict("changed")])

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    assert shop.told.outcomes == [Outcome.REQUEUE]


async def test_writes_are_retried_while_the_server_fails(shop: Workshop, clock: VirtualClock) -> None:
    @controller(ConfigMap, owns=[Secret], predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        await ctx.apply(secret("child"))

    def unavailable(request: HTTPRequest) -> Response | None:
        return Response(503, body=b"away") if request.method == "PATCH" else None

    await shop.run(reconcile)
    shop.spoil = unavailable
    await shop.create(config_map("web"))
    assert shop.told.outcomes == [Outcome.ERROR]
    shop.spoil = lambda request: None
    await clock.advance(1)
    await shop.admin.get(Secret, "child", namespace=NAMESPACE)
    assert shop.told.outcomes[1] is Outcome.SUCCESS


async def test_a_conflict_is_retried_within_a_second_and_is_not_a_failure(shop: Workshop, clock: VirtualClock) -> None:
    attempts: list[int] = []

    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        attempts.append(ctx.attempt)
        raise Conflict("changed")

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    for _ in range(60):
        await clock.advance(1)
    assert len(attempts) >= 60
    assert set(attempts) == {1}


def in_a_deleted_namespace() -> Forbidden:
    cause = StatusCause("NamespaceTerminating", "namespace default is being terminated", "metadata.namespace")
    return Forbidden("because it is being terminated", details=StatusDetails(causes=(cause,)))


async def test_a_controller_can_stop_when_the_namespace_is_deleted(shop: Workshop, clock: VirtualClock) -> None:
    @controller(ConfigMap, predicate=ours, namespace_ending="stop")
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        raise ExceptionGroup("unhandled errors in a TaskGroup", [in_a_deleted_namespace()])

    loop = await shop.run(reconcile)
    await shop.create(config_map("web"))
    await clock.advance(3600)
    assert shop.told.outcomes == [Outcome.SUCCESS]
    assert shop.told.failures == []
    assert loop.queue.known == 0


async def test_a_child_of_another_owner_is_reported_and_retried_with_growing_delays(
    shop: Workshop, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[tuple[str, float]] = []

    @controller(ConfigMap, owns=[Secret], predicate=ours, retry=Retry(backoff=Backoff(base=1)))
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        tries.append((ctx.request.name, clock.monotonic()))
        await ctx.apply(secret("shared"))

    await shop.run(reconcile)
    first = await shop.create(config_map("first"))
    await shop.create(config_map("second"))
    writes = len(shop.sent)
    await clock.advance(20)
    assert [at for name, at in tries if name == "second"] == [0, 1, 3, 7, 15]
    assert len(shop.sent) == writes
    notes = {event for event in shop.events if event.startswith("Warning AlreadyOwned")}
    assert len(notes) == 1  # always the same text, so it makes one series of Events and one condition
    assert 'Secret "default/shared" is controlled by ConfigMap "first"' in notes.pop()
    assert [each.exc_info for each in caplog.records if each.msg == "Reconcile failed"] == [None] * 5
    await shop.admin.delete(first)
    await shop.admin.delete(Secret, "shared", namespace=NAMESPACE)
    await clock.advance(20)
    child = await shop.admin.get(Secret, "shared", namespace=NAMESPACE)
    assert child.metadata.owner_references[0].name == "second"


async def test_an_object_whose_reconciles_keep_failing_gets_a_warning_event_until_one_succeeds(
    shop: Workshop, clock: VirtualClock
) -> None:
    broken = True

    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        if broken:
            _ = 1 / 0

    loop = await shop.run(reconcile)
    await shop.create(config_map("web"))
    await clock.advance(0.5)
    assert shop.events == []  # a short failure is nobody's business but the log's
    await clock.advance(60)
    assert set(shop.events) == {'Warning ReconcileFailed ConfigMap "web": ZeroDivisionError: division by zero'}
    assert len(shop.events) < 10
    broken = False
    await clock.advance(1000)
    assert shop.events[-1] == 'Normal ReconcileSucceeded ConfigMap "web": Reconciled, after attempts that failed'
    assert loop.queue.known == 0


async def test_a_permanent_failure_is_a_warning_event_immediately(shop: Workshop, clock: VirtualClock) -> None:
    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        if ctx.object.data["text"] == "wrong":
            raise TerminalError("the text is wrong")

    await shop.run(reconcile)
    web = await shop.create(config_map("web", text="wrong"))
    assert shop.events == ['Warning ReconcileFailed ConfigMap "web": TerminalError: the text is wrong']
    await shop.admin.patch(web, MergePatch({"data": {"text": "right"}}))
    await clock.advance(1)
    assert shop.events[1:] == ['Normal ReconcileSucceeded ConfigMap "web": Reconciled, after attempts that failed']


async def test_a_role_that_the_controller_may_not_bind_is_one_short_line_with_advice(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    rules = "\n".join('{APIGroups:["apps"], Resources:["deployments"], Verbs:["get"]}' for _ in range(40))
    message = f'rolebindings "team" is forbidden: attempting to grant RBAC permissions not currently held:\n{rules}'

    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        raise Forbidden(message)

    loop = await shop.run(reconcile)
    await shop.create(config_map("web"))
    await shop.stop(loop)
    line: Any = next(each for each in caplog.records if each.msg == "Reconcile failed")
    assert line.fields["error"].endswith("attempting to grant RBAC permissions not currently held: 40 rules")
    assert 'resources=["clusterroles"], resource_names=[...], verbs=["bind"]' in line.fields["advice"]
