"""An apply never takes a child from another owner."""

import pytest

from kubewright.apis.core.v1 import ConfigMap, Namespace, Secret
from kubewright.apis.meta.v1 import ObjectMeta, OwnerReference, owner_reference
from kubewright.apis.rbac.v1 import ClusterRole
from kubewright.client._patch import MergePatch
from kubewright.controllers import Context, Controller, controller
from kubewright.controllers._reconcile import Failure
from kubewright.controllers.predicates import Predicate
from kubewright.http.message import Request, Response
from kubewright.machinery.errors import AlreadyOwnedError, ConfigError, NotFound
from kubewright.testing._faults import failure

from .workshop import NAMESPACE, Workshop, config_map, secret

webs = Predicate(lambda event: event.key.name.startswith("web") and event.new is not None)

APPLY = ("PATCH", "/api/v1/namespaces/default/secrets/child")


def applies_child(*, adopt: bool = False, create_only: bool = False) -> Controller[ConfigMap]:
    """Return a controller whose ConfigMaps each apply the Secret "child" with their own name as a label."""

    @controller(ConfigMap, owns=[Secret], predicate=webs)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        child = secret("child", owner=ctx.request.name)
        await ctx.apply(child, adopt=adopt, create_only=create_only)

    return reconcile


async def child_of(shop: Workshop) -> Secret:
    return await shop.admin.get(Secret, "child", namespace=NAMESPACE)


def owner_names(child: Secret) -> list[str]:
    return [each.name for each in child.metadata.owner_references]


def other_owner() -> OwnerReference:
    return OwnerReference(api_version="v1", kind="ConfigMap", name="other", uid="uid-of-other", controller=True)


async def create_owned_by_other(shop: Workshop) -> Secret:
    child = secret("child", owner="other")
    child.metadata.owner_references = [other_owner()]
    return await shop.admin.create(child)


async def test_a_child_of_another_object_is_left_alone(shop: Workshop, caplog: pytest.LogCaptureFixture) -> None:
    before = await create_owned_by_other(shop)
    await shop.run(applies_child(adopt=True))
    await shop.create(config_map("web"))
    assert await child_of(shop) == before
    assert shop.sent == []
    assert shop.told.failures == [Failure.ERROR]
    (line,) = [each for each in caplog.records if each.msg == "Reconcile failed"]
    assert vars(line)["fields"]["error"] == (
        'AlreadyOwnedError: Secret "default/child" is controlled by ConfigMap "other", so ConfigMap "web" cannot '
        "control it as well. Give the child another name, or delete the other owner or its child"
    )
    assert line.exc_info is None


async def test_a_child_that_nothing_controls_is_left_alone(shop: Workshop) -> None:
    before = await shop.admin.create(secret("child", made="by-hand"))
    await shop.run(applies_child())
    await shop.create(config_map("web"))
    assert await child_of(shop) == before
    assert shop.sent == []
    assert shop.told.failures == [Failure.ERROR]


