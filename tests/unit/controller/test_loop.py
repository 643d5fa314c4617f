"""What leads to a reconcile, and what becomes of one."""

import asyncio
import logging
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from kubewright.apis.core.v1 import ConfigMap, Secret
from kubewright.cache import Lister
from kubewright.controller import Backoff, Channel, Context, Request, Result, Watch, controller
from kubewright.controller.outcome import Failure, Outcome
from kubewright.controller.predicates import Predicate, labels_changed
from kubewright.http.message import Request as HTTPRequest
from kubewright.http.message import Response
from kubewright.machinery.clock import VirtualClock
from kubewright.machinery.errors import Conflict, Forbidden, NotFound, StatusCause, StatusDetails, TerminalError
from kubewright.models import Object, field

from .workshop import NAMESPACE, Workshop, config_map, secret

ours = Predicate(lambda event: event.key.namespace == NAMESPACE and event.key.name != "kube-root-ca.crt")
"""Leaves out what a cluster has of its own."""


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.msg for each in caplog.records if each.levelno >= logging.ERROR]


async def test_what_exists_at_the_start_and_what_comes_later_is_reconciled(shop: Workshop) -> None:
    seen: list[str] = []

    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        seen.append(f"{ctx.request} {ctx.object.data}")

    await shop.create(config_map("early", a="1"))
    await shop.run(reconcile)
    await shop.create(config_map("late", a="2"))
    assert seen == ["default/early {'a': '1'}", "default/late {'a': '2'}"]


