"""Controllers whose author promises that one pass is enough: their own writes lead to no further reconcile."""

import asyncio
import json
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from kubewright.apis.apps.v1 import Deployment, DeploymentSpec, DeploymentStatus
from kubewright.apis.core.v1 import ConfigMap, Container, PodSpec, PodTemplateSpec, Service, ServicePort, ServiceSpec
from kubewright.apis.meta.v1 import LabelSelector, ObjectMeta
from kubewright.cache import Event, Informer
from kubewright.cache._entry import Entry
from kubewright.client._patch import MergePatch
from kubewright.controllers import Context, Controller, Request, Watch, controller
from kubewright.controllers._onepass import OwnEvents
from kubewright.controllers._reconcile import Attempt
from kubewright.controllers.sources import Channel
from kubewright.http.message import Request as HTTPRequest
from kubewright.http.message import Response
from kubewright.machinery.errors import TerminalError

from .workshop import NAMESPACE, Workshop, config_map, ours


def deployment(name: str = "web", replicas: int = 1) -> Deployment:
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels={"app": name}), spec=PodSpec(containers=[Container(name="web", image="nginx")])
    )
    spec = DeploymentSpec(replicas=replicas, selector=LabelSelector(match_labels={"app": name}), template=template)
    return Deployment(metadata=ObjectMeta(name=name, namespace=NAMESPACE), spec=spec)