async def test_a_child_that_this_operator_wrote_without_an_owner_is_named_as_such(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    @controller(ConfigMap, writes=[Secret], predicate=webs)
    async def before(ctx: Context[ConfigMap]) -> None:
        await ctx.apply(secret("child"))

    await shop.create(config_map("web"))
    await shop.stop(await shop.run(before))
    await shop.run(applies_child())
    (line,) = [each for each in caplog.records if each.msg == "Reconcile failed"]
    assert vars(line)["fields"]["error"] == (
        'AlreadyOwnedError: Secret "default/child" exists and has no controlling owner, so ConfigMap "web" does not '
        "take it over. This operator wrote it before without an owner, probably before Secret was in owns. Adopt it "
        "with ctx.apply(child, adopt=True)"
    )


async def test_a_child_that_nothing_controls_can_be_adopted(shop: Workshop) -> None:
    await shop.admin.create(secret("child", made="by-hand"))
    await shop.run(applies_child(adopt=True))
    await shop.create(config_map("web"))
    child = await child_of(shop)
    assert owner_names(child) == ["web"]
    assert child.metadata.labels == {"made": "by-hand", "owner": "web"}
    assert shop.sent == [APPLY]


async def test_two_objects_that_want_one_child_do_not_fight(shop: Workshop) -> None:
    await shop.run(applies_child())
    await shop.create(config_map("web1"))
    await shop.create(config_map("web2"))
    first = await child_of(shop)
    await shop.clock.advance(60)
    assert await child_of(shop) == first
    assert owner_names(first) == ["web1"]
    assert shop.sent == [APPLY]
    assert shop.told.loops == 0
    assert 1 < len(shop.told.failures) < 20  # the reconcile is retried with a backoff


async def test_the_other_object_gets_the_child_when_it_becomes_free(shop: Workshop) -> None:
    await shop.run(applies_child())
    web1 = await shop.create(config_map("web1"))
    await shop.create(config_map("web2"))
    await shop.admin.delete(web1)
    await shop.admin.delete(await child_of(shop))  # as the garbage collector does
    await shop.clock.advance(60)
    assert owner_names(await child_of(shop)) == ["web2"]


async def test_a_refused_apply_is_recorded_as_an_event_as_long_as_it_is_refused(shop: Workshop) -> None:
    await create_owned_by_other(shop)
    await shop.run(applies_child())
    await shop.create(config_map("web"))
    first = shop.events[0]
    assert first.startswith('Warning AlreadyOwned ConfigMap "web": Secret "default/child" is controlled by')
    shop.events.clear()
    await shop.clock.advance(3600)  # the server has deleted the first Event
    assert set(shop.events) == {first}


async def test_a_child_created_while_the_cache_lags_is_left_alone(shop: Workshop) -> None:
    async def rival(request: Request) -> None:
        await create_owned_by_other(shop)

    await shop.run(applies_child())
    shop.meanwhile = rival
    await shop.create(config_map("web"))
    assert owner_names(await child_of(shop)) == ["other"]
    assert shop.sent == [APPLY]
    assert shop.told.failures == [Failure.ERROR]


async def test_a_child_made_by_hand_while_the_cache_lags_can_be_adopted(shop: Workshop) -> None:
    async def by_hand(request: Request) -> None:
        await shop.admin.create(secret("child", made="by-hand"))

    await shop.run(applies_child(adopt=True))
    shop.meanwhile = by_hand
    await shop.create(config_map("web"))
    child = await child_of(shop)
    assert owner_names(child) == ["web"]
    assert child.metadata.labels == {"made": "by-hand", "owner": "web"}
    assert shop.told.failures == []


async def test_of_two_creators_at_the_same_time_one_gets_the_child(shop: Workshop) -> None:
    await shop.run(applies_child())
    await shop.admin.create(config_map("web1"))
    await shop.admin.create(config_map("web2"))
    await shop.settle()
    child = await child_of(shop)
    (owner,) = owner_names(child)
    assert child.metadata.labels == {"owner": owner}
    assert shop.told.failures == [Failure.ERROR]


@pytest.mark.parametrize("exists", [True, False])
async def test_an_apply_that_meets_a_conflict_costs_one_request(shop: Workshop, exists: bool) -> None:
    seen: list[tuple[str, str]] = []

    def conflicting(request: Request) -> Response | None:
        if not request.path.startswith(APPLY[1]):
            return None
        seen.append((request.method, request.path))
        return failure(409, "Conflict") if len(seen) == 1 else None

    if exists:
        await shop.run(applies_child())
        await shop.create(config_map("web"))
        shop.spoil = conflicting
        await shop.admin.patch(await child_of(shop), MergePatch({"metadata": {"labels": {"owner": "someone"}}}))
        await shop.settle()
    else:
        shop.spoil = conflicting
        await shop.run(applies_child())
        await shop.create(config_map("web"))
    await shop.clock.advance(60)
    assert seen == [APPLY, APPLY]
    assert (await child_of(shop)).metadata.labels == {"owner": "web"}
    assert shop.told.failures == []  # a conflict is retried and not an error


async def test_a_child_deleted_before_the_write_is_created_again(shop: Workshop) -> None:
    await shop.run(applies_child())
    await shop.create(config_map("web"))
    first = await child_of(shop)

    async def delete(request: Request) -> None:
        await shop.admin.delete(first)

    shop.meanwhile = delete
    await shop.admin.patch(first, MergePatch({"metadata": {"labels": {"owner": "someone"}}}))
    await shop.settle()
    again = await child_of(shop)
    assert again.metadata.uid != first.metadata.uid
    assert owner_names(again) == ["web"]
    assert shop.told.failures == []


async def test_a_child_deleted_and_made_by_another_before_the_write_is_left_alone(shop: Workshop) -> None:
    await shop.run(applies_child())
    await shop.create(config_map("web"))
    first = await child_of(shop)

    async def replace(request: Request) -> None:
        await shop.admin.delete(first)
        await create_owned_by_other(shop)

    shop.meanwhile = replace
    await shop.admin.patch(first, MergePatch({"metadata": {"labels": {"owner": "someone"}}}))
    await shop.settle()
    child = await child_of(shop)
    assert owner_names(child) == ["other"]
    assert child.metadata.labels == {"owner": "other"}
    assert set(shop.told.failures) == {Failure.ERROR}


async def test_a_child_handed_to_another_owner_before_the_write_is_left_alone(shop: Workshop) -> None:
    await shop.run(applies_child())
    await shop.create(config_map("web"))
    first = await child_of(shop)

    async def hand_over(request: Request) -> None:
        references = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "o", "controller": True}]
        await shop.admin.patch(first, MergePatch({"metadata": {"ownerReferences": references}}))

    shop.meanwhile = hand_over
    await shop.admin.patch(first, MergePatch({"metadata": {"labels": {"owner": "someone"}}}))
    await shop.settle()
    child = await child_of(shop)
    assert owner_names(child) == ["other"]
    assert child.metadata.labels == {"owner": "someone"}
    assert set(shop.told.failures) == {Failure.ERROR}


