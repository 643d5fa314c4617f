"""`kubewright create`: add kinds, controllers and webhooks to a project."""

from __future__ import annotations

import click

from kubewright_cli.commands.create import api, controller, webhook


@click.group("create")
def command() -> None:
    """Add a kind, a controller or webhooks to this project.

    \b
    Examples:
      kubewright create api --version v1 --kind WebServer
      kubewright create controller --group apps --version v1 --kind Deployment
      kubewright create webhook --kind WebServer --defaulting --programmatic-validation
    """


for each in (api.command, controller.command, webhook.command):
    command.add_command(each)
