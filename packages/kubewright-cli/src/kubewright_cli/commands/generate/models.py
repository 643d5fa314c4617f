"""`kubewright generate models`: typed modules for third-party CRDs."""

from __future__ import annotations

from pathlib import Path

import click

from kubewright_cli.codegen import modules
from kubewright_cli.commands.generate.crds import crd_sources, given
from kubewright_cli.commands.generate.writing import check_options, folder_option, write
from kubewright_cli.manifests.generated import changes


@click.command("models", short_help="Write typed modules for third-party CRDs.")
@crd_sources
@folder_option
@check_options
def command(
    sources: tuple[Path, ...],
    names: tuple[str, ...],
    kubeconfig: Path | None,
    context: str | None,
    folder: Path,
    check: bool,
    verbose: bool,
) -> None:
    """Write typed modules for CustomResourceDefinitions, one for each group and version.

    SOURCES are YAML or JSON files, or folders of them. Documents of other kinds are ignored.

    \b
    Examples:
      kubewright generate models crds/ --output src/my_operator/apis
      kubewright generate models --from-cluster certificates.cert-manager.io --output src/my_operator/apis
    """
    crds = given(sources, names, kubeconfig, context)
    files = {str(folder / f"{name}.py"): text for name, text in modules(crds).items()}
    write(changes(Path(), files), check=check, verbose=verbose)
