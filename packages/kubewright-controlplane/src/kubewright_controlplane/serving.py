"""An embedded control plane that a command starts, and the kubeconfig file for it."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final, TextIO

import click

from kubewright.machinery.errors import ConfigError
from kubewright_controlplane.apiserver import catalog
from kubewright_controlplane.environment import Environment

KUBECONFIG: Final = Path(".kubewright/kubeconfig")
"""Default path of the administrator's kubeconfig."""


@asynccontextmanager
async def serving(environment: Environment, kubeconfig: Path, *, kept: str = "in memory") -> AsyncGenerator[None]:
    """Run `environment` while the block lasts. Prints on standard output how to reach it."""
    began = time.monotonic()
    async with environment:
        environment.served.write_kubeconfig(kubeconfig)
        version, ready = catalog.version()["gitVersion"], time.monotonic() - began
        click.echo(
            f"Kubernetes {version} is ready at {environment.served.url} after {ready:.2f} s; objects are {kept}."
        )
        click.echo(f"\n  export KUBECONFIG={kubeconfig}\n\nCtrl-C stops it.")
        yield


_WAY_OUT: Final = "stop it, use it, or choose another file with --kubeconfig"


@contextmanager
def owned(kubeconfig: Path, *, way_out: str = _WAY_OUT) -> Generator[Path]:
    """Lock the kubeconfig file against other control planes. The file, and its folder if it is new, go at the end.

    Yields its absolute path. Raises ConfigError if another control plane holds it, or if it can't be written.
    `way_out` is the end of the first message.
    """
    kubeconfig = kubeconfig.absolute()
    is_new = not kubeconfig.parent.exists()
    lock = kubeconfig.with_name(f"{kubeconfig.name}.pid")  # kubectl uses `.lock` itself
    with _opened(lock) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            raise ConfigError(
                f"another control plane (process {file.read().strip()}) is up with the kubeconfig {kubeconfig}; "
                f"{way_out}"
            ) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield kubeconfig
        finally:
            kubeconfig.unlink(missing_ok=True)
            lock.unlink(missing_ok=True)
            if is_new:
                with suppress(OSError):  # another program has put a file there
                    kubeconfig.parent.rmdir()


def _opened(lock: Path) -> TextIO:
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        return os.fdopen(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "r+")
    except OSError as error:
        raise ConfigError(
            f"cannot write the kubeconfig to {lock.parent}: {error.strerror}; choose another file with --kubeconfig"
        ) from error
