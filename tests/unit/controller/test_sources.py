"""Sources other than watches, and rate limits of retries."""

import logging
from datetime import timedelta

import pytest

from kubewright.apis.core.v1 import ConfigMap, Secret
from kubewright.cache import Entry
from kubewright.client._patch import MergePatch
from kubewright.controllers import Backoff, Context, RateLimit, Request, Retry, Watch, controller
from kubewright.controllers._reconcile import Failure
from kubewright.controllers.predicates import AnyEvent, Predicate
from kubewright.controllers.sources import Every, Polling
from kubewright.machinery.errors import ConfigError

from .workshop import NAMESPACE, Workshop, config_map, secret

ours = Predicate(lambda event: event.key.name.startswith("web"))


async def test_a_timer_requests_every_object_or_those_that_it_chooses(shop: Workshop) -> None:
    seen: list[str] = []
    chosen = Every(timedelta(seconds=25), lambda objects: [Request(NAMESPACE, "web-b")] if len(objects) else [])

    @controller(ConfigMap, predicate=ours, sources=[Every(timedelta(seconds=10)), chosen])
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        if ctx.request.name.startswith("web"):
            seen.append(ctx.request.name)

    await shop.run(reconcile)
    await shop.create(config_map("web-a"))
    await shop.create(config_map("web-b"))
    seen.clear()
    await shop.clock.advance(10)
    assert sorted(seen) == ["web-a", "web-b"]
    await shop.clock.advance(10)
    assert sorted(seen) == ["web-a", "web-a", "web-b", "web-b"]
    seen.clear()
    await shop.clock.advance(5)
    assert seen == ["web-b"]


async def test_a_poll_requests_the_objects_whose_value_changed(shop: Workshop) -> None:
    outside: dict[Request, object] = {Request(NAMESPACE, "web"): "small", Request(NAMESPACE, "web-2"): "small"}
    seen: list[str] = []

    async def ask() -> dict[Request, object]:
        return dict(outside)

    @controller(ConfigMap, predicate=ours, sources=[Polling(timedelta(seconds=30), ask)])
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        seen.append(ctx.request.name)

    for name in ("web", "web-2"):
        await shop.create(config_map(name))
    await shop.run(reconcile)
    seen.clear()
    await shop.clock.advance(30)
    assert seen == []
    outside[Request(NAMESPACE, "web")] = "large"
    await shop.clock.advance(30)
    assert seen == ["web"]
    del outside[Request(NAMESPACE, "web-2")]
    await shop.clock.advance(30)
    assert seen == ["web", "web-2"]


