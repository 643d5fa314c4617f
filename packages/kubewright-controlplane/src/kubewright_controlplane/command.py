"""`kubewright-controlplane` and `kubewright up`: a command that runs an embedded control plane."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Iterable
from copy import copy
from pathlib import Path
from typing import Final

import click

from kubewright._runtime.signals import on_stop_signal
from kubewright.machinery.errors import ConfigError, KubewrightError
from kubewright.manager import _logs as logs
from kubewright.manager._program import explained, loop_factory
from kubewright_controlplane.apiserver import catalog
from kubewright_controlplane.apiserver.admission import names as admission
from kubewright_controlplane.apiserver.options import ServerOptions
from kubewright_controlplane.environment import Environment
from kubewright_controlplane.envtest.command import command as envtest
from kubewright_controlplane.kubelet.images import STAND_INS, images_in
from kubewright_controlplane.plane import NAMES, ControlPlaneOptions
from kubewright_controlplane.serving import KUBECONFIG, owned, serving

_NAME: Final = "kubewright-controlplane"
_EXAMPLES: Final = (
    ("", "Run until Ctrl-C. Use the printed line in another terminal."),
    ("--data ~/.kubewright", "Keep objects for the next start."),
    ("--stand-ins", "Run Pods of nginx, busybox and agnhost as processes."),
    ("--bare --port 6443", "Run the API server alone, as envtest does."),
)


class _Command(click.Command):
    """A command whose examples start with the name that the user typed."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            formatter.write_dl([(f"{ctx.command_path} {options}".strip(), text) for options, text in _EXAMPLES], 50)


@click.command("up", cls=_Command, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--data", type=click.Path(path_type=Path, file_okay=False), help="Folder to keep objects in across restarts."
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on.  [default: a free port]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    default=KUBECONFIG,
    show_default=True,
    help="File to write the administrator's kubeconfig to.",
)
@click.option(
    "--runtime-config",
    multiple=True,
    metavar="API=true",
    help=f"API to serve that is off by default, as on a real server: {', '.join(map(str, catalog.OPTIONAL))}.",
)
@click.option(
    "--enable-admission-plugins",
    multiple=True,
    metavar="NAME",
    help=f"Admission plugin to switch on, of those that are off by default: {', '.join(sorted(admission.OPTIONAL))}.",
)
@click.option(
    "--disable-admission-plugins",
    multiple=True,
    metavar="NAME",
    help="Admission plugin to switch off, by its name in kube-apiserver: PodSecurity, ResourceQuota and so on.",
)
@click.option("--nodes", type=click.IntRange(0, 100), default=2, show_default=True, help="Number of simulated nodes.")
@click.option("--disable", multiple=True, metavar="NAME", help=f"Controller to switch off: {', '.join(NAMES)}.")
@click.option(
    "--stand-ins",
    is_flag=True,
    help="Run Pods of nginx, busybox and agnhost as processes on this machine, under your user.",
)
@click.option(
    "--images",
    "table",
    type=click.Path(path_type=Path, dir_okay=False),
    help="YAML file that maps images to commands. Pods of these images run as processes on this machine.",
)
@click.option(
    "--allow-host-path",
    "host_paths",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    metavar="PATH",
    help="Folder or file that hostPath volumes of Pods that run as processes may use and change.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="error",
    show_default=True,
    help="Level of the control plane's own log, on standard error.",
)
@click.option("--bare", is_flag=True, help="Run only the API server, without controllers and nodes.")
def command(
    data: Path | None,
    port: int,
    host: str,
    kubeconfig: Path,
    runtime_config: tuple[str, ...],
    enable_admission_plugins: tuple[str, ...],
    disable_admission_plugins: tuple[str, ...],
    nodes: int,
    disable: tuple[str, ...],
    stand_ins: bool,
    table: Path | None,
    host_paths: tuple[Path, ...],
    log_level: str,
    bare: bool,
) -> None:
    """Start a Kubernetes control plane in one process: API server, controllers, and nodes that simulate their Pods.

    Objects are kept in memory unless --data names a folder. The control plane runs until Ctrl-C or SIGTERM, or until
    its terminal is closed.
    """
    logs.configure("console", log_level)
    options = ControlPlaneOptions(disabled=disable, nodes=nodes, metrics=True)
    server = ServerOptions(
        data=data,
        runtime_config=_runtime_config(runtime_config),
        enabled_admission=ServerOptions.enabled_admission.union(_listed(enable_admission_plugins)),
        disabled_admission=frozenset(_listed(disable_admission_plugins)),
    )
    environment = Environment(
        server=server,
        controllers=not bare,
        options=options,
        images={**(STAND_INS if stand_ins else {}), **(images_in(table) if table else {})},
        host_paths=host_paths,
        host=host,
        port=port,
    )
    with owned(kubeconfig) as path, asyncio.Runner(loop_factory=loop_factory()) as runner:
        kept = f"kept in {data}" if data else "in memory"
        runner.run(_serve(environment, path, kept, runs_processes=bool(stand_ins or table)))
    click.echo("Stopped.")


def _listed(values: Iterable[str]) -> list[str]:
    """Return names that are given in several options, or in one and separated by commas."""
    return [each for each in ",".join(values).split(",") if each]


def _runtime_config(values: Iterable[str]) -> dict[str, bool]:
    """Read `group/version=true`, separated by commas as kube-apiserver accepts them. Without a value, the API is on."""
    chosen: dict[str, bool] = {}
    for each in _listed(values):
        name, _, value = each.partition("=")
        if value not in ("", "true", "false"):
            raise ConfigError(f'runtime config: {name} must be true or false, got "{value}"')
        chosen[name] = value != "false"
    return chosen


async def _serve(environment: Environment, kubeconfig: Path, kept: str, *, runs_processes: bool) -> None:
    stopping = asyncio.Event()
    on_stop_signal(stopping.set)
    async with serving(environment, kubeconfig, kept=kept):
        if runs_processes and (reason := await environment.reason_without_sandbox()):
            click.echo(f"\nPods run without a sandbox, as processes of your user: {reason}")
        gc.freeze()  # what exists by now stays until the end; a garbage collection need not look at it
        await stopping.wait()


def _with_version() -> click.Command:
    with_version = copy(command)
    with_version.params = [*command.params]  # `kubewright up` has no --version
    click.version_option(package_name=_NAME, prog_name=_NAME, message="%(prog)s %(version)s")(with_version)
    return with_version


def main() -> None:
    """Run `kubewright-controlplane`. An error is printed as one line, and the exit status is 1."""
    program = envtest if sys.argv[1:2] == [envtest.name] else _with_version()
    arguments = sys.argv[2:] if program is envtest else sys.argv[1:]
    try:
        program(arguments, prog_name=f"{_NAME} {envtest.name}" if program is envtest else _NAME)
    except KubewrightError as error:
        click.echo(f"Error: {explained(error)}", err=True)
        sys.exit(1)
