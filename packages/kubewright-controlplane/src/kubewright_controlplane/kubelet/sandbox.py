"""The shared resources of a Pod's containers: the address, the folder, and access to the kubelet.

Follows the PodSandbox of the CRI: https://kubernetes.io/docs/concepts/architecture/cri/
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from kubewright._runtime.clock import Clock
from kubewright.apis.core.v1 import Container, Pod
from kubewright.client._client import Client
from kubewright_controlplane.kubelet.images import Image
from kubewright_controlplane.kubelet.isolation import Isolation
from kubewright_controlplane.kubelet.process import Command, Process, Reaper
from kubewright_controlplane.kubelet.sockets import PodSockets


class PodEvent(NamedTuple):
    """An event of a Pod, to be recorded in the API."""

    type: Literal["Normal", "Warning"]
    reason: str
    note: str


@dataclass(frozen=True, slots=True)
class APIAddress:
    """The address at which Pods reach the API server."""

    host: str
    port: int

    def variables(self) -> dict[str, str]:
        """Return the variables that a kubelet sets for the Service `kubernetes`."""
        host, port = self.host, str(self.port)
        url = f"tcp://{host}:{port}"
        return {
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
            "KUBERNETES_SERVICE_PORT_HTTPS": port,
            "KUBERNETES_PORT": url,
            "KUBERNETES_PORT_443_TCP": url,
            "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
            "KUBERNETES_PORT_443_TCP_PORT": port,
            "KUBERNETES_PORT_443_TCP_ADDR": host,
        }


@dataclass(frozen=True, slots=True)
class HostFolders:
    """The folders on this machine that volumes use, other than those of a Pod."""

    volumes: Path
    """The volumes of the built-in provisioner are below it."""
    memory: Callable[[], Path | None]
    """Returns a folder in memory; None if this machine has none."""
    allowed: Sequence[Path] = ()
    """The folders in which Pods may use `hostPath`."""


class Pause:
    """A process that holds the processes of a Pod together, like the pause container of other runtimes."""

    def __init__(self, command: Command, reaper: Reaper) -> None:
        self._command = command
        self._reaper = reaper
        self._process: Process | None = None
        self._starting = asyncio.Lock()

    async def start(self) -> int:
        """Return the process ID, after the process was started. Raises OSError if it can't be started."""
        async with self._starting:
            if self._process is None:
                self._process = await Process.start(self._command, self._reaper, lambda fd, data: None)
        return self._process.pid

    async def end(self) -> None:
        """Kill the process, and all processes that it holds together."""
        if self._process is not None:
            self._process.kill()
            await self._process.wait()


@dataclass(frozen=True, slots=True)
class PodSandbox:
    """The shared resources of a Pod's containers. They do not change while the Pod runs."""

    folder: Path
    """An absolute path. Volumes, logs and the containers' root folders are below it."""
    address: str
    """The address at which the Pod's processes open their ports."""
    host: str
    """The address of the Pod's node."""
    nameserver: str | None
    """The address of the cluster's DNS server; None if there is none."""
    allocatable: Mapping[str, str]
    """The resources of the node."""
    api: APIAddress
    folders: HostFolders
    client: Client
    clock: Clock
    reaper: Reaper
    image: Callable[[str], Image | None]
    """Returns the command of an image; None if the image is simulated."""
    isolation: Isolation | None
    """The sandboxes of this machine; None if there are none."""
    sockets: PodSockets | None
    """The sockets of the Pod's programs in sandboxes; None if they get the addresses that they ask for."""
    pause: Pause | None
    """Set if the containers share their processes."""
    emit: Callable[[PodEvent], None]
    """Records an event. Does not wait and does not fail."""
    changed: Callable[[], None]
    """Requests a report of the Pod's status."""

    def warn(self, reason: str, note: str) -> None:
        self.emit(PodEvent("Warning", reason, note))

    def isolation_of(self, image: Image) -> Isolation | None:
        """Return the sandboxes of this machine, if containers of the image run in one."""
        return self.isolation if image.sandbox else None

    def root(self, container: Container) -> Path:
        """Return the folder in which a container finds its files."""
        return self.folder / "containers" / container.name

    def path(self, container: Container, path: str) -> Path:
        """Return where a path of a container is on this machine. `..` does not lead out of the container's root."""
        return Path(f"{self.root(container)}{os.path.normpath(f'/{path}')}")

    def holds(self, path: Path) -> bool:
        """Return whether a path, with its symbolic links followed, is below the Pod's folder."""
        return path.resolve().is_relative_to(self.folder.resolve())


def grace_of(pod: Pod) -> float:
    """Return the seconds that the containers of a Pod have to end."""
    seconds = pod.spec.termination_grace_period_seconds
    return 30.0 if seconds is None else float(seconds)
