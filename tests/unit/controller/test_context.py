"""Reads and writes of a reconciler through its context."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, TypeVar

import msgspec
import pytest

from kubewright.apis.apps.v1 import Deployment, DeploymentSpec, DeploymentStatus
from kubewright.apis.autoscaling.v1 import Scale
from kubewright.apis.core.v1 import (
    ConfigMap,
    Container,
    Namespace,
    Node,
    Pod,
    PodSpec,
    PodTemplateSpec,
    Secret,
    Service,
    ServicePort,
    ServiceSpec,
)
from kubewright.apis.meta.v1 import LabelSelector, ObjectMeta
from kubewright.client._patch import MergePatch
from kubewright.controllers import Context, controller
from kubewright.controllers.predicates import Predicate
from kubewright.http.message import Request, Response
from kubewright.machinery.errors import ConfigError, Conflict, Invalid, NotFound, Status, StatusCause, StatusDetails
from kubewright.models import PolicyRule
from kubewright.testing._faults import failure

from .workshop import NAMESPACE, Workshop, config_map, secret

R = TypeVar("R")

only_web = Predicate(lambda event: event.key == (NAMESPACE, "web"))


async def within(shop: Workshop, work: Callable[[Context[ConfigMap]], Awaitable[R]]) -> R:
    """Return the result of `work` in a reconcile of ConfigMap web, which owns Secrets."""
    results: list[R] = []

    @controller(ConfigMap, owns=[Secret], predicate=only_web)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        if not results:
            results.append(await work(ctx))

    loop = await shop.run(reconcile)
    await shop.create(config_map("web"))
    await shop.stop(loop)
    assert shop.told.failures == []
    return results[0]


def deployment() -> Deployment:
    labels = {"app": "web"}
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[Container(name="web", image="nginx")])
    )
    return Deployment(
        metadata=ObjectMeta(name="web", namespace=NAMESPACE),
        spec=DeploymentSpec(replicas=1, selector=LabelSelector(match_labels=labels), template=template),
    )


async def test_the_time_comes_from_the_managers_clock(shop: Workshop) -> None:
    async def ask(ctx: Context[ConfigMap]) -> datetime:
        return ctx.clock.now()

    assert await within(shop, ask) == shop.clock.now()


async def test_an_applied_child_gets_the_namespace_and_the_controlling_owner(shop: Workshop) -> None:
    async def work(ctx: Context[ConfigMap]) -> Secret:
        return await ctx.apply(Secret(metadata=ObjectMeta(name="child"), type="Opaque"))

    child = await within(shop, work)
    web = await shop.admin.get(ConfigMap, "web", namespace=NAMESPACE)
    assert child.metadata.namespace == NAMESPACE
    (owner,) = child.metadata.owner_references
    assert (owner.kind, owner.name, owner.uid) == ("ConfigMap", "web", web.metadata.uid)
    assert owner.controller
    assert owner.block_owner_deletion


async def test_an_object_of_a_kind_that_is_not_owned_gets_no_owner(shop: Workshop) -> None:
    async def work(ctx: Context[ConfigMap]) -> ConfigMap:
        return await ctx.apply(config_map("other"))

    assert (await within(shop, work)).metadata.owner_references == []


async def test_an_apply_that_would_change_nothing_is_not_sent(shop: Workshop) -> None:
    async def work(ctx: Context[ConfigMap]) -> None:
        first = await ctx.apply(secret("child", a="1"))
        assert await ctx.get(Secret, "child") == first
        assert await ctx.apply(secret("child", a="1")) == first

    await within(shop, work)
    assert shop.sent == [("PATCH", "/api/v1/namespaces/default/secrets/child")]


async def test_after_a_restart_an_apply_that_would_change_nothing_is_not_sent(shop: Workshop) -> None:
    async def work(ctx: Context[ConfigMap]) -> Secret:
        return await ctx.apply(secret("child", a="1"))

    await within(shop, work)
    shop.sent.clear()

    @controller(ConfigMap, owns=[Secret], predicate=only_web)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        await work(ctx)

    await shop.run(reconcile)
    assert shop.told.outcomes[-1] == "success"
    assert shop.sent == []


async def test_a_changed_field_is_restored_and_an_added_field_stays(shop: Workshop) -> None:
    @controller(ConfigMap, owns=[Secret], predicate=only_web)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        await ctx.apply(secret("child", colour="red"))

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    patch = MergePatch({"metadata": {"labels": {"colour": "blue", "team": "a"}}})
    await shop.admin.patch(Secret, patch, name="child", namespace=NAMESPACE)
    await shop.settle()
    child = await shop.admin.get(Secret, "child", namespace=NAMESPACE)
    assert child.metadata.labels == {"colour": "red", "team": "a"}
    shop.sent.clear()
    await shop.settle()
    assert shop.sent == []


async def test_a_field_that_is_no_longer_applied_is_removed(shop: Workshop) -> None:
    labels = {"a": "1", "b": "2"}

    async def work(ctx: Context[ConfigMap]) -> Secret:
        await ctx.apply(secret("child", **labels))
        return await ctx.apply(secret("child", a="1"))

    assert (await within(shop, work)).metadata.labels == {"a": "1"}


async def test_an_owner_in_another_namespace_is_refused(shop: Workshop) -> None:
    await shop.create(Namespace(metadata=ObjectMeta(name="elsewhere")))
    child = Secret(metadata=ObjectMeta(name="child", namespace="elsewhere"), type="Opaque")

    async def work(ctx: Context[ConfigMap]) -> None:
        with pytest.raises(ConfigError, match=r'ConfigMap "default/web" cannot own Secret "elsewhere/child"'):
            await ctx.apply(child)

    await within(shop, work)


async def test_a_read_sees_what_this_process_just_wrote(shop: Workshop) -> None:
    async def work(ctx: Context[ConfigMap]) -> list[str]:
        await ctx.create(secret("one"))
        await ctx.apply(secret("two"))
        await ctx.patch(await ctx.get(Secret, "two"), MergePatch({"metadata": {"labels": {"seen": "yes"}}}))
        assert (await ctx.get(Secret, "two")).metadata.labels == {"seen": "yes"}
        await ctx.delete(await ctx.get(Secret, "one"))
        with pytest.raises(NotFound):
            await ctx.get(Secret, "one")
        return [each.metadata.name for each in await ctx.list(Secret)]

    assert await within(shop, work) == ["two"]


async def test_an_object_that_may_not_exist_can_be_read(shop: Workshop) -> None:
    async def work(ctx: Context[ConfigMap]) -> None:
        assert await ctx.get_or_none(Secret, "one") is None
        made = await ctx.create(secret("one"))
        assert await ctx.get_or_none(Secret, "one") == made
        assert await ctx.get_or_none(Secret, "one", namespace="elsewhere") is None
        await ctx.delete(made)
        assert await ctx.get_or_none(Secret, "one") is None
        assert await ctx.client.uncached.get_or_none(Secret, "one", namespace=NAMESPACE) is None

    await within(shop, work)


async def test_a_list_of_owned_objects_contains_no_others(shop: Workshop) -> None:
    await shop.create(secret("somebodys"))

    async def work(ctx: Context[ConfigMap]) -> tuple[list[str], list[str]]:
        await ctx.create(secret("mine"))
        owned, every = await ctx.list(Secret, owned=True), await ctx.list(Secret, namespace="")
        return [each.metadata.name for each in owned], [each.metadata.name for each in every]

    assert await within(shop, work) == (["mine"], ["mine", "somebodys"])


async def test_deleting_a_deleted_object_is_not_an_error(shop: Workshop) -> None:
    async def work(ctx: Context[ConfigMap]) -> None:
        child = await ctx.create(secret("child"))
        await ctx.delete(child)
        await ctx.delete(child)

    await within(shop, work)


async def test_a_newer_object_of_the_same_name_is_not_deleted(shop: Workshop) -> None:
    async def work(ctx: Context[ConfigMap]) -> str:
        child = await ctx.create(secret("one"))
        await shop.admin.delete(child)
        namesake = await shop.admin.create(secret("one"))
        with pytest.raises(Conflict):
            await ctx.delete(child)
        return namesake.metadata.uid

    uid = await within(shop, work)
    assert (await shop.admin.get(Secret, "one", namespace=NAMESPACE)).metadata.uid == uid


async def test_an_object_that_was_not_read_is_not_deleted(shop: Workshop) -> None:
    await shop.create(secret("somebodys"))

    async def work(ctx: Context[ConfigMap]) -> None:
        with pytest.raises(ConfigError, match='Secret "somebodys" has no uid'):
            await ctx.delete(secret("somebodys"))

    await within(shop, work)
    assert await shop.admin.get(Secret, "somebodys", namespace=NAMESPACE)


async def test_a_delete_can_require_an_unchanged_object(shop: Workshop) -> None:
    async def work(ctx: Context[ConfigMap]) -> None:
        idle = await ctx.create(secret("one"))
        busy = await shop.admin.patch(idle, MergePatch({"metadata": {"labels": {"in-use": "yes"}}}))
        with pytest.raises(Conflict):
            await ctx.delete(idle, if_unchanged=True)
        assert await shop.admin.get(Secret, "one", namespace=NAMESPACE) == busy
        await ctx.delete(busy, if_unchanged=True)
        with pytest.raises(NotFound):
            await shop.admin.get(Secret, "one", namespace=NAMESPACE)

    await within(shop, work)


async def test_an_undeclared_write_of_a_kind_is_reported_once(shop: Workshop, caplog: pytest.LogCaptureFixture) -> None:
    async def work(ctx: Context[ConfigMap]) -> None:
        await ctx.apply(secret("declared"))
        for name in ("one", "two"):
            await ctx.create(Service(metadata=ObjectMeta(name=name), spec=ServiceSpec(ports=[ServicePort(port=80)])))

    await within(shop, work)
    told = [vars(each)["fields"]["resource"] for each in caplog.records if each.msg == "Undeclared resource written"]
    assert told == ["services"]


async def test_a_document_in_place_of_an_object_is_refused_with_what_to_write(shop: Workshop) -> None:
    document: Any = {"kind": "Service", "metadata": {"name": "web"}}

    async def work(ctx: Context[ConfigMap]) -> None:
        for write in (ctx.apply, ctx.create, ctx.client.apply, ctx.client.create, ctx.client.update):
            with pytest.raises(TypeError, match=r"got a dict: write Service\(metadata=.*codec.from_dict\(Service, doc"):
                await write(document)
        service: Any = Service(metadata=document["metadata"])
        with pytest.raises(TypeError, match=r"Service.metadata takes ObjectMeta, got a dict: write metadata="):
            await ctx.apply(service)
        with pytest.raises(TypeError, match="got the class Service"):
            await ctx.apply(Service)  # type: ignore[type-var]

    await within(shop, work)


async def test_an_undeclared_read_is_reported_once_per_kind(shop: Workshop, caplog: pytest.LogCaptureFixture) -> None:
    @controller(
        ConfigMap,
        owns=[Secret],
        cached=[Service],
        rules=[PolicyRule(api_groups=["apps"], resources=["*"], verbs=["*"])],
        predicate=only_web,
    )
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        for declared in (ConfigMap, Secret, Service, Deployment):
            await ctx.get_or_none(declared, "one")
        for _ in range(2):
            await ctx.get_or_none(Pod, "one")
            await ctx.list(Node)

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    assert shop.told.failures == []
    found = [vars(each)["fields"] for each in caplog.records if each.msg == "Undeclared resource read"]
    assert [each["resource"] for each in found] == ["pods", "nodes"]
    assert "cached=[Pod]" in found[0]["advice"]


async def test_a_read_without_permission_names_the_declaration_that_grants_it(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    @controller(ConfigMap, predicate=only_web)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        await ctx.get_or_none(Pod, "one")

    def deny(request: Request) -> Response | None:
        return failure(403, "Forbidden", "pods is forbidden") if request.path.endswith("/pods") else None

    shop.spoil = deny
    await shop.run(reconcile)
    await shop.create(config_map("web"))
    line = next(vars(each)["fields"] for each in caplog.records if each.msg == "Reconcile failed")
    assert line["error"].startswith("ConfigError: Pod cannot be read: pods: ")
    assert "cached=[Pod]" in line["error"]


async def test_an_undeclared_write_of_a_status_is_reported(shop: Workshop, caplog: pytest.LogCaptureFixture) -> None:
    scale = PolicyRule(api_groups=["apps"], resources=["deployments/scale"], verbs=["update"])

    @controller(Deployment, owns=[Service], rules=[scale])
    async def reconcile(ctx: Context[Deployment]) -> None:
        await ctx.update_status(DeploymentStatus(replicas=1))
        await ctx.patch(ctx.object, MergePatch({"metadata": {"labels": {"seen": "yes"}}}))

    await shop.run(reconcile)
    await shop.create(deployment())
    told = [vars(each)["fields"]["resource"] for each in caplog.records if each.msg == "Undeclared resource written"]
    assert told == ["deployments.apps/status", "deployments.apps"]


async def test_an_undeclared_write_through_a_subresource_is_reported(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    await shop.create(deployment())

    async def work(ctx: Context[ConfigMap]) -> None:
        subresource = ctx.client.subresource(Deployment, "web", "scale", namespace=NAMESPACE)
        scale = await subresource.get(Scale)
        await subresource.update(scale)
        await subresource.patch(Scale, MergePatch({"spec": {"replicas": 2}}))

    await within(shop, work)
    reported = [
        vars(each)["fields"]["resource"] for each in caplog.records if each.msg == "Undeclared resource written"
    ]
    assert reported == ["deployments.apps/scale"]


async def test_a_kind_without_a_status_is_refused(shop: Workshop) -> None:
    async def work(ctx: Context[ConfigMap]) -> None:
        with pytest.raises(ConfigError, match="ConfigMap has no status subresource"):
            await ctx.update_status(DeploymentStatus(replicas=2))

    await within(shop, work)


async def test_a_status_is_written_as_a_whole_and_only_if_it_differs(shop: Workshop) -> None:
    written: list[Deployment] = []

    @controller(Deployment)
    async def reconcile(ctx: Context[Deployment]) -> None:
        await ctx.update_status(DeploymentStatus(replicas=2, ready_replicas=1))
        await ctx.update_status(DeploymentStatus(replicas=2, ready_replicas=1))
        if not written:
            written.append(await shop.admin.get(Deployment, "web", namespace=NAMESPACE))
            ctx.object.status.replicas = 3  # the caller owns the object; the patch is computed from the server's copy
            await ctx.update_status(ctx.object.status)

    await shop.run(reconcile)
    await shop.create(deployment())
    assert (written[0].status.replicas, written[0].status.ready_replicas) == (2, 1)
    now = await shop.admin.get(Deployment, "web", namespace=NAMESPACE)
    assert (now.status.replicas, now.status.ready_replicas) == (2, 1)
    assert shop.sent.count(("PATCH", "/apis/apps/v1/namespaces/default/deployments/web/status")) == 3


async def test_a_status_is_not_written_over_a_change_that_was_not_seen(shop: Workshop) -> None:
    refused: list[Conflict] = []

    @controller(Deployment)
    async def reconcile(ctx: Context[Deployment]) -> None:
        if not refused:
            await ctx.update_status(DeploymentStatus(replicas=1), if_unchanged=True)
            await ctx.update_status(DeploymentStatus(replicas=2), if_unchanged=True)
            await shop.admin.patch(Deployment, MergePatch({"spec": {"replicas": 5}}), name="web", namespace=NAMESPACE)
            with pytest.raises(Conflict) as conflict:
                await ctx.update_status(DeploymentStatus(replicas=3), if_unchanged=True)
            refused.append(conflict.value)

    await shop.run(reconcile)
    await shop.create(deployment())
    assert len(refused) == 1
    assert (await shop.admin.get(Deployment, "web", namespace=NAMESPACE)).status.replicas == 2


async def test_a_status_that_an_admission_policy_rejects_is_not_a_conflict(shop: Workshop) -> None:
    why = "ValidatingAdmissionPolicy 'few' with binding 'few' denied request: too many"
    details = StatusDetails(
        "web", "apps", "deployments", causes=(StatusCause(message=why),)
    )  # the message of a real API server
    refusal = Status(422, "Invalid", f'deployments.apps "web" is forbidden: {why}', details)
    refused: list[str] = []

    @controller(Deployment)
    async def reconcile(ctx: Context[Deployment]) -> None:
        with pytest.raises(Invalid) as error:
            await ctx.update_status(DeploymentStatus(replicas=7), if_unchanged=True)
        refused.append(str(error.value))

    answer = Response(422, body=msgspec.json.encode(refusal.to_dict()))
    shop.spoil = lambda request: answer if request.path.endswith("/status") else None
    await shop.run(reconcile)
    await shop.create(deployment())
    assert refused == [f'deployments.apps "web" is forbidden: {why}']


async def test_kinds_that_are_not_cached_are_read_from_the_server(shop: Workshop) -> None:
    await shop.create(secret("somebodys"))

    async def work(ctx: Context[ConfigMap]) -> list[str]:
        found = await ctx.client.uncached.list(Secret, namespace=NAMESPACE)
        await shop.admin.delete(found.items[0])
        with pytest.raises(NotFound):
            await ctx.client.uncached.get(Secret, "somebodys", namespace=NAMESPACE)
        return [each.metadata.name for each in found]

    assert await within(shop, work) == ["somebodys"]


async def test_a_log_line_names_its_object(shop: Workshop, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    async def work(ctx: Context[ConfigMap]) -> None:
        ctx.log.info("Seen", size=3)

    await within(shop, work)
    line = next(each for each in caplog.records if each.msg == "Seen")
    assert line.fields == {"controller": "configmap", "namespace": "default", "name": "web", "size": 3}  # type: ignore[attr-defined]
