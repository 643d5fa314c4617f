"""Webhooks of a manager, as an API server calls them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from kubewright import CustomResource, Forbidden, Invalid, Manager, Model, ObjectMeta, field
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.apis.core.v1 import ConfigMap
from kubewright.client import Client, MergePatch
from kubewright.client._crds import until_established
from kubewright.machinery import fields
from kubewright.models import codec, custom_resource_definition
from kubewright.testing import Cluster, eventually
from kubewright.webhooks import (
    AdmissionContext,
    Conversion,
    FieldError,
    Spoke,
    Webhook,
    defaulter,
    validator,
)


class GateSpec(Model):
    width: int | None = None
    height: int = 1
    tags: list[str] = []  # noqa: RUF012 - models copy the lists that are their defaults


class Gate(CustomResource, group="webhooks.example.com", version="v1"):
    spec: GateSpec = field(default_factory=GateSpec)


class GateV1Alpha1Spec(Model):
    size: int = 1


class GateV1Alpha1(CustomResource, group="webhooks.example.com", version="v1alpha1", kind="Gate", storage=False):
    spec: GateV1Alpha1Spec = field(default_factory=GateV1Alpha1Spec)


def to_v1(old: GateV1Alpha1) -> Gate:
    return Gate(spec=GateSpec(width=old.spec.size))


def from_v1(new: Gate) -> GateV1Alpha1:
    return GateV1Alpha1(spec=GateV1Alpha1Spec(size=new.spec.width or 1))


@defaulter(Gate, match_conditions={"not-left-alone": "object.metadata.name != 'left-alone'"})
def set_width(ctx: AdmissionContext[Gate]) -> None:
    if ctx.object.spec.width is None:
        ctx.object.spec.width = ctx.object.spec.height * 2


@validator(Gate, operations=["CREATE", "UPDATE", "DELETE"], cached=[ConfigMap])
async def check(ctx: AdmissionContext[Gate]) -> list[FieldError]:
    if ctx.operation == "DELETE":
        if "keep" in ctx.object.metadata.labels:
            raise Forbidden("it is kept")
        return []
    ctx.warn(f"a gate by {ctx.user.name}")
    limits = await ctx.get_or_none(ConfigMap, "limits")
    most = int(limits.data["width"]) if limits is not None else 10
    if (ctx.object.spec.width or 0) > most:
        return [fields.invalid("spec.width", ctx.object.spec.width, f"must be at most {most}")]
    return []


CONVERSION = Conversion(Gate, Spoke(GateV1Alpha1, convert_to=to_v1, convert_from=from_v1))
WEBHOOKS: list[Webhook] = [set_width, check, CONVERSION]


@pytest_asyncio.fixture
async def serving(cluster: Cluster) -> AsyncIterator[Client]:
    """Yield a client of a cluster whose webhooks a manager of this process serves."""
    crd = codec.from_dict(CustomResourceDefinition, custom_resource_definition(Gate, GateV1Alpha1))
    await cluster.client.apply(crd)
    await until_established(cluster.client, crd.metadata.name)
    async with Manager(webhooks=WEBHOOKS, name="gates", config=cluster.config):
        yield cluster.client
    await cluster.client.delete(CustomResourceDefinition, crd.metadata.name)
    await cluster.client.wait_until_gone(CustomResourceDefinition, crd.metadata.name)


def gate(name: str, namespace: str, **spec: Any) -> Gate:
    return Gate(metadata=ObjectMeta(name=name, namespace=namespace), spec=GateSpec(**spec))


async def test_an_api_server_calls_the_webhooks_of_a_manager(serving: Client, namespace: str) -> None:
    created = await serving.create(gate("wide", namespace, height=3, tags=["a"]))
    assert created.spec == GateSpec(width=6, height=3, tags=["a"])
    left_alone = await serving.create(gate("left-alone", namespace))
    assert left_alone.spec.width is None

    with pytest.raises(Invalid) as caught:
        await serving.create(gate("big", namespace, height=6))
    name = check.name
    assert str(caught.value) == (
        f'admission webhook "{name}" denied the request: Gate.webhooks.example.com "big" is invalid: '
        f"spec.width: Invalid value: 12: must be at most 10"
    )
    assert caught.value.causes[0].field == "spec.width"

    await serving.patch(created, MergePatch({"metadata": {"labels": {"keep": ""}}}))
    with pytest.raises(Forbidden, match="it is kept"):
        await serving.delete(created)
    await serving.patch(created, MergePatch({"metadata": {"labels": None}}))

    old = await serving.get(GateV1Alpha1, "wide", namespace=namespace)
    assert old.spec.size == 6
    old.spec.size = 4
    await serving.update(old)
    now = await serving.get(Gate, "wide", namespace=namespace)
    assert now.spec == GateSpec(width=4, height=3, tags=["a"])
    assert not now.metadata.annotations
    listed = await serving.list(GateV1Alpha1, namespace=namespace)
    assert sorted(each.spec.size for each in listed) == [1, 4]

    await serving.create(ConfigMap(metadata=ObjectMeta(name="limits", namespace=namespace), data={"width": "100"}))

    async def allowed() -> None:
        await serving.create(gate("big", namespace, height=6))

    await eventually(allowed)
