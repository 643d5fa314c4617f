"""What the registrations of webhooks, conversions and policies for one run of a manager have in common.

A run finds out whether its objects are in use by a probe: an object that only this run sends, as a dry run.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar

from kubewright._runtime.log import StructuredLogger
from kubewright.client._client import Client
from kubewright.client._config import Config
from kubewright.machinery.errors import APIError, Conflict, KubewrightError, NotFound
from kubewright.models import Object

T = TypeVar("T", bound=Object)

RUN: Final = "kubewright.dev/local-run"
"""The annotation with the identity of the run that registered an object."""
_PROCESS: Final = "kubewright.dev/local-process"
"""The annotation with the host and the process of that run: `laptop/pid:[4026531836]/4711`."""
PROBE_LABEL: Final = "kubewright.dev/probe"
"""The label of a probe, by which the objects of its run recognize it."""
PROBE_PREFIX: Final = "kubewright-probe-"
"""The start of the name of a probe."""
REGISTERED_WITHIN: Final = 10.0
"""Seconds for an API server to notice what is registered."""
_PROBED_EACH: Final = 0.05
_REMOVED_WITHIN: Final = 5.0


@asynccontextmanager
async def registrar(client: Client, config: Config | None) -> AsyncGenerator[Client]:
    """Yield a client with the credentials of `config`; without them, `client`."""
    if config is None:
        yield client
        return
    own = Client(config, field_manager=client.field_manager, clock=client.clock)
    try:
        yield own
    finally:
        await own.close()


def local_prefix(manager: str) -> str:
    """Return the start of the names of what local runs of a manager register."""
    return f"{manager}.local-"


def of_run(run: str) -> dict[str, str]:
    """Return the annotations of what a run of this process registers."""
    return {RUN: run, _PROCESS: f"{_host()}/{os.getpid()}"}


def is_of_other_host(annotations: Mapping[str, str]) -> bool:
    """Return whether a process on another host registered an object: nothing here knows whether it still runs."""
    return annotations.get(_PROCESS, "").rpartition("/")[0] not in ("", _host())


def _host() -> str:
    """Return where process ids are unique: the host, and on Linux the namespace of its process ids."""
    try:
        return f"{socket.gethostname()}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def ended_process(annotations: Mapping[str, str]) -> int | None:
    """Return the process that registered an object and has ended since; None if it runs, or was on another host."""
    process = annotations.get(_PROCESS, "").rpartition("/")[2]
    if is_of_other_host(annotations) or not process.isdecimal():
        return None
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return int(process)
    except PermissionError:  # it runs as another user
        return None
    return None


def other_process(annotations: Mapping[str, str]) -> int | None:
    """Return the process that registered an object, if it is another one that runs on this host."""
    process = annotations.get(_PROCESS, "").rpartition("/")[2]
    if is_of_other_host(annotations) or not process.isdecimal() or int(process) == os.getpid():
        return None
    return int(process) if ended_process(annotations) is None else None


async def delete_own(client: Client, kind: type[Object], name: str, run: str) -> None:
    """Delete an object, unless another run has replaced it."""
    found = await client.get_or_none(kind, name)
    if found is not None and found.metadata.annotations.get(RUN) == run:
        with suppress(NotFound, Conflict):
            await client.delete(found, resource_version=found.metadata.resource_version)


async def answers_to(probe: T, client: Client) -> AsyncGenerator[T | APIError]:
    """Create an object as a dry run, again and again for a few seconds, and yield each answer."""
    loop = asyncio.get_running_loop()
    until = loop.time() + REGISTERED_WITHIN
    while loop.time() < until:
        try:
            async with asyncio.timeout_at(until):
                answer: T | APIError = await client.create(probe, dry_run=True)
        except APIError as error:
            answer = error
        except TimeoutError:
            return
        yield answer
        await asyncio.sleep(_PROBED_EACH)


async def deregister(steps: Sequence[Coroutine[Any, Any, None]], log: StructuredLogger, message: str) -> None:
    """Take the steps, within a few seconds. If one fails, logs `message`: the next run replaces what remains."""
    try:
        async with asyncio.timeout(_REMOVED_WITHIN):
            await asyncio.gather(*steps)
    except (KubewrightError, TimeoutError) as error:
        log.warning(message, error=str(error) or repr(error))
