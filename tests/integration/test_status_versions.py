"""`status` and `deploy` read objects in the version of the controller, also if another version is stored."""

from __future__ import annotations

from kubewright import Context, CustomResource, Manager, Model, ObjectMeta, controller, field
from kubewright.testing import Cluster
from kubewright.webhooks import Conversion, ManagedCertificate, Spoke
from kubewright_cli.deployment.compatibility import undecodable_objects
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
