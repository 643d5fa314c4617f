"""What the containers of a Pod share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kubewright._runtime.clock import Clock
from kubewright.apis.core.v1 import Container, Pod
from kubewright.client._client import Client
from kubewright_controlplane.kubelet.processes.downward import Placed
from kubewright_controlplane.kubelet.processes.environment import APIAddress
from kubewright_controlplane.kubelet.processes.images import Image
from kubewright_controlplane.kubelet.processes.process import Watcher
from kubewright_controlplane.kubelet.processes.volumes import Volumes


class Happening(NamedTuple):
    """What an Event is to tell."""

    type: str
    reason: str
    note: str


@dataclass(slots=True)
class Surroundings:
    """What the containers of a Pod share."""

    placed: Placed
    client: Client
    clock: Clock
    api: APIAddress
    watcher: Watcher
    folder: Path
    volumes: Volumes
    images: Callable[[str], Image | None]
    """The command of an image, if it has one here."""
    changed: Callable[[], None]
    """Called when there is something new to report of the Pod."""
    happenings: list[Happening] = field(default_factory=list[Happening])
    """What has not been told yet. Whoever tells takes it out."""

    def tell(self, type: str, reason: str, note: str) -> None:
        self.happenings.append(Happening(type, reason, note))
        self.changed()

    def root(self, container: Container) -> Path:
        """Under which a container finds its files."""
        return self.folder / "containers" / container.name


def grace_of(pod: Pod) -> float:
    """Seconds that the containers of a Pod have to end."""
    seconds = pod.spec.termination_grace_period_seconds
    return 30.0 if seconds is None else float(seconds)
