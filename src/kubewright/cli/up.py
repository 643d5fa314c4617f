"""`kubewright up`: an embedded control plane, until it is stopped."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from kubewright.apiserver import catalog
from kubewright.apiserver.options import ServerOptions
from kubewright.controlplane.plane import NAMES, ControlPlaneOptions
from kubewright.machinery.errors import ConfigError
from kubewright.manager import logs
from kubewright.manager.program import loop_factory
from kubewright.testing.environment import Environment


@click.command("up")
@click.option(
    "--data", type=click.Path(path_type=Path, file_okay=False), help="Keep objects in this folder, over restarts."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on.  [default: one that is free]"
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path(".kubewright/kubeconfig"),
    show_default=True,
    help="File to write the administrator's kubeconfig to.",
)
@click.option("--nodes", type=click.IntRange(0, 100), default=2, show_default=True, help="How many nodes to simulate.")
@click.option("--disable", multiple=True, metavar="NAME", help=f"Controller not to run: {', '.join(NAMES)}.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="error",
    show_default=True,
    help="What to tell of the control plane's own work, on standard error.",
)
@click.option("--bare", is_flag=True, help="Run the API server alone, with no controllers and no nodes.")
def command(
    data: Path | None,
    port: int,
    host: str,
    kubeconfig: Path,
    nodes: int,
    disable: tuple[str, ...],
    log_level: str,
    bare: bool,
) -> None:
    """Start a Kubernetes control plane in this process: API server, controllers, and nodes that simulate their Pods.

    Objects are in memory, unless --data says where to keep them. It runs until Ctrl-C or SIGTERM.

    \b
    Examples:
      kubewright up                          in one terminal; the line it prints goes into another
      kubewright up --data ~/.kubewright     what was there is there again the next time
      kubewright up --bare --port 6443       an API server alone, as envtest has it
    """
    logs.configure("console", log_level)
    options = ControlPlaneOptions(disabled=disable, nodes=nodes)
    environment = Environment(
        server=ServerOptions(data=data), controllers=not bare, options=options, host=host, port=port
    )
    with _owned(kubeconfig), asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(environment, kubeconfig.absolute(), data))


async def _serve(environment: Environment, kubeconfig: Path, data: Path | None) -> None:
    began = time.monotonic()
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with environment:
        environment.served.write_kubeconfig(kubeconfig)
        version, kept = catalog.version()["gitVersion"], f"kept in {data}" if data else "in memory"
        ready = time.monotonic() - began
        click.echo(
            f"Kubernetes {version} is ready at {environment.served.url} after {ready:.2f} s; objects are {kept}."
        )
        click.echo(f"\n  export KUBECONFIG={kubeconfig}\n")
        click.echo("Ctrl-C stops it.")
        await stopping.wait()
    click.echo("Stopped.")


@contextmanager
def _owned(kubeconfig: Path) -> Generator[None]:
    """Hold the kubeconfig against other control planes; remove it, and what was made for it, at the end."""
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
            yield
        finally:
            kubeconfig.unlink(missing_ok=True)
            lock.unlink(missing_ok=True)
            if made:
                with suppress(OSError):  # somebody has put something else there
                    kubeconfig.parent.rmdir()
