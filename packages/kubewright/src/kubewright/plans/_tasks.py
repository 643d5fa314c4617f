"""The tasks: apply, delete and toggle objects, and call a function.

All writes go through the `Context` of the reconcile, so they respect owners, and an apply that changes nothing is not
sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from kubewright.controllers._context import controller_of
from kubewright.health import HealthState, health_of
from kubewright.machinery.errors import AlreadyOwnedError, TerminalError
from kubewright.models import Object
from kubewright.plans._gates import CEL, ReadyCheck, Waiting
from kubewright.plans._plan import Child, Children, Gate, StepContext, Task, closed_by

T = TypeVar("T", bound=Object)

Made: TypeAlias = Object | Iterable[Object] | None
"""What a builder returns: one object, several, or none."""
_RUN_ONCE = frozenset({("batch", "Job"), ("", "Pod")})
"""Kinds whose objects end. Drift repair does not make them again."""


@dataclass(frozen=True)
class Rendered(Generic[T]):
    """A builder that needs more than the object. Made by `rendered`."""

    function: Callable[[StepContext[T]], Awaitable[Made]]


def rendered(function: Callable[[StepContext[T]], Awaitable[Made]]) -> Rendered[T]:
    """Return a builder from an async function of the step: it can read, and knows the name of the execution.

    async def job_for(step: StepContext[Zoo]) -> Job:
        return Job(metadata=ObjectMeta(name=f"{step.object.metadata.name}-{step.execution}"), ...)

    Step("run", [Apply(rendered(job_for))])
    """
    return Rendered(function)


Builder: TypeAlias = Callable[[T], Made] | Rendered[T]
"""Makes children: a function of the object, or the result of `rendered`."""


class Apply(Task[T]):
    """Applies objects, and waits until they are ready."""

    def __init__(
        self,
        *builders: Builder[T],
        ready: ReadyCheck | None = None,
        wait: bool = True,
        adopt: bool = False,
        create_only: bool = False,
        repair: bool = True,
    ) -> None:
        """Apply what `builders` return.

        ready: what to wait for, instead of the health of the objects. wait: False to wait for nothing.
        adopt, create_only: as for `Context.apply`. repair: False to exclude the objects from drift repair.
        """
        self._builders = builders
        self._ready = ready if wait else _is_there
        self._adopt = adopt
        self._create_only = create_only
        self._repair = repair

    async def run(self, step: StepContext[T]) -> Waiting | None:
        objects = await made_by(self._builders, step)
        return await apply_objects(step, objects, ready=self._ready, adopt=self._adopt, create_only=self._create_only)

    async def children(self, step: StepContext[T]) -> Children:
        if not self._repair:
            return Children()
        return Children(
            present=[
                Child(each, self._adopt, self._create_only, self._ready)
                for each in await made_by(self._builders, step)
                if (each.__api__.group, each.__api__.kind) not in _RUN_ONCE
            ]
        )


class Delete(Task[T]):
    """Deletes objects, and waits until they are gone. Only kind, name and namespace of what the builders return count.

    An object that another object controls is not deleted: that is an AlreadyOwnedError.
    """

    def __init__(self, *builders: Builder[T], deleted: Gate[T] | None = None) -> None:
        """`deleted` must be open after the objects are gone."""
        self._builders = builders
        self._deleted = deleted

    async def run(self, step: StepContext[T]) -> Waiting | None:
        waiting = await delete_objects(step, await made_by(self._builders, step))
        return waiting or await closed_by(self._deleted, step)

    async def children(self, step: StepContext[T]) -> Children:
        return Children(absent=await made_by(self._builders, step))


class Toggle(Task[T]):
    """Applies objects while a condition holds, and deletes them otherwise.

    Toggle(exporter_for, when=lambda zoo: zoo.spec.metrics)
    """

    def __init__(
        self, *builders: Builder[T], when: Callable[[T], bool], ready: ReadyCheck | None = None, adopt: bool = False
    ) -> None:
        self._when = when
        self._apply = Apply(*builders, ready=ready, adopt=adopt)
        self._delete = Delete(*builders)

    async def run(self, step: StepContext[T]) -> Waiting | None:
        return await self._chosen(step).run(step)

    async def children(self, step: StepContext[T]) -> Children:
        return await self._chosen(step).children(step)

    def _chosen(self, step: StepContext[T]) -> Task[T]:
        return self._apply if self._when(step.object) else self._delete


class Call(Task[T]):
    """Calls an async function, until it returns None.

    The function must be repeatable: it is called again after a crash, and while another task of its step is incomplete.
    """

    def __init__(self, function: Callable[[StepContext[T]], Awaitable[Waiting | None]]) -> None:
        self._function = function

    async def run(self, step: StepContext[T]) -> Waiting | None:
        return await self._function(step)


async def made_by(builders: Iterable[Builder[T]], step: StepContext[T]) -> list[Object]:
    """Return the objects that `builders` make for the object of a step."""
    found: list[Object] = []
    for builder in builders:
        made = await _made_by(builder, step)
        if isinstance(made, Object):
            found.append(made)
        elif made is not None:
            found.extend(made)
    return found


async def _made_by(builder: Builder[T], step: StepContext[T]) -> Made:
    return builder(step.object) if callable(builder) else await builder.function(step)


async def apply_objects(
    step: StepContext[T],
    objects: Sequence[Object],
    *,
    ready: ReadyCheck | None = None,
    adopt: bool = False,
    create_only: bool = False,
) -> Waiting | None:
    """Apply objects of any kinds, typed or `Unstructured`, and return what is not ready.

    All are applied, whether or not the ones before are ready. Raises TerminalError if an object has failed for good,
    and the errors of `Context.apply`.
    """
    waiting: list[Waiting] = []
    for each in objects:
        live = await step.ctx.apply(each, adopt=adopt, create_only=create_only)
        missing = unreadiness(live, ready)
        if missing is not None:
            waiting.append(missing)
    return first_of(waiting)


async def delete_objects(step: StepContext[T], objects: Sequence[Object]) -> Waiting | None:
    """Delete objects in the foreground, and return what still exists. Objects that do not exist are not an error.

    Raises AlreadyOwnedError for an object that another object controls.
    """
    waiting: list[Waiting] = []
    for each in objects:
        live = await live_object(step, each)
        if live is None:
            continue
        owner = controller_of(live)
        if owner is not None and owner.uid != step.object.metadata.uid:
            raise AlreadyOwnedError(
                f'{name_of(live)} is controlled by {owner.kind} "{owner.name}", so it is not deleted; remove it from '
                f'the step "{step.step}", or give the object of this plan another name',
                controller=owner.name,
                controller_kind=owner.kind,
                controller_uid=owner.uid,
            )
        if live.metadata.deletion_timestamp is None:
            await step.ctx.delete(live, propagation="Foreground")
            live = await live_object(step, each)
        if live is not None:
            held = ", ".join(live.metadata.finalizers)
            waiting.append(Waiting(f"{name_of(live)} is being deleted" + (f"; finalizers: {held}" if held else "")))
    return first_of(waiting)


def unreadiness(live: Object, ready: ReadyCheck | None) -> Waiting | None:
    """Return why an object is not ready; None if it is. Raises TerminalError if it has failed for good."""
    if ready is not None:
        return ready.check(live) if isinstance(ready, CEL) else ready(live)
    health = health_of(live)
    if health.is_ready:
        return None
    said = f"{name_of(live)}: {health.message}"
    if health.state is HealthState.FAILED:
        raise TerminalError(said)
    return Waiting(said)


def first_of(waiting: Sequence[Waiting]) -> Waiting | None:
    """Return the first, with the number of the others; None if there is none."""
    if not waiting:
        return None
    first, *others = waiting
    return Waiting(f"{first.message} (and {len(others)} more)", first.requeue_after) if others else first


def name_of(obj: Object) -> str:
    return f'{obj.kind} "{obj.metadata.name}"'


async def live_object(step: StepContext[T], obj: Object) -> Object | None:
    """Return the object as the API server has it; None if there is none.

    A cache would list all objects of a kind that may be used once.
    """
    namespace = None
    if obj.__api__.namespaced:
        namespace = obj.metadata.namespace or step.ctx.request.namespace
    return await step.ctx.client.uncached.get_or_none(type(obj), obj.metadata.name, namespace=namespace)


def _is_there(live: Object) -> Waiting | None:
    return None
