"""`kubewright generate installer`: write dist/install.yaml."""

from __future__ import annotations

import click

from kubewright_cli.commands.generate.writing import options, write
from kubewright_cli.manifests import installer
from kubewright_cli.manifests.generated import changes
from kubewright_cli.options import image_option
from kubewright_cli.project import Project


@click.command("installer", short_help="Write dist/install.yaml, everything in one file.")
@image_option
@options
def command(image: str, check: bool, verbose: bool, output: str) -> None:
    """Write dist/install.yaml: the whole deployment in one file, for users who have only kubectl.

    The content is that of `kubectl kustomize config/default`.

    \b
    Example:
      kubewright generate installer --image ghcr.io/me/operator:1.0
      kubectl apply --server-side -f dist/install.yaml
    """
    project = Project.load()
    manifests = project.manifests()
    project.require_known_flags()
    if image:
        manifests = manifests.with_image(image)
    todo = changes(project.root, {"dist/install.yaml": installer.text(manifests)})
    write(todo, check=check, verbose=verbose, output=output)
