"""An embedded control plane that a command starts, and the kubeconfig that leads there."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final

import click

from kubewright.machinery.errors import ConfigError
from kubewright_controlplane.apiserver import catalog
from kubewright_controlplane.environment import Environment

KUBECONFIG: Final = Path(".kubewright/kubeconfig")
"""Where the administrator's kubeconfig is written, unless told otherwise."""


@asynccontextmanager
async def serving(environment: Environment, kubeconfig: Path, *, kept: str = "in memory") -> AsyncGenerator[None]:
    """`environment`, up for as long as the block lasts; how to reach it is told on standard output."""
    began = time.monotonic()
    async with environment:
        environment.served.write_kubeconfig(kubeconfig)
        version, ready = catalog.version()["gitVersion"], time.monotonic() - began
        click.echo(
            f"Kubernetes {version} is ready at {environment.served.url} after {ready:.2f} s; objects are {kept}."
        )
        click.echo(f"\n  export KUBECONFIG={kubeconfig}\n\nCtrl-C stops it.")
        yield


@contextmanager
def owned(kubeconfig: Path) -> Generator[Path]:
    """Hold the kubeconfig against other control planes; remove it, and what was made for it, at the end.

    Gives its absolute path. Raises ConfigError when another control plane holds it.
    """
    kubeconfig = kubeconfig.absolute()
    made = not kubeconfig.parent.exists()
    kubeconfig.parent.mkdir(parents=True, exist_ok=True)
    lock = kubeconfig.with_name(f"{kubeconfig.name}.pid")  # kubectl takes `.lock` for a lock of its own
    with open(lock, "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            raise ConfigError(
                f"another control plane (process {file.read().strip()}) is up with the kubeconfig {kubeconfig}; "
                "stop it, use it, or choose another file with --kubeconfig"
            ) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield kubeconfig
        finally:
            kubeconfig.unlink(missing_ok=True)
            lock.unlink(missing_ok=True)
            if made:
                with suppress(OSError):  # somebody has put something else there
                    kubeconfig.parent.rmdir()
