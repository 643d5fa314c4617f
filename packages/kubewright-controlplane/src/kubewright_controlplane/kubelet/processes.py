"""Pods that run as processes on this machine, and their logs and folders."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from kubewright._runtime.clock import Clock, SystemClock
from kubewright._runtime.scratch import scratch_folder
from kubewright.apis.core.v1 import ContainerState, ContainerStateTerminated, ContainerStatus, Node, Pod
from kubewright.client._client import Client
from kubewright.controllers import Context, Request, Result
from kubewright.controllers.sources import Channel
from kubewright.machinery.errors import ConfigError
from kubewright_controlplane.common.network import PodAddresses, ProcessNetwork
from kubewright_controlplane.common.pods import is_finished
from kubewright_controlplane.kubelet.container import SCHEME, NoLog
from kubewright_controlplane.kubelet.eviction import EVICTED
from kubewright_controlplane.kubelet.helpers.exec_helper import CANNOT_START
from kubewright_controlplane.kubelet.images import Image, ImageTable
from kubewright_controlplane.kubelet.isolation import Isolation, find_isolation
from kubewright_controlplane.kubelet.logs import ContainerLog
from kubewright_controlplane.kubelet.node import address_of
from kubewright_controlplane.kubelet.pod import PodRunner
from kubewright_controlplane.kubelet.process import Reaper
from kubewright_controlplane.kubelet.runtime import confirm_terminated
from kubewright_controlplane.kubelet.sandbox import APIAddress, HostFolders, Pause, PodEvent, PodSandbox
from kubewright_controlplane.kubelet.simulated import ANNOTATION
from kubewright_controlplane.kubelet.sockets import PodSockets
from kubewright_controlplane.kubelet.status import report_deadline, status_with
from kubewright_controlplane.kubelet.storage import refused_host_path
from kubewright_controlplane.ports import LOOPBACK

TABLE: Final = "images.json"
_MEMORY: Final = Path("/dev/shm")
_LAST_GRACE: Final = 5.0
"""Seconds that Pods have to end when the control plane stops."""


class ProcessPods:
    """The Pods of a control plane that run as processes. Their logs and volumes are kept in a folder."""

    def __init__(
        self, folder: Path, *, images: Mapping[str, Image] | None = None, host_paths: Iterable[Path] = ()
    ) -> None:
        """`images` have a command in addition to those in the image table, which is kept in `folder`.

        Pods may use `hostPath` volumes below `host_paths`.
        """
        self._folder = folder.absolute()
        self.private: Callable[[], Sequence[Path]] = lambda: [self._folder]
        """Returns the files and folders that containers in sandboxes do not see."""
        self._stack = ExitStack()
        self._memory: Path | None = None
        self.folders = HostFolders(self._folder / "volumes", self._memory_folder, tuple(host_paths))
        self._isolation: asyncio.Task[Isolation | str] | None = None
        self.reported_without_sandbox = False
        self.images = ImageTable(self._folder / TABLE, images)
        self.changed = Channel()
        """A source of the Pods whose status has changed."""
        self.clock: Clock = SystemClock()
        self.reaper = Reaper()
        self._runners: dict[Request, PodRunner] = {}
        self._ended: dict[Request, Path] = {}
        """The folders of Pods that ended under an earlier control plane."""
        self._removals: set[asyncio.Task[None]] = set()

    async def isolation(self) -> Isolation | str:
        """Return the sandboxes of this machine, or the reason why there are none. It is found out once."""
        if self._isolation is None:
            self._isolation = asyncio.create_task(find_isolation(self.private))
        return await asyncio.shield(self._isolation)

    def runner(self, pod: Pod) -> PodRunner | None:
        """Return the runner of a Pod; None if it does not run."""
        found = self._runners.get(_name_of(pod))
        return found if found is not None and found.uid == pod.metadata.uid else None

    def runner_of(self, name: Request) -> PodRunner | None:
        """Return the runner of the Pod with this name."""
        return self._runners.get(name)

    def process_ids(self) -> dict[str, dict[str, int]]:
        """Return the first processes of all containers that run, by the UIDs of the Pods and the containers' names."""
        return {each.uid: each.process_ids for each in self._runners.values() if each.uid}

    def folder_of(self, pod: Pod) -> Path:
        """Return the folder of a Pod: its volumes and logs."""
        return self._folder / "pods" / (pod.metadata.uid or "")

    def start(self, pod: Pod, images: Mapping[str, Image], sandbox: PodSandbox) -> PodRunner:
        """Run a Pod."""
        self._runners[_name_of(pod)] = runner = PodRunner(pod, images, sandbox)
        return runner

    def images_of(self, pod: Pod) -> Mapping[str, Image]:
        """Return the images of a Pod that have a command; none if the Pod is simulated already, or requests it.

        Raises ConfigError if the image table can't be used.
        """
        if ANNOTATION in pod.metadata.annotations or _is_simulated(pod):
            return {}
        names = {each.image or "" for each in (*pod.spec.init_containers, *pod.spec.containers)}
        return {name: image for name in names if (image := self.images.get(name)) is not None}

    def log(self, name: Request, container: str, *, previous: bool) -> ContainerLog:
        """Return a log, also of a Pod that ended under an earlier control plane.

        Raises NoLog; KeyError if no such container runs or ran as a process.
        """
        runner = self._runners.get(name)
        if runner is not None:
            return runner.log(container, previous=previous)
        runs = sorted((self._ended[name] / "logs" / container).glob("*"), key=lambda folder: int(folder.name))
        if not runs:
            raise KeyError(container)
        if previous and len(runs) < 2:
            raise NoLog("previous terminated container {} not found")
        log = ContainerLog(runs[-2 if previous else -1], self.clock)
        log.close()
        return log

    def keep_log(self, pod: Pod) -> None:
        """Keep the logs of a Pod that ended under an earlier control plane, if it ran as a process."""
        if self.folder_of(pod).is_dir():
            self._ended[_name_of(pod)] = self.folder_of(pod)

    def forget(self, name: Request, *, keep: str | None = None) -> None:
        """Kill the Pod of this name and remove its files, unless it has the UID `keep`."""
        ended = self._ended.get(name)
        if ended is not None and ended.name != keep:
            del self._ended[name]
            shutil.rmtree(ended, ignore_errors=True)
        runner = self._runners.get(name)
        if runner is None or runner.uid == keep:
            return
        del self._runners[name]
        task = asyncio.create_task(_remove(runner), name=f"remove pod {name}")
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)

    def sweep(self, uids: set[str]) -> None:
        """Remove the files that earlier control planes left of all Pods but these."""
        for folder in self._folder.glob("pods/*"):
            if folder.name not in uids:
                shutil.rmtree(folder, ignore_errors=True)

    async def close(self) -> None:
        """End all Pods."""
        runners, self._runners = list(self._runners.values()), {}
        await asyncio.gather(*(each.end(_LAST_GRACE) for each in runners), *self._removals)
        await asyncio.to_thread(self.reaper.close)
        self._stack.close()

    def _memory_folder(self) -> Path | None:
        """Return a folder in memory; None if this machine has none."""
        if self._memory is None and _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK):
            self._memory = self._stack.enter_context(scratch_folder(_MEMORY))
        return self._memory


