"""Helpers: what a user does with Podbuggertools and Pods, and what a user sees."""

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from kubewright import Condition, Config, Manager, ObjectMeta
from kubewright.apis.core.v1 import Container, Pod, PodSchedulingGate, PodSpec
from kubewright.apis.events.v1 import Event
from kubewright.client import MergePatch
from kubewright.controllers import Outcome
from kubewright.testing import Clock, Cluster, Faults, SystemClock, eventually

from podbuggertool_operator import api
from podbuggertool_operator.api.v1beta1.podbuggertool import Podbuggertool, PodbuggertoolSpec
from podbuggertool_operator.controller.podbuggertool import CHECK_INTERVAL

GATE = "example.com/not-yet"


class Podbuggertools:
    """The Podbuggertools and Pods of one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.namespace = namespace

    async def install(self) -> None:
        await self.cluster.install(api)

    async def create(self, name: str = "tool", *, label: str = "app=payment", image: str = "busybox") -> Podbuggertool:
        spec = PodbuggertoolSpec(label=label, image=image)
        return await self.client.create(Podbuggertool(metadata=self.metadata(name), spec=spec))

    async def get(self, name: str = "tool") -> Podbuggertool:
        return await self.client.get(Podbuggertool, name, namespace=self.namespace)

    async def change(self, name: str = "tool", **spec: str) -> None:
        await self.client.patch(Podbuggertool, MergePatch({"spec": spec}), name=name, namespace=self.namespace)

    async def touch(self, name: str = "tool") -> None:
        """Trigger a reconcile of the tool."""
        note = MergePatch({"metadata": {"annotations": {"note": secrets.token_hex(4)}}})
        await self.client.patch(Podbuggertool, note, name=name, namespace=self.namespace)

    async def create_pod(self, name: str = "pod", *, app: str = "payment", gated: bool = False, **labels: str) -> Pod:
        """Create a Pod. A gated Pod is not scheduled, so it is not Ready, until `let_start`."""
        spec = PodSpec(containers=[Container(name="main", image="nginx")])
        spec.scheduling_gates = [PodSchedulingGate(name=GATE)] if gated else []
        return await self.client.create(Pod(metadata=self.metadata(name, app=app, **labels), spec=spec))

    async def let_start(self, name: str = "pod") -> None:
        patch = MergePatch({"spec": {"schedulingGates": None}})
        await self.client.patch(Pod, patch, name=name, namespace=self.namespace)

    async def pod(self, name: str = "pod") -> Pod:
        return await self.client.get(Pod, name, namespace=self.namespace)

    async def delete_pod(self, name: str = "pod") -> None:
        await self.client.delete(Pod, name, namespace=self.namespace, grace_period=0)

    async def ready(self, name: str = "pod") -> Pod:
        async def check() -> Pod:
            pod = await self.pod(name)
            assert any((each.type, each.status) == ("Ready", "True") for each in pod.status.conditions)
            return pod

        return await eventually(check)

    async def tools_in(self, pod: str = "pod") -> list[str]:
        return sorted(each.name for each in (await self.pod(pod)).spec.ephemeral_containers)

    async def has(self, tools: Sequence[str], pod: str = "pod") -> None:
        """Assert that the Pod has exactly these ephemeral containers."""
        assert await self.tools_in(pod) == sorted(tools)

    async def pods_with(self, image: str, pods: Sequence[str]) -> None:
        """Wait until exactly these Pods have a container with this image."""

        async def check() -> None:
            found = await self.client.list(Pod, namespace=self.namespace)
            having = [pod.metadata.name for pod in found if image in [c.image for c in pod.spec.ephemeral_containers]]
            assert sorted(having) == sorted(pods)

        await eventually(check)

    async def installed(self, tool: str = "tool", *, pods: Sequence[str] = ("pod",)) -> Podbuggertool:
        """Wait until the status lists exactly these Pods for the current spec, and return the tool."""

        async def check() -> Podbuggertool:
            found = await self.get(tool)
            condition = installed_condition(found)
            assert (condition.status, condition.reason) == ("True", "Installed"), condition
            assert condition.observed_generation == found.status.observed_generation == found.metadata.generation
            assert found.status.installed
            assert found.status.pods == sorted(pods)
            assert (found.status.installed_pods, found.status.pending) == (len(pods), [])
            return found

        return await eventually(check)

    async def nothing_matches(self, tool: str = "tool") -> None:
        """Wait until the status reports that no Pod matches."""

        async def check() -> None:
            assert installed_condition(await self.get(tool)).reason == "NoPods"

        await eventually(check)

    async def create_all(self, pods: Sequence[str], images: Sequence[str]) -> None:
        """Create Pods, and a tool for each image that is added to all of them."""
        for pod in pods:
            await self.create_pod(pod)
        for image in images:
            await self.create(image, image=image)

    async def all_installed(self, pods: Sequence[str], images: Sequence[str]) -> None:
        """Wait until all tools report all Pods, and all Pods have them: a report may be about a Pod before this one."""
        for image in images:
            await self.installed(image, pods=pods)
        for pod in pods:
            await eventually(self.has, [f"ephemeral-{image}" for image in images], pod=pod)

    async def rest(self, faults: Faults) -> None:
        """Wait until the operator no longer writes, longer than its interval of checks."""
        await faults.rest(quiet=CHECK_INTERVAL.total_seconds() + 0.5)

    async def pending(self, reason: str, tool: str = "tool", *, pod: str = "pod") -> Podbuggertool:
        """Wait until the status reports the Pod as pending with this reason, and return the tool."""

        async def check() -> Podbuggertool:
            found = await self.get(tool)
            condition = installed_condition(found)
            assert (condition.status, condition.reason) == ("False", reason), condition
            assert not found.status.installed
            assert (pod, reason) in [(each.name, each.reason) for each in found.status.pending]
            return found

        return await eventually(check)

    async def events(self, name: str, reason: str) -> list[Event]:
        """Return the Events about an object with this reason."""
        return [
            each
            for each in await self.client.list(Event, namespace=self.namespace)
            if each.reason == reason and each.regarding is not None and each.regarding.name == name
        ]

    async def event_note(self, name: str, reason: str) -> str:
        """Wait for the only Event with this reason, and return its note."""

        async def check() -> str:
            events = await self.events(name, reason)
            assert len(events) == 1, events
            return events[0].note or ""

        return await eventually(check)

    def metadata(self, name: str, **labels: str) -> ObjectMeta:
        return ObjectMeta(name=name, namespace=self.namespace, labels=labels)


class NewOperator(Protocol):
    """Creates an operator, as a new process would. With `Faults`, its requests may fail."""

    def __call__(self, access: Config | Faults = ..., clock: Clock | None = None) -> Manager: ...


class SetClock(SystemClock):
    """A clock that a test sets."""

    def __init__(self, time: datetime) -> None:
        self.time = time

    def now(self) -> datetime:
        return self.time


def installed_condition(tool: Podbuggertool) -> Condition:
    found = [each for each in tool.status.conditions if each.type == "Installed"]
    assert len(found) == 1, tool.status.conditions
    return found[0]


def reconciles(operator: Manager) -> int:
    """Return the number of reconciles."""
    return sum(operator.metrics.controllers["podbuggertool"].outcomes.values())


def waits(operator: Manager) -> int:
    """Return the number of reconciles that asked for another one."""
    return operator.metrics.controllers["podbuggertool"].outcomes[Outcome.REQUEUE_AFTER]


async def has_reconciled(operator: Manager, times: int) -> None:
    assert reconciles(operator) >= times
