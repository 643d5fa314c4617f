"""A project to deploy: an operator of Gadgets, with a finalizer."""

from __future__ import annotations

import secrets
from pathlib import Path

from kubewright import Client, CustomResource, Model, ObjectMeta, field
from kubewright.apis.core.v1 import ConfigMap

PROGRAM = """
from datetime import timedelta

from kubewright import Context, CustomResource, Finalizer, Manager, Model, ObjectMeta, controller, field
from kubewright.apis.core.v1 import ConfigMap
from kubewright.manager._leader import LeaderElection


class GadgetSpec(Model):
    text: str = ""
    {field}


class GadgetStatus(Model):
    observed_generation: int = 0


class Gadget(CustomResource, group="{group}", version="{version}"):
    spec: GadgetSpec{default}
    status: GadgetStatus = field(default_factory=GadgetStatus)


class Reconciler:
    async def reconcile(self, ctx: Context[Gadget]) -> None:
        gadget = ctx.object
        meta = ObjectMeta(name=gadget.metadata.name, namespace=gadget.metadata.namespace)
        await ctx.apply(ConfigMap(metadata=meta, data={{"text": {text}}}))
        await ctx.update_status(GadgetStatus(observed_generation=gadget.metadata.generation or 0))

    async def finalize(self, ctx: Context[Gadget]) -> None:
        ctx.log.info("Gadget finished")


election = LeaderElection(
    lease_duration=timedelta(seconds=8), renew_deadline=timedelta(seconds=6), retry_period=timedelta(seconds=0.5)
)
reconciler = Reconciler()
gadgets = controller(Gadget, owns=[ConfigMap], finalizer=Finalizer("{group}/finish", reconciler.finalize))(reconciler)
manager = Manager([gadgets], name="gadgets", leader_election=election)

if __name__ == "__main__":
    manager.main()
"""


class Project:
    """A project in a folder, with unique names."""

    def __init__(self, folder: Path) -> None:
        word = secrets.token_hex(3)
        self.folder = folder
        self.name = f"gadgets-{word}"
        self.group = f"g{word}.test"
        self.namespace = f"{self.name}-system"
        self.deployment = f"{self.name}-controller-manager"
        self.image = f"registry.test/{self.name}:v1"
        self.crd = f"gadgets.{self.group}"
        self.set()
        self.write()

    def set(self, *settings: str) -> None:
        """Write pyproject.toml, with these settings in addition to the usual ones."""
        lines = [
            "[project]",
            f'name = "{self.name}"',
            'version = "1"',
            "[tool.kubewright]",
            'manager = "gadgets:manager"',
        ]
        lines += [f'image = "{self.image}"', *settings]
        (self.folder / "pyproject.toml").write_text("\n".join(lines))

    def write(self, text: str = "gadget.spec.text", before: str = "", *, version: str = "v1", field: str = "") -> None:
        """Write the program: each Gadget gets a ConfigMap with the value of the expression `text`.

        `field` is one more field of the spec.
        """
        default = "" if field else " = field(default_factory=GadgetSpec)"
        program = PROGRAM.format(group=self.group, text=text, version=version, field=field, default=default)
        (self.folder / "gadgets.py").write_text(before + program)

    def kind(self) -> type[CustomResource]:
        """Return the kind of this project."""

        class Spec(Model):
            text: str = ""

        class Gadget(CustomResource, group=self.group, version="v1"):
            spec: Spec = field(default_factory=Spec)

        return Gadget

    async def create(self, client: Client, namespace: str, name: str = "one") -> None:
        kind = self.kind()
        await client.create(kind(metadata=ObjectMeta(name=name, namespace=namespace)))

    async def text(self, client: Client, namespace: str, name: str = "one") -> str:
        """Return the text that the operator wrote for the Gadget."""
        return (await client.get(ConfigMap, name, namespace=namespace)).data["text"]
