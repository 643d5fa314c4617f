"""`kubewright generate bundle`: write bundle/ and bundle.Dockerfile."""

from __future__ import annotations

import click

from kubewright_cli.commands.generate.writing import options, write
from kubewright_cli.manifests.generated import changes
from kubewright_cli.manifests.versions import require_conversions
from kubewright_cli.olm import bundle
from kubewright_cli.options import image_option
from kubewright_cli.project import Project


@click.command("bundle", short_help="Write bundle/, a bundle for OLM.")
@image_option
@options
def command(image: str, check: bool, verbose: bool, output: str) -> None:
    """Write bundle/ and bundle.Dockerfile: this version of the operator as a bundle for OLM.

    The ClusterServiceVersion follows from the program (kinds, permissions, webhooks, docstrings), from the samples in
    config/samples and from the settings; [tool.kubewright.bundle] has those that only a bundle needs. The capability
    level is that of levels.json, which `kubewright levels` writes: a bundle has none if the level was not measured, or
    was measured with another version of the program. Warns of that, and of what OLM cannot install.

    \b
    Example:
      kubewright generate bundle --image ghcr.io/me/operator:1.0
      kubewright bundle validate
      docker build -f bundle.Dockerfile -t ghcr.io/me/operator-bundle:v1.0.0 .
    """
    project = Project.load()
    require_conversions(project.manager, project.manifests().crds)
    project.require_known_flags()
    from kubewright_cli.olm.levels import measured_level  # loads the suite, which other commands do not need

    capability, warning = measured_level(project)
    made = bundle.bundle_of(project, image, capability)
    warnings = [*made.warnings, *filter(None, [warning])]
    todo = changes(project.root, made.files, folders=[bundle.FOLDER])
    write(todo, check=check, verbose=verbose, output=output, warnings=warnings)
