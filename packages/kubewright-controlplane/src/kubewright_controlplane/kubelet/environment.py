"""The start configuration of a container: its files, its environment and its command.

A variable comes from the first of these that has it: the container's `env`, its `envFrom`, the address of the API
server, the Services of the namespace, the image, and this machine (PATH and the locale). `$(NAME)` in a value refers to
variables that are set before it.

Follows k8s.io/kubernetes pkg/kubelet/kubelet_pods.go, makeEnvironmentVariables, and
https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from kubewright.apis.core.v1 import Container, EnvVarSource, Pod, Service
from kubewright.client._client import Client
from kubewright.client._config import SANDBOX
from kubewright.manager._serving import BIND_HOST
from kubewright_controlplane.kubelet import servicelinks, sources
from kubewright_controlplane.kubelet.images import Image
from kubewright_controlplane.kubelet.isolation import Isolation, User, mounts_of_files
from kubewright_controlplane.kubelet.names import hostname_of, pod_files
from kubewright_controlplane.kubelet.process import Command
from kubewright_controlplane.kubelet.rootfolder import Mount, absolute, build
from kubewright_controlplane.kubelet.sandbox import PodSandbox
from kubewright_controlplane.kubelet.sources import SourceMissing, expand
from kubewright_controlplane.kubelet.volumes import Volumes
from kubewright_controlplane.ports import process_port

IMAGE: Final = "KUBEWRIGHT_IMAGE"
"""The variable with the name of the container's image: several images may share a command."""
PORT: Final = "KUBEWRIGHT_PORT_"
"""The prefix of variables that map a port of the container to the port that its process has to open."""
_INHERITED: Final = ("PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ")
"""The variables of this machine that containers get. HOME is not one: it may hold an administrator's kubeconfig."""
_IMAGE_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The PATH of images with files of their own, as in container runtimes."""
_MESSAGE_MODE: Final = 0o666
"""Containers of any user write their termination message."""
_MESSAGE_BYTES: Final = 4096
"""The length of a termination message that is kept."""


class NotReadyToStart(Exception):
    """The container has to wait. Holds the reasons that a kubelet reports in the status and in an event."""

    def __init__(self, state: str, event: str, note: str) -> None:
        super().__init__(note)
        self.state = state
        self.event = event


async def prepare(
    container: Container,
    image: Image,
    pod: Pod,
    sandbox: PodSandbox,
    volumes: Volumes,
    target: Callable[[], int] | None,
) -> Command:
    """Write the files of a container, and return the command to run. Raises NotReadyToStart.

    `target` returns the first process of the container whose processes this one shares, or raises LookupError.
    """
    isolation = sandbox.isolation_of(image)
    sandbox.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        await volumes.write(pod)
    except SourceMissing as error:
        raise NotReadyToStart("ContainerCreating", "FailedMount", str(error)) from error
    try:
        environment = await _environment(container, image, pod, sandbox)
    except SourceMissing as error:
        raise NotReadyToStart("CreateContainerConfigError", "Failed", str(error)) from error
    if isolation is None:
        (sandbox.root(container) / "tmp").mkdir(parents=True, exist_ok=True)
    try:
        mounts = volumes.mounts(container, environment)
        if isolation is None:
            volumes.link(container, mounts)
    except SourceMissing as error:
        raise NotReadyToStart("ContainerCreating", "FailedMount", str(error)) from error
    try:
        _write_message_file(container, image, sandbox)
    except OSError as error:
        note = f"terminationMessagePath {container.termination_message_path}: {error.strerror or error}"
        raise NotReadyToStart("CreateContainerConfigError", "Failed", note) from error
    if isolation is None:
        return _command(container, image, sandbox, environment)
    try:
        user = User.of(container, pod)
    except ValueError as error:
        raise NotReadyToStart("CreateContainerConfigError", "Failed", f"Error: {error}") from error
    join = await sandbox.pause.start() if sandbox.pause is not None else _joined(target)
    return await asyncio.to_thread(
        _isolated, container, image, pod, sandbox, environment, mounts, isolation, user, join
    )


def _joined(target: Callable[[], int] | None) -> int | None:
    try:
        return target() if target is not None else None
    except LookupError as error:
        note = f"unable to find target container {error.args[0]}"
        raise NotReadyToStart("CreateContainerConfigError", "Failed", f"Error: {note}") from error


def _isolated(
    container: Container,
    image: Image,
    pod: Pod,
    sandbox: PodSandbox,
    environment: dict[str, str],
    mounts: Sequence[Mount],
    isolation: Isolation,
    user: User,
    join: int | None,
) -> Command:
    """Build the root folder of a container in a sandbox, and return its command."""
    folder = absolute(container.working_dir or image.working_dir)
    message = Mount(_message_path(container, image, sandbox), _message_target(container), read_only=False)
    files = mounts_of_files(pod_files(pod, sandbox.folder / "etc", sandbox.address, sandbox.nameserver), mounts)
    root = build(sandbox.root(container), image.base, [*mounts, *files, message], folder, image.shown())
    launcher = isolation.launcher(container, pod, user, root, folder, join)
    return Command(_arguments(container, image, environment), environment, folder, launcher, sockets=sandbox.sockets)


def check(command: Command) -> None:
    """Raise OSError if the command can't be started, as far as this is visible beforehand."""
    name, path = command.arguments[0] if command.arguments else "", command.environment.get("PATH", "")
    if (command.launcher.view.program(name, path) if command.launcher else shutil.which(name, path=path)) is None:
        reason = "no such file, or it can't be executed" if os.sep in name else "executable file not found in $PATH"
        raise OSError(f'exec: "{name}": {reason}')
    if command.launcher is None and not Path(command.folder).is_dir():
        raise OSError(f"chdir {command.folder}: no such directory")