async def test_an_operator_that_died_right_after_the_create_keeps_its_child(shop: Workshop) -> None:
    def lose_answer(request: Request) -> Response | None:
        if request.method == "PATCH":
            shop.spoil = lambda request: None
            return Response(500, {}, b"the answer was lost")
        return None

    async def carry_out(request: Request) -> None:
        child = secret("child", owner="web")
        child.metadata.owner_references = [owner_reference(await shop.admin.get(ConfigMap, "web", namespace=NAMESPACE))]
        await shop.admin.apply(child, field_manager="operator")

    first = await shop.run(applies_child())
    shop.meanwhile, shop.spoil = carry_out, lose_answer
    await shop.create(config_map("web"))
    await shop.stop(first)
    shop.sent.clear()
    await shop.run(applies_child())
    assert owner_names(await child_of(shop)) == ["web"]
    assert shop.sent == []


async def test_a_write_that_the_cache_does_not_show_yet_counts(shop: Workshop) -> None:
    refused: list[str] = []

    @controller(ConfigMap, owns=[Secret], predicate=webs)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        await ctx.apply(secret("child", owner="web"))
        await ctx.apply(secret("child", owner="web", step="2"))
        other = secret("child")
        other.metadata.owner_references = [other_owner()]
        try:
            await ctx.client.apply(other)
            await ctx.apply(secret("child", owner="web", step="3"))
        except AlreadyOwnedError as error:
            refused.append(error.controller)

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    assert refused[0] == "other"


async def test_an_apply_that_may_only_create_leaves_a_child_that_exists(shop: Workshop) -> None:
    results: list[dict[str, str]] = []

    @controller(ConfigMap, owns=[Secret], predicate=webs)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        made = await ctx.apply(secret("child", password=str(len(results))), create_only=True)
        results.append(made.metadata.labels)

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    await shop.admin.patch(await child_of(shop), MergePatch({"metadata": {"labels": {"more": "yes"}}}))
    await shop.settle()
    assert results[0] == {"password": "0"}
    assert results[-1] == {"password": "0", "more": "yes"}
    assert shop.sent == [APPLY]


async def test_an_apply_that_may_only_create_respects_the_owner_too(shop: Workshop) -> None:
    before = await create_owned_by_other(shop)
    await shop.run(applies_child(create_only=True))
    await shop.create(config_map("web"))
    assert shop.told.failures == [Failure.ERROR]
    assert await child_of(shop) == before


async def test_an_apply_that_may_only_create_returns_an_uncontrolled_object_if_it_may_be_adopted(
    shop: Workshop,
) -> None:
    before = await shop.admin.create(secret("child", made="by-hand"))
    await shop.run(applies_child(create_only=True, adopt=True))
    await shop.create(config_map("web"))
    assert shop.told.failures == []
    assert await child_of(shop) == before


async def test_a_child_of_a_kind_that_is_not_owned_is_created_only_once(shop: Workshop) -> None:
    results: list[dict[str, str]] = []

    @controller(ConfigMap, writes=[Secret], predicate=webs)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        for number in "12":
            made = await ctx.apply(secret("child", number=number), create_only=True)
            results.append(made.metadata.labels)

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    assert results == [{"number": "1"}, {"number": "1"}]


async def test_a_kind_that_is_not_owned_is_applied_whatever_its_owner(shop: Workshop) -> None:
    await create_owned_by_other(shop)

    @controller(ConfigMap, writes=[Secret], predicate=webs)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        await ctx.apply(secret("child", shared="yes"))

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    child = await child_of(shop)
    assert owner_names(child) == ["other"]
    assert child.metadata.labels == {"owner": "other", "shared": "yes"}


async def test_a_controlling_owner_that_the_child_names_counts_for_kinds_that_are_not_owned(shop: Workshop) -> None:
    await create_owned_by_other(shop)

    @controller(ConfigMap, writes=[Secret], predicate=webs)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        child = secret("child")
        child.metadata.owner_references = [owner_reference(ctx.object)]
        await ctx.apply(child)

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    assert shop.told.failures == [Failure.ERROR]
    assert owner_names(await child_of(shop)) == ["other"]


async def test_a_cluster_scoped_object_owns_children_in_any_namespace(shop: Workshop) -> None:
    @controller(Namespace, owns=[Secret], predicate=webs)
    async def reconcile(ctx: Context[Namespace]) -> None:
        await ctx.apply(Secret(metadata=ObjectMeta(name="child", namespace=NAMESPACE), type="Opaque"))

    await shop.run(reconcile)
    await shop.create(Namespace(metadata=ObjectMeta(name="web")))
    assert owner_names(await child_of(shop)) == ["web"]


async def test_a_namespaced_object_owns_nothing_that_is_cluster_scoped(shop: Workshop) -> None:
    raised: list[str] = []

    @controller(ConfigMap, owns=[ClusterRole], predicate=webs)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        with pytest.raises(ConfigError) as caught:
            await ctx.apply(ClusterRole(metadata=ObjectMeta(name="child")))
        raised.append(str(caught.value))

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    expected = 'ConfigMap "default/web" cannot own ClusterRole "child": an owner must be in the namespace of its child'
    assert raised[0].startswith(expected)
    with pytest.raises(NotFound):
        await shop.admin.get(ClusterRole, "child")
