"""What the commands for deployed operators share: options, the target cluster, questions before objects are lost."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

import click
import msgspec

from kubewright.client import Client, Config
from kubewright.machinery import names
from kubewright.machinery.errors import ConfigError, KubewrightError
from kubewright.machinery.json import JSONObject
from kubewright_cli import console
from kubewright_cli.deployment.crds import Custom, customs, unconvertible
from kubewright_cli.deployment.objects import FIELD_MANAGER, Change
from kubewright_cli.deployment.rollout import RolloutFailed
from kubewright_cli.manifests import Manifests
from kubewright_cli.options import config_of, kubeconfig_options
from kubewright_cli.project import Project

NO_CRDS: Final = "No CRDs in this project"
"""The output of commands that have nothing to do without a CRD."""

F = TypeVar("F", bound=Callable[..., object])


def namespace_option(function: F) -> F:
    """Add `--namespace`, and the options of the kubeconfig."""
    option = click.option(
        "--namespace",
        "-n",
        default="",
        callback=valid_namespace,
        help="Namespace of the manager.  [default: from the settings]",
    )
    return option(kubeconfig_options(function))


def valid_namespace(_context: click.Context, _option: click.Parameter, namespace: str) -> str:
    """Return the value of an option that names a namespace. Raises BadParameter if it is not a valid name."""
    for error in names.dns1123_label(namespace) if namespace else ():
        raise click.BadParameter(f'"{namespace}": {error}')
    return namespace


def yes_option(function: F) -> F:
    """`--yes`: see `confirmed`."""
    return click.option("--yes", "-y", is_flag=True, help="Delete objects without asking.")(function)


def timeout_option(seconds: int) -> Callable[[F], F]:
    """Add `--timeout`, in seconds."""
    return click.option(
        "--timeout", type=click.IntRange(1), default=seconds, show_default=True, help="Maximum seconds to wait."
    )


@dataclass(frozen=True, slots=True)
class Target:
    """The project and the cluster that a command works on."""

    project: Project
    manifests: Manifests
    config: Config

    @classmethod
    def of(cls, kubeconfig: Path | None, context: str | None, *, namespace: str = "", image: str = "") -> Target:
        """Return the target that the options name. Raises ConfigError."""
        project = Project.load()
        manifests = project.manifests()
        if namespace:
            settings = msgspec.structs.replace(manifests.settings, namespace=namespace)
            manifests = dataclasses.replace(manifests, settings=settings)
        if image:
            manifests = manifests.with_image(image)
        return cls(project, manifests, config_of(kubeconfig, context))

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[Client]:
        """Yield a client of the cluster, and close it at the end of the block."""
        async with client_of(self.config) as client:
            yield client


def client_of(config: Config) -> Client:
    """Return the client that commands use. It prints each warning of the API server once."""
    return Client(config, user_agent=FIELD_MANAGER, field_manager=FIELD_MANAGER, on_warning=cache(console.warn))


class Done:
    """The changes that a command has made so far."""

    def __init__(self) -> None:
        self.changes = 0


@contextmanager
def unfinished(remains: str) -> Generator[Done]:
    """Report a partial result when the block is interrupted by Ctrl-C, or fails after it has changed something.

    `remains` says what is done, what is not, and how to finish. The block counts its changes in the `Done` it gets.
    """
    done = Done()
    try:
        yield done
    except asyncio.CancelledError:
        console.note(f"\nInterrupted: {remains}")
        raise
    except KubewrightError:
        if done.changes:
            console.note(f"Not finished: {remains}")
        raise


@contextmanager
def failing_log() -> Generator[None]:
    """Print the last lines of the failing Pod's log if the block raises RolloutFailed."""
    try:
        yield
    except RolloutFailed as failure:
        if failure.log:
            console.note("Last lines of its log:")
        for line in failure.log:
            console.note(f"  {line}")
        raise


async def print_changes(changes: AsyncIterable[Change], done: Done) -> set[str]:
    """Print what is applied, and how much is unchanged. Returns the kinds of the objects that changed."""
    unchanged = 0
    changed: set[str] = set()
    async for change in changes:
        if change.outcome == "unchanged":
            unchanged += 1
        elif change.outcome != "not found":
            done.changes += 1
            changed.add(change.object.partition("/")[0])
            console.say(str(change))
    if unchanged:
        console.say(f"{unchanged} {'object' if unchanged == 1 else 'objects'} unchanged")
    return changed


async def print_deletions(changes: AsyncIterable[Change], done: Done, step: Callable[[str], None]) -> None:
    """Print what is deleted. Objects whose deletion takes longer are shown as the current `step`."""
    async for change in changes:
        done.changes += change.outcome == "deleted"
        if change.outcome == "deleting":
            step(str(change))
        elif change.outcome != "not found":
            console.say(str(change))


async def confirmed(client: Client, crds: Iterable[JSONObject], *, yes: bool, or_else: str = "") -> bool:
    """Return whether the CRDs may be deleted with all objects of their kinds. Asks at a terminal, unless `yes`.

    Raises ConfigError if objects would be deleted, `yes` is not set and there is no terminal to ask at. `or_else` ends
    its message: what to do instead of `yes`.
    """
    crds = list(crds)
    broken = await unconvertible(client, crds)
    lost = await customs(client, [crd for crd in crds if crd["metadata"]["name"] not in broken])
    uncounted = [f"all objects of {crd} (which cannot be counted: {reason})" for crd, reason in broken.items()]
    if not lost and not uncounted:
        return True
    counted = ", ".join(([_counted(lost)] if lost else []) + uncounted)
    if yes:
        console.warn(f"{counted} will be deleted with the CRDs")
        return True
    if sys.stdin.isatty() and sys.stdout.isatty():
        return click.confirm(f"{counted} will be deleted with the CRDs. Continue?")
    raise ConfigError(
        f"{counted} would be deleted with the CRDs, and there is no terminal to ask at; nothing was deleted. "
        f"Pass --yes to delete them{or_else}"
    )


def _counted(lost: list[Custom]) -> str:
    kinds = Counter(each.api.kind for each in lost)
    return ", ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in kinds.items())