class ProcessRuntime:
    """A `PodRuntime` that runs Pods as processes. It accepts Pods with an image that has a command."""

    def __init__(
        self,
        pods: ProcessPods,
        client: Client,
        api: APIAddress,
        network: ProcessNetwork,
        clock: Clock,
        *,
        nameserver: Callable[[], Awaitable[str | None]] | None = None,
    ) -> None:
        """`client` reads the objects that Pods refer to, and may read all of them.

        `nameserver` returns the address of the cluster's DNS server, before each Pod starts.
        """
        self.changed = pods.changed
        self._pods = pods
        self._client = client
        self._api = api
        self._clock = clock
        self._network = network
        self._nameserver = nameserver
        self._addresses = PodAddresses(network.pods) if network.pods is not None else None
        self._swept = False

    async def run(self) -> None:
        """Wait until cancelled, then end all Pods and release their addresses."""
        try:
            await asyncio.Event().wait()
        finally:
            await self._pods.close()
            self._network.release()

    async def accepts(self, ctx: Context[Pod]) -> bool:
        pod = ctx.object
        if not self._swept:
            await self._sweep(ctx)
        self._pods.forget(ctx.request, keep=pod.metadata.uid)
        if self._pods.runner(pod) is not None:
            return True
        if is_finished(pod):
            self._pods.keep_log(pod)
            return False
        try:
            return pod.metadata.deletion_timestamp is None and bool(self._pods.images_of(pod))
        except ConfigError as error:
            ctx.events.warning(pod, "ImageTable", str(error), action="Run")
            return False

    async def sync(self, ctx: Context[Pod], node: Node) -> Result | None:
        pod, host = ctx.object, address_of(node) or ""
        address = self._address(ctx)
        runner = self._pods.runner(pod)
        if runner is None:
            refusal = refused_host_path(self._pods.folders, pod)
            if refusal is not None and not any(each.controller for each in pod.metadata.owner_references):
                await self._fail(ctx, refusal)
                return None
            images = self._pods.images_of(pod)
            sandbox = await self._sandbox(ctx, node, address, images)
            runner = self._pods.start(pod, images, sandbox)
        await runner.update(pod)
        if pod.metadata.deletion_timestamp is not None:
            runner.stop(float(pod.metadata.deletion_grace_period_seconds or 0))
        status = status_with(pod, runner.outcome, host, address, runner.statuses(), self._clock.now())
        if runner.deadline_exceeded:
            report_deadline(status)
        if runner.eviction:
            status.reason, status.message = EVICTED, runner.eviction
        ended = runner.ended  # before the status is sent: a later end is reported by another reconcile
        await ctx.update_status(status)
        if ended and pod.metadata.deletion_timestamp is not None:
            await confirm_terminated(ctx)
        return Result(requeue_after=runner.renewal) if not ended else None

    async def _fail(self, ctx: Context[Pod], why: str) -> None:
        """Fail a Pod that can never start. A controller would replace its Pod at once, so its Pods wait instead."""
        pod = ctx.object
        ctx.events.warning(pod, "FailedMount", why, action="Run")
        ended = ContainerStateTerminated(exit_code=CANNOT_START, reason="FailedMount", message=why)
        status = msgspec.structs.replace(pod.status, phase="Failed", reason="FailedMount", message=why)
        status.start_time = self._clock.now()
        status.observed_generation = pod.metadata.generation
        status.container_statuses = [
            ContainerStatus(
                name=each.name,
                image=each.image or "",
                image_id="",
                ready=False,
                restart_count=0,
                state=ContainerState(terminated=ended),
            )
            for each in pod.spec.containers
        ]
        await ctx.update_status(status)

    def forget(self, name: Request) -> None:
        self._pods.forget(name)
        if self._addresses is not None:
            self._addresses.release(name)

    async def _isolation(self, ctx: Context[Pod]) -> Isolation | None:
        """Return the sandboxes of this machine. If there are none, the first Pod and the log say so."""
        found = await self._pods.isolation()
        if isinstance(found, Isolation):
            return found
        if not self._pods.reported_without_sandbox:
            self._pods.reported_without_sandbox = True
            note = f"Pods run without a sandbox, as processes of this user: {found}"
            ctx.events.warning(ctx.object, "NoSandbox", note, action="Run")
            ctx.log.warning("Sandbox not found", reason=found)
        return None

    async def _sandbox(self, ctx: Context[Pod], node: Node, address: str, images: Mapping[str, Image]) -> PodSandbox:
        pod, events = ctx.object, ctx.events

        isolation = await self._isolation(ctx) if any(each.sandbox for each in images.values()) else None

        own = self._network.process_address(address) or LOOPBACK

        def emit(event: PodEvent) -> None:
            record = events.warning if event.type == "Warning" else events.normal
            record(pod, event.reason, event.note, action="Run")

        return PodSandbox(
            folder=self._pods.folder_of(pod),
            address=own,
            host=address_of(node) or "",
            nameserver=await self._nameserver() if self._nameserver is not None else None,
            allocatable=node.status.allocatable,
            api=self._api,
            folders=self._pods.folders,
            client=self._client,
            clock=self._pods.clock,
            reaper=self._pods.reaper,
            image=self._pods.images.get,
            isolation=isolation,
            sockets=_sockets(pod, own, self._api) if isolation and isolation.changes_sockets else None,
            pause=Pause(isolation.pause(), self._pods.reaper) if isolation and _shares_processes(pod) else None,
            emit=emit,
            changed=partial(self._pods.changed.send, _name_of(pod)),
        )

    async def _sweep(self, ctx: Context[Pod]) -> None:
        self._swept = True
        pods = await ctx.list(Pod, namespace="")
        self._pods.sweep({each.metadata.uid or "" for each in pods})
        if self._addresses is not None:
            self._addresses.seed(pods)

    def _address(self, ctx: Context[Pod]) -> str:
        if self._addresses is None:
            return LOOPBACK
        return self._addresses.of(ctx.request, ctx.object.status.pod_ip)


def _sockets(pod: Pod, address: str, api: APIAddress) -> PodSockets | None:
    """Return the sockets of a Pod that has an address of its own; None for other Pods."""
    return None if pod.spec.host_network or address == LOOPBACK else PodSockets(address, (api.port,))


def _shares_processes(pod: Pod) -> bool:
    return bool(pod.spec.share_process_namespace) and not pod.spec.host_pid


async def _remove(runner: PodRunner) -> None:
    await runner.end(0)
    await asyncio.to_thread(runner.remove)


def _name_of(pod: Pod) -> Request:
    return Request(pod.metadata.namespace, pod.metadata.name)


def _is_simulated(pod: Pod) -> bool:
    """Return whether the Pod was reported to run before its image had a command."""
    ids = [each.container_id for each in pod.status.container_statuses if each.container_id]
    return bool(ids) and not any(each.startswith(f"{SCHEME}://") for each in ids)
