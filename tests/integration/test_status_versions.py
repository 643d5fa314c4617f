"""Commands and objects of which the operator reads another version than the stored one."""

from __future__ import annotations

from datetime import UTC, datetime

from kubewright import Context, CustomResource, Manager, Model, ObjectMeta, controller, field
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.testing import Cluster, gone
from kubewright.webhooks import Conversion, ManagedCertificate, Spoke
from kubewright.webhooks._certificates import Certificates
from kubewright_cli.deployment import conversions, crds
from kubewright_cli.deployment.compatibility import undecodable_objects
from kubewright_cli.deployment.objects import Objects
from kubewright_cli.deployment.status import status_of
from kubewright_cli.manifests import Settings, render

GROUP = "status.versions.example.com"


class TextSpec(Model):
    schedule: str = "* *"


class TextAlarm(CustomResource, group=GROUP, version="v1", kind="Alarm", storage=False):
    spec: TextSpec = field(default_factory=TextSpec)


class Schedule(Model):
    minute: str = "*"
    hour: str = "*"


class AlarmSpec(Model):
    schedule: Schedule = field(default_factory=Schedule)


class Alarm(CustomResource, group=GROUP, version="v2"):
    spec: AlarmSpec = field(default_factory=AlarmSpec)


def to_text(new: Alarm) -> TextAlarm:
    schedule = new.spec.schedule
    return TextAlarm(spec=TextSpec(schedule=f"{schedule.minute} {schedule.hour}"))


def from_text(old: TextAlarm) -> Alarm:
    minute, hour = old.spec.schedule.split()
    return Alarm(spec=AlarmSpec(schedule=Schedule(minute=minute, hour=hour)))


@controller(TextAlarm)
async def reconcile(ctx: Context[TextAlarm]) -> None: ...


class MeterSpec(Model):
    limit: str


class Meter(CustomResource, group=GROUP, version="v1"):
    """The kind in the release that the cluster has."""

    spec: MeterSpec


class OldMeter(CustomResource, group=GROUP, version="v1", kind="Meter", storage=False):
    spec: MeterSpec


class NumberSpec(Model):
    limit: int


class NewMeter(CustomResource, group=GROUP, version="v2", kind="Meter"):
    spec: NumberSpec


def to_number(old: OldMeter) -> NewMeter:
    return NewMeter(spec=NumberSpec(limit=int(old.spec.limit)))


def to_limit(new: NewMeter) -> OldMeter:
    return OldMeter(spec=MeterSpec(limit=str(new.spec.limit)))


async def test_objects_are_read_in_the_version_of_the_controller(cluster: Cluster, namespace: str) -> None:
    kinds = [TextAlarm, Alarm]
    conversion = Conversion(TextAlarm, Spoke(Alarm, convert_to=to_text, convert_from=from_text))
    program = Manager([reconcile], webhooks=[conversion], webhook_certificate=ManagedCertificate(), name="alarms")
    await cluster.install(*kinds)
    async with program.replace(config=cluster.config):
        await cluster.client.create(Alarm(metadata=ObjectMeta(name="one", namespace=namespace)))
        manifests = render(program, kinds, Settings(name="alarms", manager="alarms:manager"))
        assert [each async for each in undecodable_objects(cluster.client, manifests)] == []
        [kind] = (await status_of(cluster.client, manifests)).kinds
        assert (kind.total, kind.unconverged) == (1, ())


async def test_objects_of_the_version_before_an_upgrade_are_converted(cluster: Cluster, namespace: str) -> None:
    await cluster.install(Meter)
    meter = Meter(metadata=ObjectMeta(name="one", namespace=namespace), spec=MeterSpec(limit="5"))
    await cluster.client.create(meter)
    kinds = [OldMeter, NewMeter]
    conversion = Conversion(NewMeter, Spoke(OldMeter, convert_to=to_number, convert_from=to_limit))
    program = Manager(webhooks=[conversion], webhook_certificate=ManagedCertificate(), name="meters")
    manifests = render(program, kinds, Settings(name="meters", manager="meters:manager"))
    assert [each async for each in undecodable_objects(cluster.client, manifests)] == []
    [kind] = (await status_of(cluster.client, manifests)).kinds
    assert (kind.total, kind.unconverged) == (1, ())

    meter.spec.limit = "many"
    await cluster.client.apply(meter, force=True)
    [found] = [each async for each in undecodable_objects(cluster.client, manifests)]
    assert found.problem.startswith(
        f'the program cannot decode Meter "{namespace}/one": its conversion from {GROUP}/v1 fails: ValueError: '
    )


async def test_an_install_keeps_the_ca_that_a_deploy_wrote(cluster: Cluster) -> None:
    ca = Certificates.made(["alarms"], datetime.now(UTC)).bundle
    conversion = Conversion(TextAlarm, Spoke(Alarm, convert_to=to_text, convert_from=from_text))
    settings = Settings(
        name="alarms", manager="alarms:manager", webhook_certificate="mine", webhook_ca_bundle=ca.decode()
    )
    manifests = render(Manager([reconcile], webhooks=[conversion], name="alarms"), [TextAlarm, Alarm], settings)
    deployed = [each for each in manifests.objects() if each["kind"] == "CustomResourceDefinition"]
    try:
        assert [each async for each in crds.install(cluster.client, deployed, namespace=settings.namespace)]
        [crd] = manifests.crds
        assert not await Objects(cluster.client).differs(await conversions.to_install(cluster.client, crd))
        assert [each async for each in crds.install(cluster.client, [crd])]
        installed = await cluster.client.get(CustomResourceDefinition, f"alarms.{GROUP}")
        assert conversions.ca_bundle_of(conversions.conversion_of(installed)) == ca
    finally:
        await cluster.client.delete(CustomResourceDefinition, f"alarms.{GROUP}")
        await gone(cluster.client.get, CustomResourceDefinition, f"alarms.{GROUP}")
