"""`kubewright up` and `kubewright-controlplane`: an embedded control plane that runs until it is stopped."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from kubewright._runtime.signals import on_stop_signal
from kubewright.machinery.errors import KubewrightError
from kubewright.manager import _logs as logs
from kubewright.manager._program import explained, loop_factory
from kubewright_controlplane.apiserver.options import ServerOptions
from kubewright_controlplane.environment import Environment
from kubewright_controlplane.kubelet.processes.images import images_in
from kubewright_controlplane.kubelet.processes.standins import STAND_INS
from kubewright_controlplane.plane import NAMES, ControlPlaneOptions
from kubewright_controlplane.serving import KUBECONFIG, owned, serving


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
    default=KUBECONFIG,
    show_default=True,
    help="File to write the administrator's kubeconfig to.",
)
@click.option("--nodes", type=click.IntRange(0, 100), default=2, show_default=True, help="How many nodes to simulate.")
@click.option("--disable", multiple=True, metavar="NAME", help=f"Controller not to run: {', '.join(NAMES)}.")
@click.option(
    "--stand-ins",
    is_flag=True,
    help="Run Pods of nginx and busybox as processes of this machine, as you: by a small web server, and by sh.",
)
@click.option(
    "--images",
    "table",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Run Pods of the images in this file (YAML) as processes of this machine, by the commands that it gives.",
)
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
    stand_ins: bool,
    table: Path | None,
    log_level: str,
    bare: bool,
) -> None:
    """Start a Kubernetes control plane in this process: API server, controllers, and nodes that simulate their Pods.

    Objects are in memory, unless --data says where to keep them. It runs until Ctrl-C or SIGTERM, or until its
    terminal is closed.

    \b
    Examples:
      kubewright up                          in one terminal; the line it prints goes into another
      kubewright up --data ~/.kubewright     what was there is there again the next time
      kubewright up --stand-ins              Pods of nginx serve pages, those of busybox can be entered
      kubewright up --bare --port 6443       an API server alone, as envtest has it
    """
    logs.configure("console", log_level)
    options = ControlPlaneOptions(disabled=disable, nodes=nodes)
    environment = Environment(
        server=ServerOptions(data=data),
        controllers=not bare,
        options=options,
        images={**(STAND_INS if stand_ins else {}), **(images_in(table) if table else {})},
        host=host,
        port=port,
    )
    with owned(kubeconfig) as path, asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(environment, path, f"kept in {data}" if data else "in memory"))
    click.echo("Stopped.")


async def _serve(environment: Environment, kubeconfig: Path, kept: str) -> None:
    stopping = asyncio.Event()
    on_stop_signal(stopping.set)
    async with serving(environment, kubeconfig, kept=kept):
        await stopping.wait()


def main() -> None:
    """Run `kubewright-controlplane`, the command of this distribution. An error is one line, and exit status 1."""
    try:
        command(prog_name="kubewright-controlplane")
    except KubewrightError as error:
        click.echo(f"Error: {explained(error)}", err=True)
        sys.exit(1)
