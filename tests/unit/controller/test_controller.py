"""Declarations of controllers: valid and invalid ones, and the derived rules."""

import asyncio
import sys
from datetime import timedelta
from typing import Any

import pytest

from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import ConfigMap, Node, Secret, Service
from kubewright.cache import Informer
from kubewright.controllers import (
    Backoff,
    Context,
    DeletedContext,
    Finalizer,
    QueueClosed,
    Request,
    Result,
    Watch,
    WorkQueue,
    controller,
)
from kubewright.machinery.errors import ConfigError
from kubewright.models import CustomResource, Model, PolicyRule, cluster_role, field

from .workshop import Workshop, config_map


async def reconcile(ctx: Context[Deployment]) -> Result | None:
    """Does nothing."""
    return None


class ShopStatus(Model):
    open: bool = False


class Shop(CustomResource, group="example.com", version="v1"):
    status: ShopStatus = field(default_factory=ShopStatus)


class Note(CustomResource, group="example.com", version="v1"):
    """A kind without a status."""


async def reconcile_note(ctx: Context[Note]) -> None:
    """Does nothing."""


async def reconcile_shop(ctx: Context[Shop]) -> None:
    """Does nothing."""


class Keeper:
    def __init__(self) -> None:
        self.kept = 0

    async def reconcile(self, ctx: Context[Deployment]) -> None:
        self.kept += 1

    async def release(self, ctx: Context[Deployment]) -> None:
        self.kept -= 1


keep = Finalizer("example.com/keep", Keeper().release)


def rules_of(*rules: PolicyRule) -> list[dict[str, list[str]]]:
    found: list[dict[str, list[str]]] = cluster_role("manager", rules)["rules"]
    return found


def test_a_controller_is_named_after_its_kind_unless_it_says_otherwise() -> None:
    assert controller(Deployment)(reconcile).name == "deployment"
    assert controller(Deployment, name="scaler")(reconcile).name == "scaler"


def test_a_reconciler_with_state_is_an_object_with_a_reconcile_method() -> None:
    keeper = Keeper()
    assert controller(Deployment)(keeper).reconcile == keeper.reconcile


def test_the_reconciled_kind_may_be_read_and_its_status_written() -> None:
    assert rules_of(*controller(Shop)(reconcile_shop).rbac_rules()) == [
        {"apiGroups": ["example.com"], "resources": ["shops"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["example.com"], "resources": ["shops/status"], "verbs": ["get", "patch", "update"]},
    ]


@pytest.mark.parametrize(
    "declared",
    [
        {"owns": [Shop]},
        {"writes": [Shop]},
        {"cached": [Shop]},
        {"watches": [Watch.mapped(Shop, lambda changed, deployments: ())]},
    ],
    ids=lambda declared: next(iter(declared)),
)
def test_the_status_of_a_kind_that_is_only_read_or_applied_needs_no_permission(declared: dict[str, Any]) -> None:
    made = controller(Deployment, **declared)(reconcile)
    assert "shops" in (granted := [name for rule in rules_of(*made.rbac_rules()) for name in rule["resources"]])
    assert "shops/status" not in granted


def test_a_kind_without_a_status_needs_no_permissions_for_it() -> None:
    made = controller(Note)(reconcile_note)
    assert [rule["resources"] for rule in rules_of(*made.rbac_rules())] == [["notes"]]


def test_a_built_in_kind_is_only_read_unless_more_is_declared() -> None:
    reading = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "watch"]}
    assert rules_of(*controller(Deployment)(reconcile).rbac_rules()) == [reading]
    status = PolicyRule(api_groups=["apps"], resources=["deployments/status"], verbs=["patch"])
    assert rules_of(*controller(Deployment, rules=[status])(reconcile).rbac_rules()) == [
        reading,
        {"apiGroups": ["apps"], "resources": ["deployments/status"], "verbs": ["patch"]},
    ]


def test_a_controller_that_owns_objects_may_block_the_deletion_of_the_owner() -> None:
    blocking = {"apiGroups": ["apps"], "resources": ["deployments/finalizers"], "verbs": ["update"]}
    assert blocking in rules_of(*controller(Deployment, owns=[Service])(reconcile).rbac_rules())
    assert blocking not in rules_of(*controller(Deployment, finalizer=keep)(reconcile).rbac_rules())


def test_a_finalizer_needs_the_permission_to_write_the_object() -> None:
    made = controller(Deployment, finalizer=keep)(reconcile)
    (rule,) = [each for each in rules_of(*made.rbac_rules()) if each["resources"] == ["deployments"]]
    assert rule["verbs"] == ["get", "list", "patch", "update", "watch"]


def test_rules_follow_from_the_declared_kinds() -> None:
    extra = PolicyRule(api_groups=["metrics.k8s.io"], resources=["pods"], verbs=["get"])
    made = controller(
        Deployment,
        owns=[Service],
        watches=[Watch.mapped(ConfigMap, lambda changed, deployments: ())],
        cached=[Node],
        writes=[Secret],
        rules=[extra],
    )(reconcile)
    every = ["create", "delete", "get", "list", "patch", "update", "watch"]
    rules = rules_of(*made.rbac_rules())
    assert {"apiGroups": [""], "resources": ["secrets", "services"], "verbs": every} in rules
    assert {"apiGroups": [""], "resources": ["configmaps", "nodes"], "verbs": ["get", "list", "watch"]} in rules
    assert {"apiGroups": ["metrics.k8s.io"], "resources": ["pods"], "verbs": ["get"]} in rules


