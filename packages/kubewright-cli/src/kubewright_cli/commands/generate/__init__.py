"""`kubewright generate`: files that follow from the program, and Python for third-party CRDs."""

from __future__ import annotations

import click

from kubewright_cli.commands.generate import bundle, catalog, chart, client, installer, manifests, models


@click.group("generate", invoke_without_command=True, context_settings={"max_content_width": 100})
@manifests.options
@click.pass_context
def command(context: click.Context, check: bool, verbose: bool, output: str, released: str) -> None:
    """Generate files from the program and its settings, `[tool.kubewright]` in pyproject.toml.

    Without a command, writes the folder config/, like `kubewright generate manifests`.

    \b
    Examples:
      kubewright generate                   CRDs, RBAC, Deployment and the rest, as kustomize folders
      kubewright generate --check -v        fail if a file is out of date, and show the difference
      kubewright generate --check --released v1.2.0   fail if the CRDs break users of that release, too
      kubewright generate installer         the same in one file, dist/install.yaml
      kubewright generate chart             the same as a Helm chart, dist/chart
      kubewright generate bundle            the same as a bundle for OLM, bundle/
    """
    wanted = context.invoked_subcommand
    if wanted is None:
        manifests.generate(check=check, verbose=verbose, output=output, released=released)
    elif check or verbose or released or output != "text":
        raise click.UsageError(f"put options after the command: kubewright generate {wanted} --check")


for each in (
    manifests.command,
    installer.command,
    chart.command,
    bundle.command,
    catalog.command,
    models.command,
    client.command,
):
    command.add_command(each)
