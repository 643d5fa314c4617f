"""A project to deploy: an operator of Gadgets, with a finalizer; and the commands that deploy it."""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
from pathlib import Path
from typing import Any

from integration.command import BackgroundCommand, run
from kubewright import Client, CustomResource, Model, ObjectMeta, field
from kubewright.apis.coordination.v1 import Lease
from kubewright.apis.core.v1 import ConfigMap, Event, Pod
from kubewright.testing import Cluster

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


class Following:
    """A process that follows a log."""

    def __init__(self, process: BackgroundCommand) -> None:
        self.process = process

    async def receives(self, text: str) -> None:
        """Wait for a line with `text`."""
        async for line in self.process.stdout:
            if text in line.decode():
                return
        raise AssertionError(f"the log ended without {text}")


class Deployed:
    """A project, its cluster, and the command line between them."""

    def __init__(self, project: Project, cluster: Cluster) -> None:
        self.project = project
        self.client = cluster.client
        self.table = cluster.config.image_table
        self._kubeconfig = cluster.kubeconfig()

    async def run(self, *arguments: str) -> tuple[int, str]:
        """Return the exit status of a command, and its output."""
        return await asyncio.to_thread(run, *arguments, folder=self.project.folder, kubeconfig=self._kubeconfig)

    async def good(self, *arguments: str) -> str:
        status, said = await self.run(*arguments)
        assert status == 0, said
        return said

    async def failed(self, *arguments: str) -> str:
        status, said = await self.run(*arguments)
        assert status == 1, said
        return said

    async def document(self, *arguments: str) -> Any:
        """Return the JSON document that a command prints, after what it says on standard error."""
        said = (await self.run(*arguments, "--output=json"))[1]
        return json.loads(said[said.index("{") :])

    async def interrupted(self, *arguments: str, when: str) -> str:
        """Return the output of a command that is interrupted as soon as it has printed `when`."""
        process, said = await self._started(*arguments, when=when)
        process.send_signal(signal.SIGINT)
        said += (await process.stdout.read()).decode()
        assert await process.wait() == 1, said
        return said

    async def killed(self, *arguments: str, when: str) -> str:
        """Return the output of a command that is killed as soon as it has printed `when`."""
        process, said = await self._started(*arguments, when=when)
        process.kill()
        await process.wait()
        return said

    async def _started(self, *arguments: str, when: str) -> tuple[BackgroundCommand, str]:
        process = await BackgroundCommand.start(*arguments, folder=self.project.folder, kubeconfig=self._kubeconfig)
        said = ""
        while when not in said:
            line = await process.stdout.readline()
            assert line, said
            said += line.decode()
        return process, said

    async def follow(self) -> Following:
        """Start `kubewright logs -f`."""
        return Following(
            await BackgroundCommand.start("logs", "-f", folder=self.project.folder, kubeconfig=self._kubeconfig)
        )

    async def pods(self) -> list[Pod]:
        found = await self.client.list(Pod, namespace=self.project.namespace)
        return [each for each in found if each.metadata.deletion_timestamp is None]

    async def process(self) -> int:
        """Return the process of the manager."""
        (pod,) = await self.pods()
        events = await self.client.list(Event, namespace=self.project.namespace)
        started = [each for each in events if each.reason == "Started" and each.involved_object.uid == pod.metadata.uid]
        assert len(started) == pod.status.container_statuses[0].restart_count + 1
        last = max(started, key=lambda each: int(each.metadata.resource_version))
        return int((last.message or "").split()[-1])

    async def holder(self) -> str:
        lease = await self.client.get(Lease, "gadgets", namespace=self.project.namespace)
        assert lease.spec.holder_identity
        return lease.spec.holder_identity
