"""All Pods of an embedded control plane that run as processes, and the door to their logs.

`handle` answers as a kubelet's own server does; the API server asks it for the logs of a Pod, and would for more.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, unquote

from kubewright._runtime.clock import Clock, SystemClock
from kubewright.apis.core.v1 import Pod
from kubewright.client._client import Client
from kubewright.controllers import Request as Name
from kubewright.controllers.sources import Channel
from kubewright.http.message import Request, Response
from kubewright.machinery import time
from kubewright_controlplane.kubelet.outcome import ANNOTATION
from kubewright_controlplane.kubelet.processes.container import SCHEME, NoLog
from kubewright_controlplane.kubelet.processes.downward import Placed
from kubewright_controlplane.kubelet.processes.environment import APIAddress
from kubewright_controlplane.kubelet.processes.images import Image, ImageTable
from kubewright_controlplane.kubelet.processes.logs import ContainerLog, LogOptions
from kubewright_controlplane.kubelet.processes.pod import PodRunner
from kubewright_controlplane.kubelet.processes.portforward import PROTOCOLS as PORT_PROTOCOLS
from kubewright_controlplane.kubelet.processes.portforward import PortForward
from kubewright_controlplane.kubelet.processes.process import Watcher
from kubewright_controlplane.kubelet.processes.session import PROTOCOLS, Channels, Wishes, failure
from kubewright_controlplane.kubelet.processes.surroundings import Surroundings
from kubewright_controlplane.kubelet.processes.volumes import Volumes

if TYPE_CHECKING:
    from kubewright.http.websocket import WebSocket

TABLE: Final = "images.json"
_LAST_GRACE: Final = 5.0
"""Seconds that Pods have to end with the control plane."""


class ProcessRuntime:
    """Runs Pods, and keeps what they wrote, in `folder`."""

    def __init__(self, folder: Path, *, images: Mapping[str, Image] | None = None) -> None:
        """`images` have a command besides those in the table that is kept in `folder`."""
        self.images = ImageTable(folder / TABLE, images)
        self.changed = Channel()
        """The Pods of which there is something new to report."""
        self._folder = folder
        self._clock: Clock = SystemClock()
        self._watcher = Watcher()
        self._pods: dict[Name, PodRunner] = {}
        self._past: dict[Name, Path] = {}
        """Folders of Pods that ended under an earlier control plane."""
        self._clearing: set[asyncio.Task[None]] = set()

    def runner(self, pod: Pod) -> PodRunner | None:
        """What runs the Pod; None for one that does not run here, yet or at all."""
        found = self._pods.get(_name(pod))
        return found if found is not None and found.uid == pod.metadata.uid else None

    def images_of(self, pod: Pod) -> Mapping[str, Image]:
        """Those of its images that have a command. None for a Pod that is simulated already, or that asks to be.

        Raises ConfigError when the image table can't be used.
        """
        if ANNOTATION in pod.metadata.annotations or _is_simulated(pod):
            return {}
        names = {each.image or "" for each in (*pod.spec.init_containers, *pod.spec.containers)}
        return {name: image for name in names if (image := self.images.get(name)) is not None}

    def start(self, placed: Placed, images: Mapping[str, Image], client: Client, api: APIAddress) -> PodRunner:
        """Run a Pod."""
        pod, name = placed.pod, _name(placed.pod)
        folder = self._folder_of(pod)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        around = Surroundings(
            placed=placed,
            client=client,
            clock=self._clock,
            api=api,
            watcher=self._watcher,
            folder=folder,
            volumes=Volumes(folder / "volumes", client, self._clock),
            images=self.images.get,
            changed=partial(self.changed.send, name),
        )
        self._pods[name] = runner = PodRunner(pod, images, around)
        return runner

    def remember(self, pod: Pod) -> None:
        """A Pod that has ended: if it ran here under an earlier control plane, its logs are still there."""
        if self._folder_of(pod).is_dir():
            self._past[_name(pod)] = self._folder_of(pod)

    def forget(self, name: Name, *, keep: str | None = None) -> None:
        """Pods of that name are gone, but for the one with the uid `keep`: kill what is left, and remove the files."""
        past = self._past.get(name)
        if past is not None and past.name != keep:
            del self._past[name]
            shutil.rmtree(past, ignore_errors=True)
        runner = self._pods.get(name)
        if runner is None or runner.uid == keep:
            return
        del self._pods[name]
        task = asyncio.create_task(self._clear(runner), name=f"clear {name}")
        self._clearing.add(task)
        task.add_done_callback(self._clearing.discard)

    def sweep(self, uids: set[str]) -> None:
        """Remove what earlier control planes left of Pods other than these."""
        for folder in self._folder.glob("pods/*"):
            if folder.name not in uids:
                shutil.rmtree(folder, ignore_errors=True)

    async def close(self) -> None:
        """End all Pods."""
        runners, self._pods = list(self._pods.values()), {}
        await asyncio.gather(*(each.end(_LAST_GRACE) for each in runners), *self._clearing)
        await asyncio.to_thread(self._watcher.close)

    async def _clear(self, runner: PodRunner) -> None:
        await runner.end(0)
        runner.remove()

    # What a kubelet serves

    async def handle(self, request: Request) -> Response:
        """`GET /{containerLogs|exec|attach}/{namespace}/{pod}/{container}`, and `/portForward/{namespace}/{pod}`.

        404 for what does not run here.
        """
        what, *rest = [unquote(part) for part in request.path.strip("/").split("/")]
        if what == "portForward" and len(rest) == 2:
            return self._forward(Name(*rest), request)
        if len(rest) != 3:
            return Response.plain(404, "404 page not found\n")
        namespace, pod, container = rest
        name, query = Name(namespace, pod), parse_qs(request.query)
        if what == "containerLogs":
            return self._log(name, container, {key: values[0] for key, values in query.items()})
        if what == "attach":
            return self._enter(name, container, request, None)
        if what == "exec" and "command" not in query:
            return Response.plain(400, "you must specify at least 1 command for the container\n")
        if what == "exec":
            return self._enter(name, container, request, query["command"])
        return Response.plain(404, "404 page not found\n")

    def _enter(self, name: Name, container: str, request: Request, command: list[str] | None) -> Response:
        """Let somebody into a container: to run a command, or to what runs in it."""
        try:
            runner = self._pods[name].container(container)
        except KeyError:
            return Response.plain(404, f"container {container} of pod {name} does not run here\n")
        if runner.state.running is None:
            return Response.plain(500, f'unable to upgrade connection: container not found ("{container}")\n')
        if request.upgrade != "websocket":
            return Response.plain(400, "Upgrade request required: to WebSocket, which kubectl speaks from 1.31 on\n")
        wishes = Wishes.of(parse_qs(request.query))
        if not (wishes.stdin or wishes.stdout or wishes.stderr):
            return Response.plain(400, "you must specify at least 1 of stdin, stdout, stderr\n")
        from kubewright.http.websocket import accept  # its library takes long to load, and most enter nothing

        async def speak(socket: WebSocket) -> None:
            channels = Channels(socket, wishes)
            try:
                run = runner.current_run
                ending = await (run.execute(command, channels) if command else run.attach(channels))
            except LookupError:
                ending = failure(f'container not found ("{container}")')
            if ending is not None:
                await channels.tell(ending)

        return accept(request, PROTOCOLS, speak)

    def _forward(self, name: Name, request: Request) -> Response:
        """Let somebody speak with the ports of a Pod."""
        runner = self._pods.get(name)
        if runner is None or runner.ended:
            return Response.plain(404, f"pod {name} does not run here\n")
        if request.upgrade != "websocket":
            return Response.plain(400, "Upgrade request required: to WebSocket, which kubectl speaks from 1.31 on\n")
        from kubewright.http.websocket import accept

        return accept(request, PORT_PROTOCOLS, lambda socket: PortForward(socket, runner.address).serve())

    def _log(self, name: Name, container: str, query: Mapping[str, str]) -> Response:
        previous = query.get("previous") in ("true", "1")
        try:
            log = self._find_log(name, container, previous=previous)
        except KeyError:
            return Response.plain(404, f"container {container} of pod {name} does not run here\n")
        except NoLog as error:
            return Response.plain(400, str(error).format(f'"{container}" in pod "{name.name}"'))
        return Response(200, {"content-type": "text/plain"}, log.read(_options(query, self._clock.now())))

    def _find_log(self, name: Name, container: str, *, previous: bool) -> ContainerLog:
        """Raises NoLog; KeyError when no such container runs here or did."""
        runner = self._pods.get(name)
        if runner is not None:
            return runner.log(container, previous=previous)
        runs = sorted((self._past[name] / "logs" / container).glob("*"), key=lambda folder: int(folder.name))
        if not runs:
            raise KeyError(container)
        if previous and len(runs) < 2:
            raise NoLog("previous terminated container {} not found")
        log = ContainerLog(runs[-2 if previous else -1], self._clock)
        log.close()
        return log

    def _folder_of(self, pod: Pod) -> Path:
        return self._folder / "pods" / (pod.metadata.uid or "")


def _name(pod: Pod) -> Name:
    return Name(pod.metadata.namespace, pod.metadata.name)


def _is_simulated(pod: Pod) -> bool:
    """It has been reported to run before its image had a command."""
    ids = [each.container_id for each in pod.status.container_statuses if each.container_id]
    return bool(ids) and not any(each.startswith(f"{SCHEME}://") for each in ids)


def _options(query: Mapping[str, str], now: datetime) -> LogOptions:
    """The options of `pods/log`, which the API server has checked."""
    since = time.parse(query["sinceTime"]) if "sinceTime" in query else None
    if "sinceSeconds" in query:
        since = now - timedelta(seconds=int(query["sinceSeconds"]))
    return LogOptions(
        follow=query.get("follow") in ("true", "1"),
        timestamps=query.get("timestamps") in ("true", "1"),
        since=since,
        tail=int(query["tailLines"]) if "tailLines" in query else None,
        limit=int(query["limitBytes"]) if "limitBytes" in query else None,
    )
