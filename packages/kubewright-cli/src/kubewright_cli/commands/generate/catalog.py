"""`kubewright generate catalog`: write catalog/ and catalog.Dockerfile."""

from __future__ import annotations

import click

from kubewright_cli.commands.generate.writing import options, write
from kubewright_cli.manifests.generated import changes
from kubewright_cli.manifests.settings import Settings
from kubewright_cli.olm import catalog
from kubewright_cli.project import find_root


@click.command("catalog", short_help="Write catalog/, a file-based catalog for OLM.")
@options
def command(check: bool, verbose: bool, output: str) -> None:
    """Write catalog/ and catalog.Dockerfile: a file-based catalog with the released bundles and the current one.

    Released bundles are folders: copy bundle/ to bundles/<version> with each release. A channel has the bundles that
    name it. A bundle that states no upgrade replaces the one before it in the channel.

    \b
    Example:
      cp -r bundle bundles/1.0.0          at the release
      kubewright generate bundle          the next version
      kubewright generate catalog
      kubewright catalog validate
    """
    root = find_root()
    made = catalog.files(Settings.read(root / "pyproject.toml"), root)
    write(changes(root, made, folders=[catalog.FOLDER]), check=check, verbose=verbose, output=output)