def test_wrong_declarations_are_refused_with_a_hint() -> None:
    def not_async(ctx: Context[Deployment]) -> None:
        """Is not async."""

    async def of_two(ctx: Context[Deployment], more: int) -> None:
        """Has a second argument."""

    with pytest.raises(ConfigError, match=r"of_two is called with one argument, the context; write async def"):
        controller(Deployment)(of_two)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"@controller takes the kind that reconcile reconciles: write @controller\("):
        controller(reconcile)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="not_async is not an async function; write async def"):
        controller(Deployment)(not_async)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="Keeper is a class; make a controller from an instance of it"):
        controller(Deployment)(Keeper)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="not_async is not an async function; write async def"):
        controller(Deployment, finalizer=Finalizer("example.com/keep", not_async))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="workers must be at least 1, got 0"):
        controller(Deployment, workers=0)
    with pytest.raises(ConfigError, match="timeout must be positive, got 0 s"):
        controller(Deployment, timeout=0)
    with pytest.raises(ConfigError, match="debounce must not be negative, got -1 s"):
        controller(Deployment, debounce=timedelta(seconds=-1))


@pytest.mark.skipif(sys.version_info < (3, 14), reason="older Pythons evaluate annotations when they define a function")
def test_annotations_may_name_what_is_imported_for_type_checkers_only() -> None:
    code = "async def reconcile(ctx: Context[Shop]) -> None: ..."  # as in a module without Context
    names: dict[str, Any] = {}
    exec(compile(code, "operator.py", "exec", dont_inherit=True), names)
    assert controller(Shop)(names["reconcile"]).reconcile is names["reconcile"]
    assert controller(Shop, reconcile_deleted=True)(names["reconcile"]).reconcile_deleted is names["reconcile"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"owns": ConfigMap}, r"owns takes a list of kinds, got the class ConfigMap: write owns=\[ConfigMap\]"),
        ({"owns": ["Secret"]}, r"owns takes a list of kinds, got 'Secret': write owns=\[Secret\]"),
        ({"owns": [Secret()]}, r"owns takes a list of kinds, got a Secret: write owns=\[Secret\]"),
        ({"cached": "Secret"}, r"cached takes a list of kinds, got 'Secret': write cached=\[Secret\]"),
        ({"writes": [ShopStatus]}, r"writes takes a list of kinds, got the class ShopStatus"),
        (
            {"watches": [ConfigMap]},
            r"watches takes a list of watches, got the class ConfigMap: write "
            r"watches=\[Watch.mapped\(ConfigMap, function\)\], or cached=\[ConfigMap\]",
        ),
        (
            {"finalizer": "n.example.com/x"},
            r"finalizer takes a Finalizer, got 'n.example.com/x': write finalizer=Finalizer\(",
        ),
        ({"retry": Backoff()}, r"retry takes a Retry, got a Backoff: write retry=Retry\("),
        ({"delete_fuse": 5}, r"delete_fuse takes a DeleteFuse, got 5"),
        ({"workers": "4"}, "workers must be at least 1, got '4'"),
    ],
)
def test_an_argument_of_another_type_is_refused_with_what_to_write(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"controller for Deployment: {message}"):
        controller(Deployment, **arguments)


def test_a_duration_that_is_neither_a_number_nor_a_timedelta_is_refused() -> None:
    with pytest.raises(TypeError, match="timeout must be a number of seconds or a timedelta, got '5'"):
        controller(Deployment, timeout="5")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Result: requeue_after must be a number of seconds or a timedelta, got '10'"):
        Result(requeue_after="10")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="Result: requeue_after must not be negative, got -1 s"):
        Result(requeue_after=-1)


def test_a_finalizer_without_a_domain_is_refused() -> None:
    with pytest.raises(ConfigError, match=r'Finalizer\("cleanup"\): .* such as "example\.com/cleanup"'):
        Finalizer("cleanup", reconcile)
    with pytest.raises(ConfigError, match=r"has the form domain/name"):
        Finalizer("example.com/", reconcile)


async def test_a_controller_can_be_built_from_informer_lister_and_queue(shop: Workshop) -> None:
    informer = Informer(shop.admin, ConfigMap, namespaces="default")
    queue = WorkQueue()
    informer.add_handler(
        on_add=lambda event: queue.add(Request(*event.key)), on_update=lambda event: queue.add(Request(*event.key))
    )
    synced: list[str] = []

    async def work() -> None:
        while True:
            try:
                async with queue.take() as request:
                    obj = informer.lister.get(request.name, request.namespace)
                    if obj is not None and obj.data:
                        synced.append(f"{request.name}: {obj.data}")
            except QueueClosed:
                return

    informer.start()
    await informer.wait_synced()
    worker = asyncio.create_task(work())
    await shop.create(config_map("web", colour="red"))
    assert synced == ["web: {'colour': 'red'}"]
    queue.close()
    await worker
    await informer.stop()


def test_a_function_for_deleted_objects_must_take_both_contexts() -> None:
    async def of_both(ctx: Context[Deployment] | DeletedContext[Deployment]) -> None:
        """Does nothing."""

    assert controller(Deployment, reconcile_deleted=True)(of_both).reconcile_deleted is of_both
    with pytest.raises(ConfigError, match=r"write ctx: Context\[Deployment\] \| DeletedContext\[Deployment\]"):
        controller(Deployment, reconcile_deleted=True)(reconcile)