def termination_message(container: Container, image: Image | None, sandbox: PodSandbox) -> str:
    """Return the content of the container's termination message file."""
    if image is None:
        return ""
    path = _message_path(container, image, sandbox)
    if not path.is_file() or not sandbox.holds(path):
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _MESSAGE_BYTES))
        return file.read(_MESSAGE_BYTES).decode(errors="replace")


def _message_target(container: Container) -> str:
    return absolute(container.termination_message_path or "/dev/termination-log")


def _message_path(container: Container, image: Image, sandbox: PodSandbox) -> Path:
    """Return where the termination message is. With a sandbox, no program can put a link there."""
    if sandbox.isolation_of(image) is not None:
        return sandbox.folder / "messages" / container.name
    return sandbox.path(container, _message_target(container))


def _write_message_file(container: Container, image: Image, sandbox: PodSandbox) -> None:
    """Empty the termination message file. Raises OSError, also if a link leads out of the Pod's folder."""
    path = _message_path(container, image, sandbox)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not sandbox.holds(path):
        raise OSError(errno.EPERM, "leads out of the Pod's folder")
    path.write_bytes(b"")
    path.chmod(_MESSAGE_MODE)


def _command(container: Container, image: Image, sandbox: PodSandbox, environment: dict[str, str]) -> Command:
    folder = Path(image.working_dir) if image.working_dir else sandbox.root(container)
    if container.working_dir:
        folder = sandbox.path(container, container.working_dir)
        folder.mkdir(parents=True, exist_ok=True)
    return Command(_arguments(container, image, environment), environment, str(folder))


def _arguments(container: Container, image: Image, environment: Mapping[str, str]) -> list[str]:
    arguments = [
        *(container.command or image.command),
        *(container.args or (() if container.command else image.args)),
    ]
    return [expand(each, environment) for each in arguments]


async def _environment(container: Container, image: Image, pod: Pod, sandbox: PodSandbox) -> dict[str, str]:
    """Return the variables of a container. Raises SourceMissing."""
    root = Path("/") if sandbox.isolation_of(image) is not None else sandbox.root(container)
    machine = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    if image.root:
        machine["PATH"] = _IMAGE_PATH
    given = {
        "HOME": str(root),
        "TMPDIR": str(root / "tmp"),
        "HOSTNAME": hostname_of(pod),
        SANDBOX: str(root),
        BIND_HOST: sandbox.address,
        IMAGE: container.image or "",
    }
    ports = {*image.ports, *(each.container_port for each in container.ports)}
    given |= {f"{PORT}{port}": str(process_port(port)) for port in sorted(ports)}
    links = await _service_links(pod, sandbox.client)
    values = machine | given | image.env | links | sandbox.api.variables()
    values |= await _from_sources(container, pod, sandbox.client)
    for variable in container.env:
        if variable.value_from is None:
            values[variable.name] = expand(variable.value or "", values)
            continue
        value = await _value(container, variable.value_from, pod, sandbox)
        if value is not None:
            values[variable.name] = value
    return values


async def _service_links(pod: Pod, client: Client) -> dict[str, str]:
    if pod.spec.enable_service_links is False:
        return {}
    return servicelinks.variables(await client.list(Service, namespace=pod.metadata.namespace))


async def _from_sources(container: Container, pod: Pod, client: Client) -> dict[str, str]:
    namespace = pod.metadata.namespace or ""
    values: dict[str, str] = {}
    for source in container.env_from:
        found: Mapping[str, bytes] | None = None
        if source.config_map_ref is not None:
            ref = source.config_map_ref
            found = await sources.config_map(client, namespace, ref.name or "", optional=bool(ref.optional))
        elif source.secret_ref is not None:
            secret = source.secret_ref
            found = await sources.secret(client, namespace, secret.name or "", optional=bool(secret.optional))
        values |= {f"{source.prefix or ''}{key}": _text(value) for key, value in (found or {}).items()}
    return values


async def _value(container: Container, source: EnvVarSource, pod: Pod, sandbox: PodSandbox) -> str | None:
    """Return the value that is referred to; None if it is optional and missing."""
    namespace, client = pod.metadata.namespace or "", sandbox.client
    if source.field_ref is not None:
        try:
            return sources.pod_field(pod, sandbox, source.field_ref.field_path)
        except KeyError:
            raise SourceMissing(f"unsupported fieldPath: {source.field_ref.field_path}") from None
    if source.resource_field_ref is not None:
        name = source.resource_field_ref.container_name
        of = next((each for each in (*pod.spec.init_containers, *pod.spec.containers) if each.name == name), container)
        try:
            return sources.container_resource(of, sandbox.allocatable, source.resource_field_ref)
        except KeyError:
            raise SourceMissing(f"unsupported container resource: {source.resource_field_ref.resource}") from None
    if source.config_map_key_ref is not None:
        ref = source.config_map_key_ref
        found = await sources.config_map(client, namespace, ref.name or "", optional=bool(ref.optional))
        return _entry(found, ref.key, f"ConfigMap {namespace}/{ref.name}", optional=bool(ref.optional))
    if source.secret_key_ref is not None:
        key = source.secret_key_ref
        found = await sources.secret(client, namespace, key.name or "", optional=bool(key.optional))
        return _entry(found, key.key, f"Secret {namespace}/{key.name}", optional=bool(key.optional))
    raise SourceMissing("fileKeyRef of a variable is not supported for containers that run as processes")


def _entry(found: Mapping[str, bytes] | None, key: str, where: str, *, optional: bool) -> str | None:
    if found is not None and key in found:
        return _text(found[key])
    if optional:
        return None
    raise SourceMissing(f"couldn't find key {key} in {where}")


def _text(value: bytes) -> str:
    return value.decode(errors="surrogateescape")
