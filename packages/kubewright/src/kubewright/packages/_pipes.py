"""The Pipe task: files that a Pod makes become Secrets and ConfigMaps.

The init container of the Pod writes the files to an emptyDir. A container that sleeps is added, so that the files can
be read. Then the Pod is deleted.
"""

from __future__ import annotations

import base64
import posixpath
import re
from typing import Any, Final, NoReturn

from kubewright.apis.core.v1 import ConfigMap, Pod, Secret
from kubewright.health import health_of
from kubewright.machinery import yaml
from kubewright.machinery.errors import CommandFailed, ConfigError, DecodeError, TemplateError, TerminalError
from kubewright.machinery.json import JSONObject, is_array, is_object
from kubewright.packages import _names as names
from kubewright.packages._api import Instance, PipeFile
from kubewright.packages._rendering import Document
from kubewright.packages._tasks import PackageTask
from kubewright.plans import StepContext, Waiting, delete_objects
from kubewright.plans.pipes import read_file, variables_in, waiting_pod

_FILE_NAME: Final = re.compile(r"[-._a-zA-Z0-9]+")


class PipeTask(PackageTask):
    """Runs a Pod, and stores the files that it makes."""

    async def run(self, step: StepContext[Instance]) -> Waiting | None:
        found = await step.ctx.client.uncached.get_or_none(
            Pod, self.place.pipe_name("pipepod"), namespace=step.object.metadata.namespace
        )
        is_outdated = found is not None and found.metadata.annotations.get(names.PLAN_UID_ANNOTATION) != self.source.uid
        if found is not None and is_outdated and (waiting := await delete_objects(step, [found])):
            return waiting  # its files are those of an earlier execution
        if found is None and await self._is_stored(step):
            return None
        pod = await step.ctx.apply(await self._waiting_pod(step))
        health = health_of(pod)
        if not health.is_ready:
            return Waiting(f'Pod "{pod.metadata.name}": {health.message}')
        artifacts = [Document(await self._artifact(step, pod, each), "pipe", 1) for each in self.task.spec.pipe or []]
        for each in await self.made(step, artifacts):
            await step.ctx.apply(each)
        await step.ctx.delete(pod)
        return None

    async def _is_stored(self, step: StepContext[Instance]) -> bool:
        """Return whether this execution has stored all files."""
        namespace = step.object.metadata.namespace
        uncached = step.ctx.client.uncached
        for each in self.task.spec.pipe or []:
            kind: type[Secret | ConfigMap] = Secret if each.kind == "Secret" else ConfigMap
            found = await uncached.get_or_none(kind, self.place.pipe_name(each.key), namespace=namespace)
            if found is None or found.metadata.annotations.get(names.PLAN_UID_ANNOTATION) != self.source.uid:
                return False
        return True

    # ---- the Pod

    async def _waiting_pod(self, step: StepContext[Instance]) -> Pod:
        """Return the Pod with the container that waits. Raises TerminalError."""
        (pod,) = await self.made(step, [Document(self._pod(), self.task.spec.pod, 1)])
        assert isinstance(pod, Pod)
        try:
            return waiting_pod(pod, [each.file or each.env_file for each in self.task.spec.pipe or []])
        except ConfigError as error:
            self._fail(str(error))

    def _pod(self) -> JSONObject:
        """Return the Pod of the template. Raises TerminalError."""
        template = self.task.spec.pod
        values = {**self.place.variables(), "Params": self.source.parameters, "Pipes": self.source.pipes}
        try:
            pod = yaml.load(self.source.templates.render(template, values))
        except TemplateError as error:
            raise TerminalError(f"task {self.task.name}: templates/{error}") from error
        except DecodeError as error:
            raise TerminalError(f"task {self.task.name}: templates/{template}, as rendered: {error}") from error
        self._check(pod)
        metadata = _object(pod.get("metadata"))
        annotations = {**_object(metadata.get("annotations")), names.PIPE_POD_ANNOTATION: "true"}
        pod |= {"apiVersion": "v1", "kind": "Pod"}
        pod["metadata"] = {**metadata, "name": self.place.pipe_name("pipepod"), "annotations": annotations}
        pod["spec"] = {**pod["spec"], "containers": []}
        return pod

    def _check(self, pod: JSONObject) -> None:
        """Raise TerminalError if the Pod is not one that KUDO runs."""
        spec = _object(pod.get("spec"))
        init = _objects(spec.get("initContainers"))
        volumes = [each.get("name", "") for each in _objects(spec.get("volumes")) if is_object(each.get("emptyDir"))]
        if spec.get("containers"):
            self._fail("spec.containers must be empty: the init container makes the files")
        if len(init) != 1:
            self._fail(f"spec.initContainers must have one container, which makes the files, got {len(init)}")
        if spec.get("restartPolicy") not in (None, "", "OnFailure"):
            self._fail(f'spec.restartPolicy must be OnFailure, got "{spec["restartPolicy"]}"')
        if len(volumes) != 1:
            self._fail(f"spec.volumes must have one emptyDir, for the files, got {len(volumes)}")
        mounts = [each for each in _objects(init[0].get("volumeMounts")) if each.get("name") == volumes[0]]
        if not mounts:
            self._fail(f"the init container must mount the volume {volumes[0]}")
        for each in self.task.spec.pipe or []:
            self._check_path(each, str(mounts[0].get("mountPath")))

    def _check_path(self, file: PipeFile, mount: str) -> None:
        path = file.file or file.env_file
        relative = posixpath.relpath(path, mount)
        if relative.startswith("."):
            self._fail(f"the file {path} must be below the mount {mount}")
        if not _FILE_NAME.fullmatch(posixpath.basename(path)):
            self._fail(f'the name of the file {path} must consist of letters, digits, ".", "_" and "-"')

    def _fail(self, message: str) -> NoReturn:
        raise TerminalError(f"task {self.task.name}: templates/{self.task.spec.pod}: {message}")

    # ---- the files

    async def _artifact(self, step: StepContext[Instance], pod: Pod, file: PipeFile) -> JSONObject:
        """Return the Secret or ConfigMap of a file. Raises TerminalError."""
        path = file.file or file.env_file
        try:
            data = await read_file(step.ctx.client, pod, path)
            values = {posixpath.basename(path): data} if file.file else variables_in(path, data)
        except (CommandFailed, ConfigError) as error:
            raise TerminalError(f"task {self.task.name}: the file {path} cannot be copied: {error}") from error
        document: JSONObject = {"apiVersion": "v1", "kind": file.kind}
        document["metadata"] = {"name": self.place.pipe_name(file.key)}
        encoded = {key: base64.b64encode(value).decode() for key, value in values.items()}
        if file.kind == "Secret":
            return {**document, "type": "Opaque", "data": encoded}
        if file.file:
            return {**document, "binaryData": encoded}
        return {**document, "data": {key: value.decode() for key, value in values.items()}}


def _object(value: Any) -> JSONObject:
    return value if is_object(value) else {}


def _objects(value: Any) -> list[JSONObject]:
    return [each for each in value if is_object(each)] if is_array(value) else []
