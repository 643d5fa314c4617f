"""A walk-through that tells what happens: steps, what changes in the cluster, what the operator logs, how long it took.

    async with Walkthrough(cluster, "default", shown={WebServer: spec_of, Deployment: replicas_of}) as walk:
        async with walk.step("Scale to 4 replicas"):
            await cluster.client.patch(...)
            await walk.reach("4 replicas serve", four_serve)

Each state that is not reached in time raises `NotReached`, so a walk-through is a test as well.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Any, Final, TextIO, TypeAlias

from kubewright.cache._entry import Event
from kubewright.cache._informer import Informer
from kubewright.machinery.errors import KubewrightError
from kubewright.models import Object
from kubewright.testing._cluster import Cluster
from kubewright.testing._waiting import eventually

Summary: TypeAlias = Callable[[Any], str]
"""What of an object is worth showing, in a few words."""

_STOP_WITHIN: Final = 35.0
"""Seconds that an operator has to stop: the manager's graceful time-out, and some more."""


class NotReached(KubewrightError, AssertionError):
    """A state that a walk-through waited for did not come."""


class Walkthrough:
    """Tells what happens to objects of some kinds in one namespace while steps are gone through."""

    def __init__(
        self, cluster: Cluster, namespace: str, *, shown: Mapping[type[Any], Summary], out: TextIO = sys.stdout
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._shown = shown
        self._out = out
        self._colour = out.isatty() and "NO_COLOR" not in os.environ
        self._began = time.monotonic()
        self._steps = 0
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Walkthrough:
        for kind, summary in self._shown.items():
            informer: Informer[Any] = Informer(self._cluster.client, kind, namespaces=self._namespace)
            self._tell_changes(informer, summary)
            informer.start()
            self._stack.push_async_callback(informer.stop)
            await informer.wait_synced(30)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @asynccontextmanager
    async def step(self, title: str) -> AsyncGenerator[None]:
        """One step: its title, then whatever happens."""
        self._steps += 1
        self.say("")
        self.say(self._styled("1", f"{self._steps}. {title}"))
        self._began = time.monotonic()
        yield

    async def reach(self, state: str, check: Callable[[], Awaitable[None]]) -> None:
        """Wait until `check` raises no AssertionError (nor NotFound). Raises NotReached when it goes on raising."""
        try:
            await eventually(check)
        except (AssertionError, KubewrightError) as error:
            raise NotReached(f"not reached: {state}: {error}") from error
        self.say(self._styled("32", f"   ✓ {state}, after {time.monotonic() - self._began:.3f} s"))

    def say(self, text: str) -> None:
        """Print `text` as it is, at once."""
        print(text, file=self._out, flush=True)

    def happened(self, who: str, what: str) -> None:
        """Tell of something, with the time since the step began."""
        self.say(f"   +{time.monotonic() - self._began:6.3f} s  {who:<48} {what}")

    def _tell_changes(self, informer: Informer[Any], summary: Summary) -> None:
        kind = informer.kind.__api__.kind

        def changed(event: Event[Object]) -> None:
            if event.initial:
                return
            before = summary(event.old.decode()) if event.old else ""
            after = summary(event.new.decode()) if event.new else ""
            who = f"{kind} {event.key.name}"
            if event.old is None:
                self.happened(who, f"created: {after}")
            elif event.new is None:
                self.happened(who, "deleted")
            elif before != after:
                self.happened(who, f"{before} → {after}")

        informer.add_handler(on_add=changed, on_update=changed, on_delete=changed)

    def _styled(self, code: str, text: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self._colour else text

    @asynccontextmanager
    async def operator(self, command: Sequence[str], environment: Mapping[str, str]) -> AsyncGenerator[int]:
        """Run an operator as a process of its own for as long as the block lasts; tell what it logs. Gives its pid.

        It is stopped by SIGTERM. Raises NotReached when it ends by itself, or does not stop.
        """
        process = await asyncio.create_subprocess_exec(
            *command,
            env={**os.environ, **environment},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        if process.stdout is None:
            raise NotReached("the operator's output can't be read")
        telling = asyncio.create_task(self._tell_log(process.stdout))
        try:
            yield process.pid
            if process.returncode is not None:
                raise NotReached(f"the operator ended by itself, with status {process.returncode}")
        finally:
            await _stop(process)
            await telling

    async def _tell_log(self, output: asyncio.StreamReader) -> None:
        async for line in output:
            text = line.decode(errors="replace").rstrip()
            self.say(self._styled("2", f"   +{time.monotonic() - self._began:6.3f} s  operator │ {text}"))


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), _STOP_WITHIN)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise NotReached(f"the operator did not stop within {_STOP_WITHIN:.0f} s of SIGTERM") from None
