"""Before a container is started: its files and its environment are brought about; and after it: its last message.

Source: https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from kubewright.apis.core.v1 import Container
from kubewright_controlplane.kubelet.processes.environment import environment_of
from kubewright_controlplane.kubelet.processes.expansion import expand
from kubewright_controlplane.kubelet.processes.images import Image
from kubewright_controlplane.kubelet.processes.process import Command
from kubewright_controlplane.kubelet.processes.sources import Missing
from kubewright_controlplane.kubelet.processes.surroundings import Surroundings

_MESSAGE: Final = 4096
"""Bytes of a termination message that are kept."""


class NotYet(Exception):
    """The container can't be started until something is there: a kubelet's reasons for that, and what it is."""

    def __init__(self, state: str, event: str, note: str) -> None:
        super().__init__(note)
        self.state = state
        self.event = event


async def prepare(spec: Container, image: Image, around: Surroundings) -> Command:
    """Write what the container is to find, and give what to run. Raises NotYet."""
    root = around.root(spec)
    try:
        await around.volumes.write(around.placed)
    except Missing as error:
        raise NotYet("ContainerCreating", "FailedMount", str(error)) from error
    try:
        environment = await environment_of(spec, image, around.placed, around.api, root, around.client)
    except Missing as error:
        raise NotYet("CreateContainerConfigError", "Failed", str(error)) from error
    (root / "tmp").mkdir(parents=True, exist_ok=True)
    try:
        around.volumes.mount(spec, root, environment)
    except Missing as error:
        raise NotYet("ContainerCreating", "FailedMount", str(error)) from error
    message = _message_path(spec, root)
    message.parent.mkdir(parents=True, exist_ok=True)
    message.write_bytes(b"")
    return _command(spec, image, root, environment)


def check(command: Command) -> None:
    """Raises OSError when the command can't be started, as far as that can be told before."""
    name = command.arguments[0] if command.arguments else ""
    if shutil.which(name, path=command.environment.get("PATH")) is None:
        where = "no such file, or it can't be executed" if os.sep in name else "executable file not found in $PATH"
        raise OSError(f'exec: "{name}": {where}')
    if not Path(command.folder).is_dir():
        raise OSError(f"chdir {command.folder}: no such directory")


def last_message(spec: Container, around: Surroundings) -> str:
    """What the container has left to say, in the file that is for that."""
    path = _message_path(spec, around.root(spec))
    return path.read_bytes()[-_MESSAGE:].decode(errors="replace") if path.is_file() else ""


def _message_path(spec: Container, root: Path) -> Path:
    return root / (spec.termination_message_path or "/dev/termination-log").lstrip("/")


def _command(spec: Container, image: Image, root: Path, environment: dict[str, str]) -> Command:
    arguments = [*(spec.command or image.command), *(spec.args or (() if spec.command else image.args))]
    folder = Path(image.working_dir) if image.working_dir else root
    if spec.working_dir:
        folder = root / spec.working_dir.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
    return Command([expand(each, environment) for each in arguments], environment, str(folder))
