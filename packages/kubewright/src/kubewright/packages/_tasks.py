"""The tasks of packages, as tasks of `kubewright.plans`.

Each task renders its templates when it runs. A template that cannot be rendered, or an object that cannot be decoded,
is a TerminalError: the plan fails, and the message names the file and the line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubewright.apis.core.v1 import ConfigMap, ObjectReference, PersistentVolumeClaim, Secret
from kubewright.apis.meta.v1 import ObjectMeta, OwnerReference
from kubewright.machinery import yaml
from kubewright.machinery.errors import DecodeError, TemplateError, TerminalError
from kubewright.machinery.json import JSONObject
from kubewright.models import Object, codec
from kubewright.packages import _names as names
from kubewright.packages._api import Instance, InstanceSpec, OperatorVersion, Task, operator_version_name
from kubewright.packages._enhancing import Origin, add_hashes, enhance
from kubewright.packages._kinds import Kinds, current_version
from kubewright.packages._rendering import Document, Place, TemplateFiles
from kubewright.packages._values import boolean, printed, yaml_text
from kubewright.plans import Child, Children, StepContext, Waiting, apply_objects, delete_objects, unreadiness
from kubewright.plans import Task as PlanTask

_RUN_ONCE: Final = frozenset({("batch", "Job"), ("", "Pod")})
"""Kinds whose objects end. Drift repair does not make them again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What the tasks of one plan are made from: the package's content, and the instance."""

    version: OperatorVersion
    templates: TemplateFiles
    kinds: Kinds
    parameters: dict[str, Any]
    pipes: dict[str, str]
    uid: str
    """The uid of the execution."""


class PackageTask(PlanTask[Instance]):
    """A task of a package, at its place in a plan."""

    def __init__(self, source: Source, task: Task, place: Place) -> None:
        self.source = source
        self.task = task
        self.place = place

    async def objects(self, step: StepContext[Instance], templates: Sequence[str]) -> list[Object]:
        """Return the objects of templates, with KUDO's metadata. Raises TerminalError."""
        return await self.made(step, self.documents(templates))

    async def made(self, step: StepContext[Instance], documents: list[Document]) -> list[Object]:
        """Return documents as objects of the instance, with KUDO's metadata. Raises TerminalError."""
        found = [await self.source.kinds.object(each) for each in await self.enhanced(step, documents)]
        return [owned(step.object, each) for each in found]

    def documents(self, templates: Sequence[str]) -> list[Document]:
        """Return the documents that templates make. Raises TerminalError."""
        values = {**self.place.variables(), "Params": self.source.parameters, "Pipes": self.source.pipes}
        try:
            found = [each for name in templates for each in self.source.templates.objects(name, values)]
        except TemplateError as error:
            raise TerminalError(f"task {self.task.name}: templates/{error}") from error
        for each in found:
            current_version(each.content)
        return found

    async def enhanced(self, step: StepContext[Instance], documents: list[Document]) -> list[Document]:
        """Add KUDO's metadata to documents."""
        origin = Origin(
            operator=self.place.operator,
            operator_version=self.place.operator_version,
            instance=self.place.name,
            plan=self.place.plan,
            phase=self.place.phase,
            step=self.place.step,
            uid=self.source.uid,
        )
        for each in documents:
            if not isinstance(each.content.get("metadata"), dict):
                raise TerminalError(f"task {self.task.name}: templates/{each.template}: an object has no metadata")
            enhance(each.content, origin)
        await add_hashes([each.content for each in documents], _finder(step))
        return documents


class ApplyTask(PackageTask):
    """Applies the objects of templates, and waits until they are healthy.

    A claim is healthy although it is not bound, as in KUDO: its Pod may come in a later step, and some storage classes
    bind a claim when its Pod exists.
    """

    async def run(self, step: StepContext[Instance]) -> Waiting | None:
        objects = await self.objects(step, self.task.spec.resources or [])
        return await apply_objects(step, objects, ready=_unhealthy)

    async def children(self, step: StepContext[Instance]) -> Children:
        objects = await self.objects(step, self.task.spec.resources or [])
        kept = [each for each in objects if (each.__api__.group, each.__api__.kind) not in _RUN_ONCE]
        return Children(present=[Child(each, ready=_unhealthy) for each in kept])


class DeleteTask(PackageTask):
    """Deletes the objects of templates, and waits until they are gone. Kinds that are not served are skipped."""

    async def run(self, step: StepContext[Instance]) -> Waiting | None:
        return await delete_objects(step, await self._known(step))

    async def children(self, step: StepContext[Instance]) -> Children:
        return Children(absent=await self._known(step))

    async def _known(self, step: StepContext[Instance]) -> list[Object]:
        documents = self.documents(self.task.spec.resources or [])
        found = [await self.source.kinds.known(each) for each in documents]
        return [owned(step.object, each) for each in found if each is not None]


class ToggleTask(PackageTask):
    """Applies objects if a parameter is true, and deletes them if it is false."""

    async def run(self, step: StepContext[Instance]) -> Waiting | None:
        return await self._chosen().run(step)

    async def children(self, step: StepContext[Instance]) -> Children:
        return await self._chosen().children(step)

    def _chosen(self) -> PackageTask:
        name = self.task.spec.parameter
        value = self.source.parameters.get(name)
        enabled = boolean(value) if isinstance(value, str) else None
        if enabled is None:
            raise TerminalError(f"task {self.task.name}: the parameter {name} must be true or false, got {value!r}")
        return (ApplyTask if enabled else DeleteTask)(self.source, self.task, self.place)


