"""Conversions that only a webhook can make, for code that does not wait.

The code of reads and writes converts objects in the middle of its steps, which must not wait, since nothing may run
between them. So a conversion that is not known yet interrupts its step: it raises ConversionNeeded. `settle` asks the
webhook, and runs the step again with the answer. Steps may be repeated: they have no effect until they end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeAlias, TypeVar

import msgspec

from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.registry.model import Converter, Resource
from kubewright_controlplane.apiserver.registry.objects import decode_json
from kubewright_controlplane.apiserver.storage.events import Entry

T = TypeVar("T")


class Run(Protocol):
    """Runs a step and returns its result."""

    def __call__(self, step: Callable[[], T], /) -> Awaitable[T]: ...


_Key: TypeAlias = tuple[str, bytes]
"""The wanted version, and the object."""

_encode = msgspec.json.Encoder(order="deterministic").encode
_CHANGED_BY_COMMIT = ("resourceVersion", "managedFields")


class ConversionNeeded(Exception):
    """A step needs an object in another version."""

    def __init__(self, converter: Converter, obj: JSONObject, api_version: str) -> None:
        super().__init__(api_version)
        self.converter = converter
        self.object = obj
        self.api_version = api_version


class Conversions:
    """The conversions that are known to the steps of one request."""

    def __init__(self) -> None:
        self._known: dict[_Key, JSONObject] = {}

    async def make(self, converter: Converter, objects: Iterable[JSONObject], api_version: str) -> None:
        """Convert objects with one call, except those that are known. Raises InternalError."""
        missing = {
            key: obj
            for obj in objects
            if obj.get("apiVersion") != api_version and (key := _key(obj, api_version)) not in self._known
        }
        if missing:
            made = await converter.convert(list(missing.values()), api_version)
            self._known.update(zip(missing, made, strict=True))

    def find(self, obj: JSONObject, api_version: str) -> JSONObject | None:
        return self._known.get(_key(obj, api_version))

    @contextmanager
    def at_hand(self) -> Generator[None]:
        """Let steps inside the block find these conversions. The block must not wait."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)


_current: ContextVar[Conversions] = ContextVar("conversions")


def convert(converter: Converter, obj: JSONObject, api_version: str) -> JSONObject:
    """Return an object in another version: the answer of the webhook, which must not be changed.

    Raises ConversionNeeded if it is not known.
    """
    conversions = _current.get(None)
    found = conversions.find(obj, api_version) if conversions is not None else None
    if found is None:
        raise ConversionNeeded(converter, obj, api_version)
    return found


async def _here(step: Callable[[], T]) -> T:
    return step()


async def settle(step: Callable[[], T], conversions: Conversions | None = None, *, run: Run = _here) -> T:
    """Return the result of a step, which is run again whenever it needs a conversion. Raises InternalError.

    `run` runs it, by default on the event loop.
    """
    if conversions is None:
        try:
            return await run(step)
        except ConversionNeeded as needed:
            conversions = Conversions()
            await conversions.make(needed.converter, [needed.object], needed.api_version)
    while True:
        try:
            with conversions.at_hand():
                return await run(step)
        except ConversionNeeded as needed:
            await conversions.make(needed.converter, [needed.object], needed.api_version)


async def conversions_for(resource: Resource, entries: Iterable[Entry]) -> Conversions | None:
    """Return the conversions of stored objects to the version of a resource, made with one call; None if a resource
    has no conversion webhook. Raises InternalError.
    """
    if resource.converter is None:
        return None
    conversions = Conversions()
    objects = [decode_json(entry.data) for entry in entries]
    await conversions.make(resource.converter, objects, resource.api_version)
    return conversions


def _key(obj: JSONObject, api_version: str) -> _Key:
    metadata: JSONObject = obj.get("metadata") or {}
    kept = {key: value for key, value in metadata.items() if key not in _CHANGED_BY_COMMIT}
    return api_version, _encode({**obj, "metadata": kept})
