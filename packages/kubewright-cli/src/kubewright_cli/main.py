"""Entry point of the command line: finds the command, and prints errors as one line.

Exit status: 0 success; 1 failure, or a negative answer of a check, with the reason and the remedy on standard error;
2 wrong usage.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from typing import Final

import click
from click.exceptions import NoSuchCommand
from click.shell_completion import CompletionItem

from kubewright.machinery.errors import Forbidden, KubewrightError

_SECTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "Create a project": {
        "init": "Create a project in an empty folder.",
        "create": "Add a kind, a controller or webhooks.",
        "edit": "Change the layout of the project.",
    },
    "Generate files": {
        "generate": "Generate manifests, a chart, a bundle, models or a client package.",
    },
    "Develop": {
        "up": "Start an embedded control plane.",
        "install": "Install the CRDs of this project.",
        "run": "Run the operator on this machine.",
        "uninstall": "Remove the CRDs and every object of their kinds.",
    },
    "Deploy": {
        "image": "Build and push an image, without a container engine.",
        "deploy": "Deploy the operator to a cluster.",
        "migrate": "Store all objects in the storage version.",
        "undeploy": "Remove the operator, its CRDs and every object of their kinds.",
        "logs": "Print the log of the deployed manager.",
        "status": "Show the objects of the operator, and which have not converged.",
        "doctor": "Find problems, and say what to do.",
    },
    "KUDO packages": {
        "package": "Check, install and operate KUDO's packages.",
    },
    "Publish for OLM": {
        "bundle": "Check a bundle, or install it without OLM.",
        "levels": "Measure the capability level of the operator.",
        "catalog": "Check a file-based catalog.",
    },
    "Help": {
        "completion": "Print a completion script for a shell.",
    },
}
"""Each is a module of `kubewright_cli.commands` with a click command `command`, imported only when it runs."""

_COMMANDS: Final = {name: text for section in _SECTIONS.values() for name, text in section.items()}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"kubewright_cli.commands.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in _COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            raise NoSuchCommand(name, possibilities=_COMMANDS, ctx=ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete from the texts above: completion does not import the modules of all commands."""
        found = [CompletionItem(name, help=text) for name, text in _COMMANDS.items() if name.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, _COMMANDS))
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), text) for name, text in commands.items()])

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KubewrightError as error:
            from kubewright.manager._program import explained  # help and usage errors stay fast without it

            lacks_permission = isinstance(error, Forbidden) and "denied the request" not in str(error)  # by a webhook
            way_out = "; use an account with this permission: --kubeconfig, --context" if lacks_permission else ""
            raise click.ClickException(f"{explained(error)}{way_out}") from error
        except OSError as error:
            if error.filename is None:  # for example a closed pipe, which click handles
                raise
            raise click.ClickException(f"{error.filename}: {error.strerror}") from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--no-color", is_flag=True, help="Print no colors. The same as NO_COLOR=1 in the environment.")
@click.version_option(package_name="kubewright", message="kubewright %(version)s")
@click.pass_context
def cli(context: click.Context, no_color: bool) -> None:
    """Build, test and run Kubernetes operators in Python.

    \b
    From an empty folder to a running operator:
      kubewright init --domain example.com
      kubewright create api --version v1 --kind WebServer
      kubewright run --embedded --reload

    \b
    `kubewright <command> --help` has examples for each command.
    """
    if no_color:
        os.environ["NO_COLOR"] = "1"  # for the help of the operator's flags, and for child processes
    if os.environ.get("NO_COLOR"):
        context.color = False


def main() -> None:
    """Run the command line."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(line_buffering=True)  # readers of a pipe or a file see each line immediately
    sys.exit(cli())