async def test_a_poll_that_fails_is_logged_and_the_next_one_finds_what_changed(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[dict[Request, object] | None] = [{}, None, {Request(NAMESPACE, "web"): 1}]
    seen: list[str] = []

    async def ask() -> dict[Request, object]:
        answer = answers.pop(0) if answers else {Request(NAMESPACE, "web"): 1}
        if answer is None:
            raise OSError("the cloud is down")
        return answer

    @controller(ConfigMap, predicate=ours, sources=[Polling(timedelta(seconds=30), ask)])
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        seen.append(ctx.request.name)

    await shop.create(config_map("web"))
    await shop.run(reconcile)
    seen.clear()
    await shop.clock.advance(30)
    (line,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert (line.msg, line.__dict__["fields"]["error"]) == ("Poll failed", "OSError: the cloud is down")
    await shop.clock.advance(60)
    assert seen == ["web"]


async def test_polling_ends_with_the_controller(shop: Workshop) -> None:
    polls: list[float] = []

    async def ask() -> dict[Request, object]:
        polls.append(shop.clock.monotonic())
        return {}

    @controller(ConfigMap, predicate=ours, sources=[Polling(timedelta(seconds=30), ask), Every(timedelta(seconds=1))])
    async def reconcile(ctx: Context[ConfigMap]) -> None: ...

    loop = await shop.run(reconcile)
    await shop.clock.advance(60)
    await shop.stop(loop)
    await shop.clock.advance(60)
    assert polls == [0, 30, 60]


async def test_a_watch_by_index_reconciles_the_objects_that_refer_to_what_changed(shop: Workshop) -> None:
    seen: list[str] = []

    @controller(
        ConfigMap,
        predicate=ours,
        indexers={"secret": lambda each: each.data.get("secrets", "").split(",")},
        watches=[Watch.indexed(Secret, "secret")],
    )
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        seen.append(ctx.request.name)

    await shop.run(reconcile)
    await shop.create(config_map("web-a", secrets="blue"))
    await shop.create(config_map("web-b", secrets="red,default/blue"))
    await shop.create(config_map("web-c", secrets="red,other/blue"))
    seen.clear()
    await shop.create(secret("blue"))
    assert sorted(seen) == ["web-a", "web-b"]
    seen.clear()
    await shop.admin.patch(ConfigMap, MergePatch({"data": {"secrets": "red"}}), name="web-a", namespace=NAMESPACE)
    await shop.settle()
    seen.clear()
    await shop.admin.delete(Secret, "blue", namespace=NAMESPACE)
    await shop.settle()
    assert seen == ["web-b"]


async def test_a_watch_by_index_can_look_up_labels_of_the_changed_object(shop: Workshop) -> None:
    seen: list[str] = []
    asked: list[str] = []

    def ask(event: AnyEvent) -> bool:
        asked.append(event.key.name)
        return event.type != "delete"

    @controller(
        ConfigMap,
        predicate=ours,
        indexers={"colour": lambda each: [each.data.get("colour", "")]},
        watches=[Watch.indexed(Secret, "colour", values=colour_of, predicate=Predicate(ask))],
    )
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        seen.append(ctx.request.name)

    await shop.run(reconcile)
    await shop.create(config_map("web-a", colour="red"))
    await shop.create(config_map("web-b", colour="blue"))
    seen.clear()
    await shop.create(secret("nobody", colour="green"))
    await shop.create(secret("other", tier="red"))
    assert (seen, asked) == ([], [])
    await shop.create(secret("paint", colour="red"))
    assert (seen, asked) == (["web-a"], ["paint"])
    seen.clear()
    patch = MergePatch({"metadata": {"labels": {"colour": "blue"}}})
    await shop.admin.patch(Secret, patch, name="paint", namespace=NAMESPACE)
    await shop.settle()
    assert sorted(seen) == ["web-a", "web-b"]
    seen.clear()
    await shop.admin.delete(Secret, "paint", namespace=NAMESPACE)
    await shop.settle()
    assert (seen, asked[-1]) == ([], "paint")


def colour_of(secret: Entry[Secret]) -> list[str]:
    return [value for key, value in secret.labels.items() if key == "colour"]


def test_a_watch_by_an_index_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match=r'Watch\.indexed\(Secret, "secret"\) names no index of this controller'):
        controller(ConfigMap, watches=[Watch.indexed(Secret, "secret")])


async def test_retries_of_many_objects_pass_no_faster_than_the_rate_limit(shop: Workshop) -> None:
    tries: list[float] = []

    @controller(
        ConfigMap,
        predicate=ours,
        retry=Retry(
            backoff=Backoff(base=timedelta(milliseconds=1), limit=timedelta(milliseconds=1)),
            rate_limit=RateLimit(per_second=1, burst=5),
        ),
    )
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        tries.append(shop.clock.monotonic())
        raise OSError("the cloud is down")

    for number in range(10):
        await shop.create(config_map(f"web-{number}"))
    await shop.run(reconcile)
    tries.clear()
    await shop.clock.advance(60)
    assert 60 <= len(tries) <= 66


async def test_a_request_is_not_retried_after_its_last_attempt_until_something_changes(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[tuple[int, bool]] = []

    @controller(ConfigMap, predicate=ours, retry=Retry(backoff=Backoff(base=1, attempts=3)))
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        tries.append((ctx.attempt, ctx.is_last_attempt))
        raise OSError("the cloud is down")

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    await shop.clock.advance(3600)
    assert tries == [(1, False), (2, False), (3, True)]
    messages = [each.msg for each in caplog.records if each.levelno == logging.ERROR]
    assert messages == ["Reconcile failed", "Reconcile failed", "Reconcile failed permanently"]
    assert shop.told.failures == [Failure.ERROR] * 3
    await shop.admin.patch(ConfigMap, MergePatch({"data": {"a": "1"}}), name="web", namespace=NAMESPACE)
    await shop.settle()
    assert tries[3] == (1, False)
