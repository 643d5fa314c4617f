"""What the commands about a deployed operator share: which cluster, which deployment, and what is lost with it."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from kubewright.client._client import Client
from kubewright.client._config import Config
from kubewright.machinery.json import JSONObject
from kubewright_cli import console
from kubewright_cli.deployment.crds import Custom, customs
from kubewright_cli.deployment.objects import FIELD_MANAGER
from kubewright_cli.manifests import Manifests
from kubewright_cli.options import config_of, kubeconfig_options
from kubewright_cli.project import Project

F = TypeVar("F", bound=Callable[..., object])


def namespace_option(function: F) -> F:
    """`--namespace`, and the options of the kubeconfig."""
    option = click.option("--namespace", "-n", default="", help="Of the manager, instead of the settings' own.")
    return option(kubeconfig_options(function))


def yes_option(function: F) -> F:
    """`--yes`: see `agreed`."""
    return click.option("--yes", "-y", is_flag=True, help="Do not ask about objects that will be lost.")(function)


def timeout_option(seconds: int) -> Callable[[F], F]:
    """`--timeout`, in seconds."""
    return click.option(
        "--timeout", type=click.IntRange(1), default=seconds, show_default=True, help="Seconds to wait at most."
    )


@dataclass(frozen=True, slots=True)
class Target:
    """The project, as it is or will be in a cluster."""

    project: Project
    manifests: Manifests
    config: Config

    @classmethod
    def of(cls, kubeconfig: Path | None, context: str | None, *, namespace: str = "", image: str = "") -> Target:
        """What the options mean. Raises ConfigError."""
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
        """A client of the cluster, open while the block lasts."""
        async with client_of(self.config) as client:
            yield client


def client_of(config: Config) -> Client:
    """Commands' own client. It tells warnings to people."""
    return Client(config, user_agent=FIELD_MANAGER, field_manager=FIELD_MANAGER, on_warning=console.warn)


@contextmanager
def when_interrupted(told: str) -> Generator[None]:
    """Say what Ctrl-C leaves when it comes within the block: what is done, what is not, and what goes on from there."""
    try:
        yield
    except asyncio.CancelledError:
        console.note(f"\nInterrupted: {told}")
        raise


async def agreed(client: Client, crds: Iterable[JSONObject], *, yes: bool) -> bool:
    """Whether the kinds may go with all their objects. Who is at a terminal is asked; a script has meant it."""
    lost = await customs(client, crds)
    if not lost:
        return True
    counted = _counted(lost)
    if yes or not (sys.stdin.isatty() and sys.stdout.isatty()):
        console.warn(f"{counted} will be deleted with their kinds")
        return True
    return click.confirm(f"{counted} will be deleted with their kinds. Go on?")


def _counted(lost: list[Custom]) -> str:
    kinds = {each.api.kind: sum(other.api.kind == each.api.kind for other in lost) for each in lost}
    return ", ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in kinds.items())