class Passes:
    """A controller of Deployments that writes a ConfigMap and the status, and counts its reconciles."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.errors: list[Exception] = []
        """The errors with which the next reconciles end after their writes."""
        self.work: Callable[[Context[Deployment]], object] = lambda ctx: None
        self.channel = Channel()

    async def reconcile(self, ctx: Context[Deployment]) -> None:
        self.seen.append(ctx.request.name)
        replicas = ctx.object.spec.replicas if ctx.object.spec is not None else 0
        await ctx.apply(config_map(f"{ctx.request.name}-child", replicas=str(replicas)))
        await ctx.update_status(DeploymentStatus(replicas=replicas, observed_generation=ctx.object.metadata.generation))
        done = self.work(ctx)
        if asyncio.iscoroutine(done):
            await done
        if self.errors:
            raise self.errors.pop(0)

    @property
    def controller(self) -> Controller[Deployment]:
        return controller(Deployment, owns=[ConfigMap], sources=[self.channel], one_pass=True)(self)

    def taken(self) -> int:
        """Return the number of reconciles since the last call."""
        count = len(self.seen)
        self.seen.clear()
        return count


@pytest.fixture
def passes() -> Passes:
    return Passes()


async def test_own_writes_lead_to_no_reconcile(shop: Workshop, passes: Passes) -> None:
    await shop.run(passes.controller)
    await shop.create(deployment())
    assert passes.taken() == 1
    await shop.admin.patch(deployment(), MergePatch({"spec": {"replicas": 3}}))
    await shop.settle()
    assert passes.taken() == 1
    child = await shop.admin.get(ConfigMap, "web-child", namespace=NAMESPACE)
    web = await shop.admin.get(Deployment, "web", namespace=NAMESPACE)
    assert child.data == {"replicas": "3"}
    assert web.status.replicas == 3


async def test_without_the_promise_they_do(shop: Workshop, passes: Passes) -> None:
    await shop.run(controller(Deployment, owns=[ConfigMap])(passes))
    await shop.create(deployment())
    assert passes.taken() > 1


async def test_changes_of_others_lead_to_a_reconcile(shop: Workshop, passes: Passes) -> None:
    await shop.run(passes.controller)
    await shop.create(deployment())
    passes.taken()
    child = await shop.admin.get(ConfigMap, "web-child", namespace=NAMESPACE)
    await shop.admin.patch(child, MergePatch({"metadata": {"labels": {"by": "hand"}}}))
    await shop.settle()
    assert passes.taken() == 1
    await shop.admin.patch(child, MergePatch({"data": {"replicas": "9"}}))
    await shop.settle()
    assert passes.taken() == 1, "the repair of the child leads to no second reconcile"
    assert (await shop.admin.get(ConfigMap, "web-child", namespace=NAMESPACE)).data == {"replicas": "1"}
    await shop.admin.delete(child)
    await shop.settle()
    assert passes.taken() == 1
    assert (await shop.admin.get(ConfigMap, "web-child", namespace=NAMESPACE)).data == {"replicas": "1"}


async def test_a_change_during_the_reconcile_leads_to_another_one(shop: Workshop, passes: Passes) -> None:
    async def meanwhile(ctx: Context[Deployment]) -> None:
        if len(passes.seen) == 1:
            await shop.admin.patch(deployment(), MergePatch({"spec": {"replicas": 5}}))

    passes.work = meanwhile
    await shop.run(passes.controller)
    await shop.create(deployment())
    assert passes.taken() == 2
    assert (await shop.admin.get(Deployment, "web", namespace=NAMESPACE)).status.replicas == 5


async def test_a_change_between_two_own_writes_leads_to_another_one(shop: Workshop, passes: Passes) -> None:
    async def meanwhile(request: HTTPRequest) -> None:
        await shop.admin.patch(deployment(), MergePatch({"metadata": {"annotations": {"a": "b"}}}))

    async def before_the_status(request: HTTPRequest) -> None:
        shop.meanwhile = meanwhile

    await shop.run(passes.controller)
    shop.meanwhile = before_the_status
    await shop.create(deployment())
    assert passes.taken() == 2


@pytest.mark.parametrize("error", [OSError("the cloud is down"), TerminalError("spec.size cannot shrink")])
async def test_the_writes_of_a_failed_reconcile_count_as_foreign(
    shop: Workshop, passes: Passes, error: Exception
) -> None:
    await shop.run(passes.controller)
    passes.errors = [error]
    await shop.create(deployment())
    assert passes.taken() == 2


async def test_requests_of_sources_are_never_left_out(shop: Workshop, passes: Passes) -> None:
    async def ask(ctx: Context[Deployment]) -> None:
        if len(passes.seen) == 1:
            passes.channel.send(ctx.request)

    passes.work = ask
    await shop.run(passes.controller)
    await shop.create(deployment())
    assert passes.taken() == 2


def about(what: str, change: Callable[[Response], Response]) -> Callable[[HTTPRequest, Response], Response]:
    """Return a function that changes the answers to writes whose path contains `what`."""
    return lambda request, response: change(response) if what in request.path else response


@pytest.mark.parametrize("what", ["configmaps", "status"])
async def test_a_write_whose_answer_was_lost_leads_to_a_reconcile(shop: Workshop, passes: Passes, what: str) -> None:
    def lose(response: Response) -> Response:
        shop.answered = lambda request, response: response
        return Response(504)

    await shop.run(passes.controller)
    shop.answered = about(what, lose)
    await shop.create(deployment())
    assert passes.taken() == 2
    assert (await shop.admin.get(Deployment, "web", namespace=NAMESPACE)).status.replicas == 1


@pytest.mark.parametrize(
    ("what", "field", "value"),
    [
        ("configmaps", "data", {"replicas": "one"}),
        ("configmaps", "data", {"replicas": "1", "added": ""}),
        ("configmaps", "immutable", False),
        ("configmaps", "data", {}),
        ("status", "status", {"observedGeneration": 1}),
        ("status", "status", {"observedGeneration": 1, "replicas": 2}),
    ],
)
async def test_an_answer_that_differs_from_what_was_sent_leads_to_a_reconcile(
    shop: Workshop, passes: Passes, what: str, field: str, value: object
) -> None:
    def mutate(response: Response) -> Response:
        assert isinstance(response.body, bytes)
        return replace(response, body=json.dumps(json.loads(response.body) | {field: value}).encode())

    await shop.run(passes.controller)
    shop.answered = about(what, mutate)
    await shop.create(deployment())
    assert passes.taken() == 2


@pytest.mark.parametrize("what", ["configmaps", "status"])
async def test_a_field_that_the_class_does_not_declare_leads_to_no_reconcile(
    shop: Workshop, passes: Passes, what: str
) -> None:
    def extend(response: Response) -> Response:
        assert isinstance(response.body, bytes)
        document = json.loads(response.body)
        document.setdefault("status", {})["undeclared"] = "x"
        return replace(response, body=json.dumps(document).encode())

    await shop.run(passes.controller)
    shop.answered = about(what, extend)
    await shop.create(deployment())
    assert passes.taken() == 1


async def test_an_answer_with_defaults_leads_to_a_reconcile(shop: Workshop) -> None:
    seen: list[str] = []

    @controller(ConfigMap, owns=[Service], predicate=ours, one_pass=True)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        seen.append(ctx.request.name)
        meta = ObjectMeta(name=ctx.request.name, namespace=NAMESPACE)
        port = int(ctx.object.data["port"])
        await ctx.apply(Service(metadata=meta, spec=ServiceSpec(ports=[ServicePort(port=port)])))

    await shop.run(reconcile)
    await shop.create(config_map("web", port="80"))
    assert len(seen) == 2, "the server adds clusterIP, targetPort and others"
    seen.clear()
    await shop.admin.patch(config_map("web"), MergePatch({"data": {"port": "80", "other": "1"}}))
    await shop.settle()
    assert len(seen) == 1


async def test_a_reconcile_that_deletes_an_object_succeeds(shop: Workshop) -> None:
    seen: list[str] = []

    @controller(Deployment, owns=[ConfigMap], one_pass=True)
    async def reconcile(ctx: Context[Deployment]) -> None:
        await ctx.delete(note)
        seen.append(ctx.request.name)

    await shop.run(reconcile)
    note = await shop.admin.create(config_map("note"))
    await shop.create(deployment())
    assert seen == ["web"]
    assert await shop.admin.get_or_none(ConfigMap, "note", namespace=NAMESPACE) is None


async def test_an_object_that_another_object_maps_to_is_reconciled(shop: Workshop) -> None:
    seen: list[str] = []

    def everyone(child: ConfigMap, mine: object) -> list[Request]:
        return [Request(NAMESPACE, "a"), Request(NAMESPACE, "b")]

    @controller(
        Deployment, writes=[ConfigMap], watches=[Watch.mapped(ConfigMap, everyone, predicate=ours)], one_pass=True
    )
    async def reconcile(ctx: Context[Deployment]) -> None:
        seen.append(ctx.request.name)
        await ctx.apply(config_map(f"{ctx.request.name}-note", a=ctx.request.name))

    await shop.run(reconcile)
    await shop.create(deployment("a"))
    seen.clear()
    await shop.create(deployment("b"))
    assert sorted(seen) == ["a", "b"], "a sees the write of b, and b does not see its own"


@pytest.mark.parametrize("watched", [True, False])
async def test_an_event_that_may_stand_for_several_changes_leads_to_a_reconcile(shop: Workshop, watched: bool) -> None:
    key = Request(NAMESPACE, "web")
    informer = Informer(shop.admin, ConfigMap)
    own = OwnEvents()
    own.listen(informer)
    attempt = Attempt(key, 1, ())
    own.begin(attempt)
    assert attempt.written is not None
    attempt.written.add((ConfigMap, key, 7))
    attempt.succeeded = True
    own.end(attempt)
    entry = Entry(ConfigMap, key, "uid", 7, 1, {}, (), False, b"{}", None)
    event = Event("add", key, None, entry, watched=watched)
    assert own.writer_of(ConfigMap, event) == (key if watched else None)
    assert own.writer_of(ConfigMap, event) is None


async def test_a_fresh_start_reconciles_everything(shop: Workshop, passes: Passes) -> None:
    loop = await shop.run(passes.controller)
    await shop.create(deployment())
    await shop.stop(loop)
    passes.taken()
    await shop.run(passes.controller)
    assert passes.taken() == 1


async def test_nothing_is_kept_about_events_that_arrived(shop: Workshop, passes: Passes) -> None:
    loop = await shop.run(passes.controller)
    assert loop.own_events is not None
    for number in range(10):
        await shop.create(deployment(f"web-{number}"))
    assert passes.taken() == 10
    assert loop.queue.known == 0
    assert loop.own_events.expected == 0
    await shop.admin.delete_all_of(Deployment, namespace=NAMESPACE)
    await shop.settle()
    assert loop.queue.known == 0
    assert loop.own_events.expected == 0