class DummyTask(PackageTask):
    """Does nothing: it completes, waits or fails, as the package says."""

    async def run(self, step: StepContext[Instance]) -> Waiting | None:
        spec = self.task.spec
        if spec.want_err:
            message = f"task {self.task.name}: the package wants this error"
            raise TerminalError(message) if spec.fatal else DummyError(message)
        return None if spec.done else Waiting(f"task {self.task.name} never completes", requeue_after=60)


class DummyError(Exception):
    """The error of a Dummy task."""


class OperatorTask(PackageTask):
    """Installs another package as a child instance, and waits until its plan has ended."""

    async def run(self, step: StepContext[Instance]) -> Waiting | None:
        return await apply_objects(step, [self._child(step)], ready=_unready)

    async def children(self, step: StepContext[Instance]) -> Children:
        return Children(present=[Child(self._child(step), ready=_unready)])

    def _child(self, step: StepContext[Instance]) -> Instance:
        spec, parent = self.task.spec, step.object
        version = operator_version_name(spec.package, spec.app_version, spec.operator_version)
        owner = owner_of(parent, controller=None)
        return Instance(
            metadata=ObjectMeta(
                name=spec.instance_name or f"{self.place.name}-{spec.package}",
                namespace=parent.metadata.namespace,
                labels={names.OPERATOR_LABEL: spec.package},
                owner_references=[owner],
            ),
            spec=InstanceSpec(operator_version=ObjectReference(name=version), parameters=self._parameters()),
        )

    def _parameters(self) -> dict[str, str]:
        """Return the values in the parameter file. Raises TerminalError."""
        name = self.task.spec.parameter_file
        if not name:
            return {}
        values = {**self.place.variables(), "Params": self.source.parameters}
        try:
            return parameter_values(self.source.templates.render(name, values))
        except TemplateError as error:
            raise TerminalError(f"task {self.task.name}: templates/{error}") from error
        except DecodeError as error:
            raise TerminalError(f"task {self.task.name}: templates/{name}, as rendered: {error}") from error


def parameter_values(text: str) -> dict[str, str]:
    """Return the values in a YAML file of parameters. Raises DecodeError."""
    found: dict[str, str] = {}
    for key, value in (yaml.load(text) if text.strip() else {}).items():
        if value is None:
            raise DecodeError(f"{key}: null is not a value; remove the line, or write an empty text in quotes")
        found[key] = yaml_text(value) if isinstance(value, dict | list) else printed(value)
    return found


def owner_of(instance: Instance, *, controller: bool | None = True) -> OwnerReference:
    """Return the reference to an instance as an owner."""
    return OwnerReference(
        api_version=instance.api_version,
        kind=instance.kind,
        name=instance.metadata.name,
        uid=instance.metadata.uid,
        controller=controller,
        block_owner_deletion=controller,
    )


def owned(instance: Instance, obj: Object) -> Object:
    """Put an object into the namespace of an instance, which becomes its owner. Others are cluster-scoped."""
    if obj.__api__.namespaced:
        obj.metadata.namespace = instance.metadata.namespace
        obj.metadata.owner_references = [owner_of(instance)]
    return obj


def _unhealthy(live: Object) -> Waiting | None:
    """Return what an applied object waits for. Raises TerminalError if it can never become healthy."""
    if isinstance(live, PersistentVolumeClaim) and live.status.phase == "Pending":
        return None
    return unreadiness(live, None)


def _unready(live: Object) -> Waiting | None:
    """Return what a child instance waits for. Raises TerminalError if its plan has failed."""
    assert isinstance(live, Instance)
    name, execution = live.metadata.name, live.status.execution
    if live.spec.plan_execution.plan_name:
        return Waiting(f'Instance "{name}": plan {live.spec.plan_execution.plan_name} is not complete')
    if execution is not None and execution.state in ("Failed", "Canceled"):
        raise TerminalError(f'Instance "{name}": {execution.name} has ended as {execution.state}: {execution.message}')
    return None


def _finder(step: StepContext[Instance]) -> Callable[[str, str], Any]:
    """Return the function that reads a ConfigMap or Secret for the hash of dependencies."""

    async def find(kind: str, name: str) -> JSONObject | None:
        cls: type[ConfigMap | Secret] = ConfigMap if kind == "ConfigMap" else Secret
        namespace = step.object.metadata.namespace
        live = await step.ctx.client.uncached.get_or_none(cls, name, namespace=namespace)
        if live is None:
            return None
        applied = live.metadata.annotations.get(names.LAST_APPLIED_ANNOTATION)  # of KUDO
        return yaml.load(applied) if applied else codec.document(live)

    return find


KINDS: Final[dict[str, type[PackageTask]]] = {
    "Apply": ApplyTask,
    "Delete": DeleteTask,
    "Toggle": ToggleTask,
    "Dummy": DummyTask,
    "KudoOperator": OperatorTask,
}
