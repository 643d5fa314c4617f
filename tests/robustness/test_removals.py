"""The kind or the namespace of an operator is deleted while it runs, and sometimes recreated."""

from __future__ import annotations

import logging

import pytest

from integration.gizmo_operator import Gizmo, reconcile
from kubewright import Context, ObjectMeta, controller
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.apis.core.v1 import ConfigMap, Namespace
from kubewright.models import codec, custom_resource_definition
from kubewright.testing import Cluster, gone
from robustness.gizmos import Gizmos, operated

DEFINITION = codec.from_dict(CustomResourceDefinition, custom_resource_definition(Gizmo))


async def test_a_namespace_that_is_deleted_under_load_causes_no_errors_elsewhere(
    cluster: Cluster, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    @controller(Gizmo, owns=[ConfigMap], workers=2)
    async def tell(ctx: Context[Gizmo]) -> None:
        ctx.events.normal(ctx.object, "Seen", f"at generation {ctx.object.metadata.generation}")
        await reconcile.reconcile(ctx)

    other = Namespace(metadata=ObjectMeta(name=f"{namespace}-2"))
    lasting, doomed = Gizmos(cluster.client, namespace), Gizmos(cluster.client, other.metadata.name)
    async with operated(cluster, namespace, [tell]) as (_, gate):
        await cluster.client.create(other)
        await lasting.populate()
        await doomed.populate()
        await doomed.shake()
        await lasting.shake()
        await cluster.client.delete(other)
        await gone(cluster.client.get, Namespace, other.metadata.name)
        await lasting.rest(gate)
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert said == []


async def test_a_kind_that_is_uninstalled_and_installed_again_is_reconciled(cluster: Cluster, namespace: str) -> None:
    gizmos = Gizmos(cluster.client, namespace)
    async with operated(cluster, namespace, [reconcile]) as (_, gate):
        await gizmos.populate()
        await cluster.client.delete(CustomResourceDefinition, DEFINITION.metadata.name)
        await gone(cluster.client.get, CustomResourceDefinition, DEFINITION.metadata.name)
        await cluster.install(Gizmo)
        await gizmos.take_stock()
        assert gizmos.wanted == {}
        await gizmos.populate()
        await gizmos.rest(gate)
