"""A project to deploy whose Gizmos have two versions, with a conversion, a defaulter and a validator."""

from __future__ import annotations

from typing import Any

from integration.deployed import Project
from kubewright import Client, CustomResource, Model, ObjectMeta, field

PROGRAM = """
from datetime import timedelta

from kubewright import Context, CustomResource, Manager, Model, controller, field
from kubewright.machinery import fields
from kubewright.manager._leader import LeaderElection
from kubewright.policies import ValidatingPolicy, Validation
from kubewright.webhooks import Conversion, FieldError, ManagedCertificate, Spoke, defaulter, validator


class GizmoSpec(Model):
    size: int | None = None
    note: str = ""


class Gizmo(CustomResource, group="{group}", version="v1", storage={new}):
    spec: GizmoSpec = field(default_factory=GizmoSpec)


class OldGizmoSpec(Model):
    length: int | None = None


class OldGizmo(CustomResource, group="{group}", version="v1alpha1", kind="Gizmo", storage={old}):
    spec: OldGizmoSpec = field(default_factory=OldGizmoSpec)


def to_v1(old):
    return Gizmo(spec=GizmoSpec(size=old.spec.length))


def from_v1(new):
    return OldGizmo(spec=OldGizmoSpec(length=new.spec.size))


@defaulter(Gizmo)
def set_size(ctx):
    if ctx.object.spec.size is None:
        ctx.object.spec.size = 3


@validator(Gizmo)
def check(ctx) -> list[FieldError]:
    size = ctx.object.spec.size or 0
    return [fields.invalid("spec.size", size, "must be at most 10")] if size > 10 else []


@controller(Gizmo)
async def reconcile(ctx: Context[Gizmo]) -> None: ...


election = LeaderElection(
    lease_duration=timedelta(seconds=8), renew_deadline=timedelta(seconds=6), retry_period=timedelta(seconds=0.5)
)
manager = Manager(
    [reconcile],
    name="gizmos",
    leader_election=election,
    webhooks=[set_size, check, Conversion(Gizmo, Spoke(OldGizmo, convert_to=to_v1, convert_from=from_v1))],
    webhook_certificate=ManagedCertificate(),
    policies=[ValidatingPolicy("{policy}", Gizmo, validations=[Validation("object.spec.note != 'no'")])],
)

if __name__ == "__main__":
    manager.main()
"""


class Spec(Model):
    size: int | None = None
    note: str = ""


class OldSpec(Model):
    length: int | None = None


class WebhookProject(Project):
    """The project, in `gizmos.py`."""

    def set(self, *settings: str) -> None:
        self.crd = f"gizmos.{self.group}"
        super().set(*settings)
        pyproject = self.folder / "pyproject.toml"
        pyproject.write_text(pyproject.read_text().replace("gadgets:manager", "gizmos:manager"))

    def write(self, *_: object, stored: str = "v1", hangs: bool = False, **__: object) -> None:
        """Write the program, which stores Gizmos in the version `stored`, and has a policy of that name. `hangs`: it
        does nothing in a Pod.
        """
        program = PROGRAM.format(group=self.group, new=stored == "v1", old=stored == "v1alpha1", policy=f"of-{stored}")
        if hangs:
            self.set('env = { POD = "yes" }')
            program = f"import os, time\nif 'POD' in os.environ: time.sleep(1000)\n{program}"
        (self.folder / "gizmos.py").write_text(program)

    @property
    def mutating(self) -> str:
        return f"{self.name}-mutating-webhook-configuration"

    @property
    def validating(self) -> str:
        return f"{self.name}-validating-webhook-configuration"

    def new(self) -> type[CustomResource]:
        """Return the kind in version v1."""

        class Gizmo(CustomResource, group=self.group, version="v1"):
            spec: Spec = field(default_factory=Spec)

        return Gizmo

    def old(self) -> type[CustomResource]:
        """Return the kind in version v1alpha1."""

        class Gizmo(CustomResource, group=self.group, version="v1alpha1"):
            spec: OldSpec = field(default_factory=OldSpec)

        return Gizmo

    async def make(self, client: Client, namespace: str, name: str, **spec: Any) -> Any:
        """Create a Gizmo in version v1."""
        metadata = ObjectMeta(name=name, namespace=namespace)
        return await client.create(self.new()(metadata=metadata, spec=Spec(**spec)))  # pyright: ignore

    async def sizes(self, client: Client, namespace: str) -> tuple[dict[str, int], dict[str, int]]:
        """Return the sizes of all Gizmos by name, in v1 and in v1alpha1."""
        new: Any = await client.list(self.new(), namespace=namespace)
        old: Any = await client.list(self.old(), namespace=namespace)
        return (
            {each.metadata.name: each.spec.size for each in new},
            {each.metadata.name: each.spec.length for each in old},
        )
