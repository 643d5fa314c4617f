"""The demo of the Podbuggertool operator: `make demo EXAMPLE=podbuggertool-operator`."""

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from kubewright import ObjectMeta
from kubewright.apis.apps.v1 import Deployment, DeploymentSpec
from kubewright.apis.core.v1 import Container, Pod, PodSchedulingGate, PodSpec, PodTemplateSpec
from kubewright.apis.meta.v1 import LabelSelector
from kubewright.client import MergePatch
from kubewright.machinery import yaml
from kubewright.models import codec
from kubewright.testing import Cluster, gone
from kubewright_controlplane import STAND_INS, Demo, Summary, Walkthrough

from podbuggertool_operator.api.v1beta1.podbuggertool import Podbuggertool
from podbuggertool_operator.main import manager

NAMESPACE: Final = "default"
SAMPLE: Final = Path(__file__).parent / "config" / "samples" / "ualter_v1beta1_podbuggertool.yaml"
LABELS: Final = {"app": "payment"}
CONTAINERS: Final = [Container(name="main", image="nginx")]
SPEC: Final = PodSpec(containers=CONTAINERS, termination_grace_period_seconds=1)  # the tool's shell ignores SIGTERM


def tools_in(pod: Pod) -> list[str]:
    return [each.name for each in pod.spec.ephemeral_containers]


SHOWN: Final[Mapping[type, Summary]] = {
    Podbuggertool: lambda tool: (
        f"{tool.spec.image} for {tool.spec.label}: in {tool.status.installed_pods}, {tool.status.pending_pods} pending"
    ),
    Pod: lambda pod: f"{pod.status.phase}, with {', '.join(tools_in(pod)) or 'no tool'}",
}


class Steps:
    """The steps, and the states that each step must reach."""

    def __init__(self, cluster: Cluster, walk: Walkthrough) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.walk = walk
        self.tool = codec.from_dict(Podbuggertool, yaml.load(SAMPLE.read_text()))
        self.tool.metadata.namespace = NAMESPACE
        self.deployment = Deployment(
            metadata=ObjectMeta(name="payment", namespace=NAMESPACE),
            spec=DeploymentSpec(
                replicas=2,
                selector=LabelSelector(match_labels=LABELS),
                template=PodTemplateSpec(metadata=ObjectMeta(labels=LABELS), spec=SPEC),
            ),
        )

    async def go(self) -> None:
        await self.deploy()
        await self.install()
        await self.enter()
        await self.replace()
        await self.wait()
        await self.change()
        await self.delete()

    async def deploy(self) -> None:
        async with self.walk.step("Create a Deployment with 2 Pods that have the label app=payment"):
            await self.client.create(self.deployment)

            async def are_running() -> None:
                assert [pod.status.phase for pod in await self.pods()] == ["Running"] * 2

            await self.walk.reach("both run", are_running)

    async def install(self) -> None:
        async with self.walk.step(f"Create a Podbuggertool: {self.tool.spec.image} for {self.tool.spec.label}"):
            await self.client.create(self.tool)
            await self.reach("both have the tool", pods=2, tools=["ephemeral-busybox"])

    async def enter(self) -> None:
        kubectl = shutil.which("kubectl")
        if kubectl is None or self.cluster.config.image_table is None:
            self.walk.say("\nNothing is entered: that takes kubectl, and Pods that run.")
            return
        async with self.walk.step("kubectl exec deployment/payment -c ephemeral-busybox -- sh -c 'echo in $HOSTNAME'"):
            command = [kubectl, f"--kubeconfig={self.cluster.kubeconfig()}", f"--namespace={NAMESPACE}", "exec"]
            command += ["deployment/payment", "-c", "ephemeral-busybox", "--", "sh", "-c", "echo in $HOSTNAME"]

            async def is_entered() -> None:
                process = await asyncio.create_subprocess_exec(
                    *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
                )
                said = (await process.communicate())[0].decode().strip()
                assert said.startswith("in payment-"), said
                self.walk.happened("the shell", said)

            await self.walk.reach("a shell runs in a Pod of nginx", is_entered)

    async def replace(self) -> None:
        async with self.walk.step("Delete one of the Pods"):
            lost = (await self.pods())[0]
            await self.client.delete(lost, grace_period=0)
            await gone(self.client.get, Pod, lost.metadata.name, namespace=NAMESPACE)
            await self.reach("its replacement has the tool", pods=2, tools=["ephemeral-busybox"])

    async def wait(self) -> None:
        async with self.walk.step("Create a Pod that is not Ready"):
            spec = PodSpec(containers=CONTAINERS, scheduling_gates=[PodSchedulingGate(name="example.com/hold")])
            held = Pod(metadata=ObjectMeta(name="held", namespace=NAMESPACE, labels=LABELS), spec=spec)
            held = await self.client.create(held)

            async def is_waited_for() -> None:
                status = (await self.get()).status
                assert [(each.name, each.reason) for each in status.pending] == [("held", "NotReady")]

            await self.walk.reach("the operator waits for it", is_waited_for)
        async with self.walk.step("Let it start"):
            await self.client.patch(held, MergePatch({"spec": {"schedulingGates": None}}))
            await self.reach("it has the tool", pods=3, tools=["ephemeral-busybox"])
            await self.client.delete(held, grace_period=0)

    async def change(self) -> None:
        async with self.walk.step("Change the image to alpine: ephemeral containers can't be removed"):
            await self.client.patch(self.tool, MergePatch({"spec": {"image": "alpine"}}))
            await self.reach("both Pods have both tools", pods=2, tools=["ephemeral-alpine", "ephemeral-busybox"])

    async def delete(self) -> None:
        async with self.walk.step("Delete the Podbuggertool and the Deployment"):
            await self.client.delete(self.tool)
            await self.client.delete(self.deployment)

            async def all_gone() -> None:
                assert not await self.pods()

            await self.walk.reach("the Pods and their containers are deleted", all_gone)

    async def reach(self, state: str, *, pods: int, tools: Sequence[str]) -> None:
        async def check() -> None:
            status = (await self.get()).status
            assert (status.installed, status.installed_pods) == (True, pods), status
            assert [sorted(tools_in(pod)) for pod in await self.pods()] == [sorted(tools)] * pods

        await self.walk.reach(state, check)

    async def get(self) -> Podbuggertool:
        return await self.client.get(Podbuggertool, self.tool.metadata.name, namespace=NAMESPACE)

    async def pods(self) -> list[Pod]:
        return list(await self.client.list(Pod, namespace=NAMESPACE, labels=LABELS))


async def steps(cluster: Cluster, walk: Walkthrough) -> None:
    await Steps(cluster, walk).go()


if __name__ == "__main__":
    Demo(
        manager=manager,
        module="podbuggertool_operator.main",
        kinds=[Podbuggertool],
        shown=SHOWN,
        steps=steps,
        sample=SAMPLE,
        namespace=NAMESPACE,
        images=STAND_INS,
    ).main()
