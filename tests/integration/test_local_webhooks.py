"""A manager of this process registers its webhooks with the API server on this machine, without any setup."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from kubewright import ConfigError, CustomResource, Invalid, Manager, Model, ObjectMeta, field
from kubewright.apis.admissionregistration.v1 import (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.client import Config
from kubewright.client._crds import until_established
from kubewright.machinery import fields
from kubewright.models import codec, custom_resource_definition
from kubewright.testing import Cluster, eventually
from kubewright.webhooks import (
    AdmissionContext,
    Conversion,
    FieldError,
    LocalWebhooks,
    Spoke,
    Webhook,
    defaulter,
    validator,
)

GROUP = "local.webhooks.example.com"


class DoorSpec(Model):
    width: int | None = None
    height: int = 1


class Door(CustomResource, group=GROUP, version="v1"):
    spec: DoorSpec = field(default_factory=DoorSpec)


class DoorV1Alpha1Spec(Model):
    size: int = 1


class DoorV1Alpha1(CustomResource, group=GROUP, version="v1alpha1", kind="Door", storage=False):
    spec: DoorV1Alpha1Spec = field(default_factory=DoorV1Alpha1Spec)


def to_v1(old: DoorV1Alpha1) -> Door:
    return Door(spec=DoorSpec(width=old.spec.size))


def from_v1(new: Door) -> DoorV1Alpha1:
    return DoorV1Alpha1(spec=DoorV1Alpha1Spec(size=new.spec.width or 1))


@defaulter(Door)
def set_width(ctx: AdmissionContext[Door]) -> None:
    if ctx.object.spec.width is None:
        ctx.object.spec.width = ctx.object.spec.height * 2


@validator(Door)
def check(ctx: AdmissionContext[Door]) -> list[FieldError]:
    width = ctx.object.spec.width or 0
    return [fields.invalid("spec.width", width, "must be at most 10")] if width > 10 else []


CONVERSION = Conversion(Door, Spoke(DoorV1Alpha1, convert_to=to_v1, convert_from=from_v1))
WEBHOOKS: list[Webhook] = [set_width, check, CONVERSION]
CRD = f"doors.{GROUP}"


@pytest_asyncio.fixture
async def doors(cluster: Cluster) -> AsyncIterator[Cluster]:
    """The cluster with the CRD of doors, without a conversion."""
    crd = codec.from_dict(CustomResourceDefinition, custom_resource_definition(Door, DoorV1Alpha1))
    await cluster.client.apply(crd)
    await until_established(cluster.client, CRD)
    yield cluster
    await cluster.client.delete(CustomResourceDefinition, CRD)
    await cluster.client.wait_until_gone(CustomResourceDefinition, CRD)


def door(name: str, namespace: str, **spec: Any) -> Door:
    return Door(metadata=ObjectMeta(name=name, namespace=namespace), spec=DoorSpec(**spec))


async def registered(cluster: Cluster) -> list[str]:
    """Return the names of the configurations of local runs."""
    mutating = await cluster.client.list(MutatingWebhookConfiguration)
    validating = await cluster.client.list(ValidatingWebhookConfiguration)
    return [each.metadata.name for each in (*mutating, *validating) if ".local-" in each.metadata.name]


async def strategy(cluster: Cluster) -> str:
    crd = await cluster.client.get(CustomResourceDefinition, CRD)
    assert crd.spec.conversion is not None
    return crd.spec.conversion.strategy


async def test_a_manager_in_a_test_is_called_without_any_setup(doors: Cluster, namespace: str) -> None:
    client = doors.client
    async with Manager(webhooks=WEBHOOKS, name="doors", config=doors.config):
        created = await client.create(door("wide", namespace, height=3))
        assert created.spec == DoorSpec(width=6, height=3)
        with pytest.raises(Invalid, match=r"spec\.width: Invalid value: 12: must be at most 10"):
            await client.create(door("big", namespace, height=6))
        assert (await client.get(DoorV1Alpha1, "wide", namespace=namespace)).spec.size == 6
    assert await registered(doors) == []
    assert await strategy(doors) == "None"
    crd = await client.get(CustomResourceDefinition, CRD)
    assert not [each for each in crd.metadata.annotations if "local-run" in each]
    assert (await client.create(door("bare", namespace))).spec.width is None


async def test_a_killed_run_blocks_no_request_and_the_next_run_replaces_it(doors: Cluster, namespace: str) -> None:
    killed = asyncio.create_task(Manager(webhooks=WEBHOOKS, name="doors", config=doors.config).run())

    async def is_registered() -> None:
        assert len(await registered(doors)) == 2

    await eventually(is_registered)
    left = [
        *await doors.client.list(MutatingWebhookConfiguration),
        *await doors.client.list(ValidatingWebhookConfiguration),
    ]
    left = [each for each in left if ".local-" in each.metadata.name]
    conversion = (await doors.client.get(CustomResourceDefinition, CRD)).spec.conversion
    killed.cancel()
    await asyncio.wait({killed})
    for each in left:  # what a process leaves that had no time to clean up
        each.metadata = ObjectMeta(name=each.metadata.name, annotations=each.metadata.annotations)
        await doors.client.create(each)
    crd = await doors.client.get(CustomResourceDefinition, CRD)
    crd.metadata.annotations["kubewright.dev/conversion-before-local-run"] = '{"strategy": "None"}'
    crd.spec.conversion = conversion
    await doors.client.update(crd)

    assert (await doors.client.create(door("unchecked", namespace, height=60))).spec.width is None
    async with Manager(webhooks=[check, CONVERSION], name="doors", config=doors.config):
        assert await registered(doors) == ["doors.local-validating-webhook-configuration"]
        with pytest.raises(Invalid):
            await doors.client.create(door("big", namespace, width=60))
    assert await registered(doors) == []
    assert await strategy(doors) == "None"


async def test_a_later_run_keeps_its_registration_when_an_earlier_one_stops(doors: Cluster, namespace: str) -> None:
    async with (
        Manager(webhooks=WEBHOOKS, name="doors", config=doors.config) as first,
        Manager(webhooks=WEBHOOKS, name="doors", config=doors.config),
    ):
        first.stop()
        await eventually(lambda: _stopped(first))
        with pytest.raises(Invalid):
            await doors.client.create(door("big", namespace, height=6))
        assert await strategy(doors) == "Webhook"
    assert await registered(doors) == []
    assert await strategy(doors) == "None"


async def test_a_run_warns_that_it_replaces_the_webhooks_of_another_process(
    doors: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with Manager(webhooks=[check], name="doors", config=doors.config):
        [name] = await registered(doors)
        found = await doors.client.get(ValidatingWebhookConfiguration, name)
        host, _, _ = found.metadata.annotations["kubewright.dev/local-process"].rpartition("/")
        found.metadata.annotations["kubewright.dev/local-process"] = f"{host}/{os.getppid()}"
        await doors.client.update(found)
        assert "Webhooks of another run replaced" not in caplog.text
        async with Manager(webhooks=[check], name="doors", config=doors.config):
            assert "Webhooks of another run replaced" in caplog.text


async def _stopped(manager: Manager) -> None:
    assert manager.webhook_port == 0


async def test_conversions_alone_are_registered(doors: Cluster, namespace: str) -> None:
    async with Manager(webhooks=[CONVERSION], name="doors", config=doors.config):
        old = DoorV1Alpha1(metadata=ObjectMeta(name="wide", namespace=namespace), spec=DoorV1Alpha1Spec(size=6))
        await doors.client.create(old)
        assert (await doors.client.get(Door, "wide", namespace=namespace)).spec.width == 6
    assert await registered(doors) == []


async def test_an_api_server_that_does_not_reach_the_process_is_an_error(doors: Cluster) -> None:
    nowhere = LocalWebhooks(url="https://127.0.0.1:1")
    with pytest.raises(ConfigError, match=r"the API server cannot call https://127.0.0.1:1: .*--webhook-url"):
        await Manager(webhooks=[check], name="doors", config=doors.config, webhook_registration=nowhere).run()
    assert await registered(doors) == []


async def test_a_remote_api_server_is_refused_before_anything_is_written() -> None:
    remote = Config(server="https://192.0.2.1:6443", token="t")
    manager = Manager(webhooks=[check], name="doors", config=remote, webhook_registration=LocalWebhooks())
    with pytest.raises(ConfigError, match=r"https://192.0.2.1:6443 is not on this machine .*LocalWebhooks\(url="):
        await manager.run()


async def test_a_conversion_without_its_crd_is_an_error(cluster: Cluster) -> None:
    with pytest.raises(ConfigError, match=f"CustomResourceDefinition {CRD}, whose objects a Conversion converts, is"):
        await Manager(webhooks=[CONVERSION], name="doors", config=cluster.config).run()


async def test_an_account_without_permissions_registers_with_other_credentials(doors: Cluster, namespace: str) -> None:
    manager = Manager(webhooks=[check], name="doors")
    async with doors.service_account(manager.rbac_rules(), namespace=namespace) as account:
        with pytest.raises(ConfigError, match=r"the webhooks cannot be registered: .*LocalWebhooks\(config="):
            await manager.replace(config=account).run()
        other = LocalWebhooks(config=doors.config)
        async with manager.replace(config=account, webhook_registration=other):
            with pytest.raises(Invalid):
                await doors.client.create(door("big", namespace, width=60))
