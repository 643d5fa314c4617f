"""`kubewright generate chart`: write dist/chart."""

from __future__ import annotations

import click

from kubewright_cli.commands.generate.writing import options, write
from kubewright_cli.manifests import chart
from kubewright_cli.manifests.generated import changes
from kubewright_cli.options import image_option
from kubewright_cli.project import Project


@click.command("chart", short_help="Write dist/chart, a Helm chart.")
@image_option
@options
def command(image: str, check: bool, verbose: bool, output: str) -> None:
    """Write dist/chart: the deployment as a Helm chart.

    The default values follow from the settings of this project. values.yaml explains each value, and the chart rejects
    unknown values. Users of the chart keep their values in a file of their own.

    \b
    Example:
      kubewright generate chart --image ghcr.io/me/operator:1.0
      helm install my-operator dist/chart --namespace my-operator --create-namespace --set manager.replicas=2
    """
    project = Project.load()
    manifests = project.manifests()
    project.require_known_flags()
    if image:
        manifests = manifests.with_image(image)
    todo = changes(project.root, chart.files(manifests), folders=["dist/chart"])
    write(todo, check=check, verbose=verbose, output=output)