async def test_a_change_of_an_owned_object_reconciles_its_controlling_owner(shop: Workshop) -> None:
    seen: list[str] = []

    @controller(ConfigMap, owns=[Secret], predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        seen.append(ctx.request.name)
        await ctx.apply(secret(f"{ctx.request.name}-child"))

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    await shop.create(secret("nobodys"))
    seen.clear()
    await shop.admin.apply(secret("web-child", colour="blue"))
    await shop.settle()
    assert seen == ["web"]


async def test_an_owned_object_that_is_deleted_by_hand_comes_back(shop: Workshop) -> None:
    @controller(ConfigMap, owns=[Secret], predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        await ctx.apply(secret("child"))

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    first = await shop.admin.get(Secret, "child", namespace=NAMESPACE)
    await shop.admin.delete(first)
    await shop.settle()
    again = await shop.admin.get(Secret, "child", namespace=NAMESPACE)
    assert again.metadata.uid != first.metadata.uid


async def test_a_watched_object_reconciles_whom_the_map_function_names(shop: Workshop) -> None:
    seen: list[str] = []

    def users(changed: Secret, maps: Lister[ConfigMap]) -> Iterable[Request]:
        return [
            Request(each.metadata.namespace, each.metadata.name)
            for each in maps.list(namespace=NAMESPACE)
            if each.data.get("secret") == changed.metadata.name
        ]

    @controller(ConfigMap, watches=[Watch(Secret, map=users)], predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        seen.append(ctx.request.name)

    for name, used in (("a", "key"), ("b", "other"), ("c", "key")):
        await shop.create(config_map(name, secret=used))
    await shop.run(reconcile)
    seen.clear()
    await shop.create(secret("key"))
    assert seen == ["a", "c"]


async def test_a_map_function_that_raises_costs_that_event_alone(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    def users(changed: Secret, maps: Lister[ConfigMap]) -> Iterable[Request]:
        if changed.metadata.name == "bad":
            raise KeyError("what?")
        return [Request(NAMESPACE, "web")]

    @controller(ConfigMap, watches=[Watch(Secret, map=users)], predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        seen.append(ctx.request.name)

    await shop.create(config_map("web"))
    await shop.run(reconcile)
    seen.clear()
    await shop.create(secret("bad"))
    assert seen == []
    await shop.create(secret("good"))
    assert seen == ["web"]
    assert errors(caplog) == ["Event not handled"]


async def test_an_event_that_the_predicate_turns_down_leads_to_nothing(shop: Workshop) -> None:
    seen: list[dict[str, str]] = []

    @controller(ConfigMap, predicate=ours & labels_changed)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        seen.append(ctx.object.data)

    await shop.run(reconcile)
    obj = await shop.create(config_map("web", n="0"))
    obj.data["n"] = "1"
    obj = await shop.admin.update(obj)
    await shop.settle()
    assert seen == [{"n": "0"}]
    obj.metadata.labels["team"] = "a"
    await shop.admin.update(obj)
    await shop.settle()
    assert seen == [{"n": "0"}, {"n": "1"}]


async def test_a_channel_asks_for_reconciles_from_elsewhere(shop: Workshop) -> None:
    seen: list[str] = []
    doorbell = Channel()

    @controller(ConfigMap, predicate=ours, sources=[doorbell])
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        seen.append(ctx.request.name)

    doorbell.send(Request(NAMESPACE, "web"))  # nobody listens yet
    await shop.create(config_map("web"))
    await shop.run(reconcile)
    seen.clear()
    doorbell.send(Request(NAMESPACE, "web"))
    await shop.settle()
    assert seen == ["web"]


async def test_a_result_with_requeue_after_brings_the_object_back_then(shop: Workshop, clock: VirtualClock) -> None:
    times: list[float] = []

    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> Result:
        times.append(clock.monotonic())
        return Result(requeue_after=timedelta(seconds=10))

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    await clock.advance(25)
    assert times == [0, 10, 20]
    assert shop.told.outcomes == [Outcome.REQUEUE_AFTER] * 3


async def test_a_reconcile_that_raises_is_logged_and_comes_again_after_its_backoff(
    shop: Workshop, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[tuple[float, int]] = []

    @controller(ConfigMap, predicate=ours, backoff=Backoff(base=timedelta(seconds=1)))
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


async def test_what_is_no_result_is_a_mistake_that_is_named(shop: Workshop, caplog: pytest.LogCaptureFixture) -> None:
    async def look(ctx: Context[ConfigMap]) -> Any:
        return timedelta(seconds=5)

    loop = await shop.run(controller(ConfigMap, predicate=ours)(look))
    await shop.create(config_map("web"))
    await shop.stop(loop)
    assert shop.told.failures[0] is Failure.MISTAKE
    error = next(vars(each)["fields"]["error"] for each in caplog.records if each.levelno >= logging.ERROR)
    assert error == "TypeError: the reconciler returned datetime.timedelta(seconds=5); it returns None or a Result"


async def test_a_mistake_in_the_code_is_contained_and_logged_with_its_traceback(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    @controller(ConfigMap, predicate=ours, backoff=Backoff(base=timedelta(hours=1)))
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
    @controller(ConfigMap, predicate=ours, backoff=Backoff(base=timedelta(seconds=1)))
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


async def test_a_reconciler_whose_own_task_was_cancelled_is_tried_again(shop: Workshop, clock: VirtualClock) -> None:
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


async def test_a_conflict_is_tried_again_soon_and_is_no_error(
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
    assert 0.0025 <= second <= 0.005  # who met another by chance is not to meet it again
    assert 0.005 <= third - second <= 0.01
    assert [each for each in caplog.records if each.levelno > logging.INFO] == []
    assert shop.told.outcomes == [Outcome.REQUEUE, Outcome.REQUEUE, Outcome.SUCCESS]
    assert shop.told.failures == []


async def test_a_namespace_that_is_being_deleted_is_no_error(
    shop: Workshop, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        cause = StatusCause("NamespaceTerminating", "namespace default is being terminated", "metadata.namespace")
        raise Forbidden("because it is being terminated", details=StatusDetails(causes=(cause,)))

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    await clock.advance(1)
    assert [each for each in caplog.records if each.levelno > logging.INFO] == []
    assert set(shop.told.outcomes) == {Outcome.REQUEUE}
    assert shop.told.failures == []


async def test_a_namespace_that_is_gone_with_the_object_in_it_is_no_error(
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


async def test_conflicts_that_do_not_end_are_warned_of(
    shop: Workshop, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        raise Conflict("changed")

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    await clock.advance(1)
    warned = [each for each in caplog.records if each.msg == "Object changed meanwhile"]
    assert warned[0].fields["conflicts"] == 6  # type: ignore[attr-defined]


async def test_a_terminal_error_is_not_tried_again_until_something_changes(
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
    assert errors(caplog) == ["Reconcile failed for good"]
    assert shop.told.failures == [Failure.TERMINAL]
    obj.data["a"] = "b"
    await shop.admin.update(obj)
    await shop.settle()
    assert tries == [1, 1]


class Numbers(Object):
    """A ConfigMap whose data is numbers: not what any ConfigMap has."""

    __api__ = ConfigMap.__api__

    data: dict[str, int] = field(default_factory=dict)


async def test_an_object_that_is_not_of_its_kind_is_reported_once_and_reconciled_once_it_is_mended(
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
    assert errors(caplog) == ["Reconcile failed for good"]
    assert "expected int, got str; it is reconciled when it has been mended" in caplog.text
    bad.data.clear()
    await shop.admin.update(bad)
    await shop.settle()
    assert seen == ["good", "bad"]


async def test_the_object_itself_going_away_meanwhile_is_no_error(
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
    @controller(ConfigMap, predicate=ours, reads=[Secret], backoff=Backoff(base=timedelta(hours=1)))
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        await ctx.get(Secret, "web")

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    assert shop.told.failures == [Failure.ERROR]


async def test_a_reconcile_that_takes_too_long_is_cancelled_and_tried_again(
    shop: Workshop, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    cleaned_up: list[int] = []
    cancelled = asyncio.Event()

    @controller(ConfigMap, predicate=ours, timeout=timedelta(milliseconds=1), backoff=Backoff(base=timedelta(hours=1)))
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


async def test_a_timeout_of_something_inside_a_reconcile_is_not_the_reconciles(shop: Workshop) -> None:
    @controller(ConfigMap, predicate=ours, timeout=timedelta(hours=1), backoff=Backoff(base=timedelta(hours=1)))
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        raise TimeoutError("the database did not answer")

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    assert shop.told.failures == [Failure.ERROR]


async def test_the_only_failure_of_a_task_group_is_judged_for_itself(shop: Workshop) -> None:
    @controller(ConfigMap, predicate=ours, backoff=Backoff(base=timedelta(hours=1)))
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        raise ExceptionGroup("unhandled errors in a TaskGroup", [Conflict("changed")])

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    assert shop.told.outcomes == [Outcome.REQUEUE]


async def test_several_workers_work_side_by_side_but_never_on_one_object(shop: Workshop) -> None:
    at_work: set[str] = set()
    most = 0
    release = asyncio.Event()

    @controller(ConfigMap, predicate=ours, workers=3)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        nonlocal most
        assert ctx.request.name not in at_work
        at_work.add(ctx.request.name)
        most = max(most, len(at_work))
        await release.wait()
        at_work.discard(ctx.request.name)

    await shop.run(reconcile)
    for number in range(5):
        obj = await shop.create(config_map(f"m{number}"))
        obj.data["a"] = "b"
        await shop.admin.update(obj)
    await shop.settle()
    assert most == 3
    release.set()
    await shop.until(lambda: len(shop.told.outcomes) >= 8)
    assert shop.told.failures == []


async def test_an_object_does_not_wait_for_the_reconciles_of_others(shop: Workshop) -> None:
    begun: list[str] = []
    release = asyncio.Event()

    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        begun.append(ctx.request.name)
        await release.wait()

    await shop.run(reconcile)
    for name in ("a", "b", "c"):
        await shop.create(config_map(name))
    assert begun == ["a", "b", "c"]
    release.set()


async def test_an_object_that_is_gone_or_going_does_not_reach_the_function(shop: Workshop) -> None:
    seen: list[str] = []

    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        seen.append(ctx.request.name)

    await shop.run(reconcile)
    held = config_map("held")
    held.metadata.finalizers = ["example.com/somebody"]
    await shop.create(held)
    await shop.create(config_map("free"))
    seen.clear()
    for name in ("held", "free"):
        await shop.admin.delete(ConfigMap, name, namespace=NAMESPACE)
    await shop.settle()
    assert seen == []


async def test_a_controller_that_asks_for_them_sees_objects_that_are_gone_or_going(shop: Workshop) -> None:
    seen: list[tuple[str, bool]] = []

    @controller(ConfigMap, predicate=ours, deleted=True)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        seen.append((ctx.request.name, ctx.gone))
        if ctx.gone:
            with pytest.raises(NotFound, match="default/free"):
                _ = ctx.object

    await shop.run(reconcile)
    held = config_map("held")
    held.metadata.finalizers = ["example.com/somebody"]
    await shop.create(held)
    await shop.create(config_map("free"))
    seen.clear()
    for name in ("held", "free"):
        await shop.admin.delete(ConfigMap, name, namespace=NAMESPACE)
    await shop.settle()
    assert seen == [("held", False), ("free", True)]


async def test_a_graceful_stop_lets_what_runs_finish_and_begins_nothing(shop: Workshop) -> None:
    begun: list[str] = []
    ended: list[str] = []
    release = asyncio.Event()

    @controller(ConfigMap, predicate=ours, workers=1)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        begun.append(ctx.request.name)
        await release.wait()
        ended.append(ctx.request.name)

    loop = await shop.run(reconcile)
    await shop.create(config_map("a"))
    await shop.create(config_map("b"))
    task = await shop.stop(loop)
    assert not task.done()
    release.set()
    await task
    assert begun == ended == ["a"]


async def test_a_server_that_fails_for_a_while_is_tried_again(shop: Workshop, clock: VirtualClock) -> None:
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


def test_a_cluster_scoped_request_has_no_namespace() -> None:
    assert str(Request(None, "node-1")) == "node-1"
    assert str(Request("shop", "web")) == "shop/web"


async def test_a_conflict_comes_again_within_a_second_and_is_no_failure(shop: Workshop, clock: VirtualClock) -> None:
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
