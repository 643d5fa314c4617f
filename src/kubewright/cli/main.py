"""The command line's entry: finds the command, and tells errors in one line.

Exit status: 0 done; 1 it failed, and a line on standard error says why and what to do; 2 the command line is wrong.
"""

from __future__ import annotations

import importlib
import sys
from typing import Final

import click

from kubewright.machinery.errors import KubewrightError

_COMMANDS: Final = {
    "up": "Start an embedded control plane.",
    "run": "Run the operator of this project.",
    "install": "Install the CRDs of this project.",
    "uninstall": "Remove the CRDs of this project, and every object of their kinds.",
    "generate": "Write CRDs and RBAC from the program.",
}
"""Each is a module of `kubewright.cli` with a click command `command`. Imported when it is run: help stays quick."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"kubewright.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KubewrightError as error:
            from kubewright.manager.program import explained  # help, and wrong command lines, need not wait for it

            raise click.ClickException(explained(error)) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="kubewright", message="kubewright %(version)s")
def cli() -> None:
    """Build, test and run Kubernetes operators in Python.

    \b
    In a project's folder:
      kubewright up                 a control plane on this machine; prints the KUBECONFIG to use
      kubewright install            its CRDs, into the cluster of KUBECONFIG
      kubewright run                its operator, against the same cluster
      kubewright generate           its CRDs and RBAC as files
    """


def main() -> None:
    """Run the command line of this process."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(line_buffering=True)  # who reads from a pipe or a file sees each line at once
    sys.exit(cli())
