"""The Pipe task: files that a Pod makes become a ConfigMap or a Secret.

    def pod_for(store: Store) -> Pod:
        mount = VolumeMount(name="out", mount_path="/out")
        make = Container(name="make", image="store.example.com/keys:1", volume_mounts=[mount])
        volume = Volume(name="out", empty_dir=EmptyDirVolumeSource())
        return Pod(metadata=ObjectMeta(name="keys"), spec=PodSpec(containers=[make], volumes=[volume]))

    Step("keys", [Pipe(pod_for, into=secret_for, files={"tls.key": "/out/tls.key"})])

The containers of the Pod run one after the other, as init containers, and write to an emptyDir. Then a container that
only sleeps starts, in which the files are read. After they are stored, the Pod is deleted.

Guarantees
    Killed at any point, the task continues and ends the same. What an execution has stored is not made again by it.
    A Pod of an earlier execution is never taken for that of this one.

`waiting_pod`, `read_file` and `variables_in` are for tasks of your own.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from kubewright.apis.core.v1 import ConfigMap, Container, Pod, Secret, VolumeMount
from kubewright.client import Client
from kubewright.machinery import names
from kubewright.machinery.errors import CommandFailed, ConfigError, TerminalError
from kubewright.models import Object
from kubewright.plans._gates import Waiting
from kubewright.plans._plan import StepContext, Task
from kubewright.plans._tasks import Builder, delete_objects, live_object, made_by, name_of, unreadiness

T = TypeVar("T", bound=Object)

PIPE: Final = "plans.kubewright.dev/pipe"
"""Annotation of the Pod and of what it made: the execution, the phase and the step."""
WAITER: Final = "waiter"
"""The name of the container that sleeps while the files are read."""
FILE_LIMIT: Final = 1 << 20
"""Bytes of a file. A Secret or ConfigMap cannot hold more."""


class Pipe(Task[T]):
    """Runs a Pod, and stores the files that it makes in a ConfigMap or Secret.

    Drift repair does not restore what it has stored: that takes a Pod. A new execution of the plan does.
    """

    def __init__(
        self,
        pod: Builder[T],
        *,
        into: Builder[T],
        files: Mapping[str, str] | None = None,
        env_file: str = "",
        image: str = "busybox",
    ) -> None:
        """Store the files that `pod` makes in the ConfigMap or Secret that `into` makes.

        files: the paths in the Pod, by the keys under which they are stored. env_file: a file with lines KEY=VALUE,
        each of which becomes a key. image: an image with `sh`, `sleep` and `cat`, to read the files in.
        """
        self._pod = pod
        self._into = into
        self._files = dict(files or {})
        self._env_file = env_file
        self._image = image
        if not self._files and not env_file:
            raise ConfigError("Pipe: name the files to store, as files={...} or env_file=")

    async def run(self, step: StepContext[T]) -> Waiting | None:
        origin = f"{step.execution}/{step.phase}/{step.step}"
        pod, target = await self._made(step)
        found = await live_object(step, pod)
        is_outdated = found is not None and found.metadata.annotations.get(PIPE) != origin
        if is_outdated and (waiting := await delete_objects(step, [pod])):
            return waiting
        stored = await live_object(step, target)
        if stored is None or stored.metadata.annotations.get(PIPE) != origin:
            pod.metadata.annotations = {**pod.metadata.annotations, PIPE: origin}
            live = await step.ctx.apply(pod)
            if waiting := unreadiness(live, None):
                return waiting
            await self._fill(step, live, target)
            target.metadata.annotations = {**target.metadata.annotations, PIPE: origin}
            await step.ctx.apply(target)
        await delete_objects(step, [pod])
        return None

    async def _made(self, step: StepContext[T]) -> tuple[Pod, ConfigMap | Secret]:
        """Return the Pod, and the object for its files. Raises TerminalError."""
        pods, targets = await made_by([self._pod], step), await made_by([self._into], step)
        pod = pods[0] if len(pods) == 1 else None
        target = targets[0] if len(targets) == 1 else None
        if not isinstance(pod, Pod) or not isinstance(target, ConfigMap | Secret):
            raise TerminalError(f"step {step.step}: a Pipe needs one Pod, and one ConfigMap or Secret in `into`")
        try:
            return waiting_pod(pod, self._paths(), self._image), target
        except ConfigError as error:
            raise TerminalError(f"{name_of(pod)}: {error}") from None

    def _paths(self) -> list[str]:
        return [*self._files.values(), *([self._env_file] if self._env_file else [])]

    async def _fill(self, step: StepContext[T], pod: Pod, target: ConfigMap | Secret) -> None:
        """Copy the files of a Pod into an object. Raises TerminalError if they do not exist or are too long."""
        client = step.ctx.client
        try:
            values = {key: await read_file(client, pod, path) for key, path in self._files.items()}
            if self._env_file:
                values |= variables_in(self._env_file, await read_file(client, pod, self._env_file))
        except (CommandFailed, ConfigError) as error:
            raise TerminalError(f"{name_of(pod)}: {error}") from error
        store(values, target)


def waiting_pod(pod: Pod, paths: Iterable[str], image: str = "busybox") -> Pod:
    """Change a Pod so that it makes its files, and then waits until they are read.

    Raises ConfigError if a path is not in an emptyDir that a container mounts.
    """
    spec = pod.spec
    makers = [*spec.init_containers, *spec.containers]
    if not makers:
        raise ConfigError("spec.containers: a container is needed that makes the files")
    scratch = {each.name for each in spec.volumes if each.empty_dir is not None}
    known = [each for maker in makers for each in maker.volume_mounts if each.name in scratch]
    mounts = {each.name: each for each in (_mount_of(path, known) for path in paths)}
    command = ["/bin/sh", "-c", "sleep infinity"]
    waiter = Container(name=WAITER, image=image, command=command, volume_mounts=list(mounts.values()))
    spec.init_containers, spec.containers = makers, [waiter]
    if spec.restart_policy in (None, "", "Always"):
        spec.restart_policy = "OnFailure"
    if spec.termination_grace_period_seconds is None:
        spec.termination_grace_period_seconds = 0  # the container that waits has nothing to end
    return pod


def _mount_of(path: str, mounts: Iterable[VolumeMount]) -> VolumeMount:
    """Return the mount that a file is in. Raises ConfigError."""
    for each in mounts:
        relative = posixpath.relpath(path, each.mount_path)
        if posixpath.isabs(path) and relative != "." and not relative.startswith(".."):
            return VolumeMount(name=each.name, mount_path=each.mount_path)
    raise ConfigError(f"the file {path} is in no emptyDir that a container mounts; write it below such a mount")


async def read_file(client: Client, pod: Pod, path: str) -> bytes:
    """Return a file of a Pod that waits. Raises CommandFailed if it does not exist or is too long."""
    name, namespace = pod.metadata.name, pod.metadata.namespace or ""
    done = await client.exec(name, ["cat", path], namespace=namespace, container=WAITER, limit=FILE_LIMIT)
    return done.stdout


def variables_in(path: str, data: bytes) -> dict[str, bytes]:
    """Return the variables in a file with lines KEY=VALUE. Raises ConfigError."""
    found: dict[str, bytes] = {}
    try:
        lines = data.decode().removeprefix("\ufeff").splitlines()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text") from error
    for number, line in enumerate(lines, 1):
        text = line.lstrip()
        if not text or text.startswith("#"):
            continue
        key, equals, value = text.partition("=")
        if not equals or names.environment_name(key):
            raise ConfigError(f"{path}:{number}: write KEY=VALUE, got {text[:40]!r}")
        found[key] = value.encode()
    return found


def store(values: Mapping[str, bytes], target: ConfigMap | Secret) -> None:
    """Add values to the data of an object. In a ConfigMap, what is not UTF-8 text becomes binary data."""
    if isinstance(target, Secret):
        target.data = {**target.data, **values}
        return
    for key, value in values.items():
        try:
            target.data = {**target.data, key: value.decode()}
        except UnicodeDecodeError:
            target.binary_data = {**target.binary_data, key: value}
