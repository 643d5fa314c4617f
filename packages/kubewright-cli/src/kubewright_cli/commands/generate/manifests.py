"""`kubewright generate manifests`: the folder config/."""

from __future__ import annotations

import click

from kubewright.models import custom_resource_definitions
from kubewright_cli.commands.generate.writing import options as options
from kubewright_cli.commands.generate.writing import write
from kubewright_cli.manifests import kustomize, samples
from kubewright_cli.manifests.generated import changes
from kubewright_cli.project import Project


@click.command("manifests", short_help="Write config/, kustomize folders.")
@options
def command(check: bool, verbose: bool, output: str) -> None:
    """Write config/: the deployment of this project as kustomize folders, in kubebuilder's layout.

    \b
    crd              a CustomResourceDefinition for each kind
    rbac             the manager's role, from what its controllers declare; leader election; metrics; a
                     role for those who administer, edit or view each kind
    manager          Namespace and Deployment
    default          all of it, with namespace and prefix: `kubectl apply --server-side -k config/default`
    prometheus       ServiceMonitor        network-policy   who reaches the metrics
    samples          an object of each kind; yours once it is written

    Of a project without a Manager (`kinds` in its settings): crd and samples.

    Files that were made by this command and are not needed any more are removed; nobody's work is.

    \b
    Examples:
      kubewright generate manifests
      kubewright generate manifests --check -v
    """
    generate(check=check, verbose=verbose, output=output)


def generate(*, check: bool, verbose: bool, output: str) -> None:
    """What the command does."""
    project = Project.load()
    folder = project.root / "config" / "samples"
    first = samples.missing(project.kinds, folder)
    shown = [*samples.present(folder), *first]
    if project.program is None:
        files = kustomize.files_of_kinds(custom_resource_definitions(project.kinds), shown)
    else:
        files = kustomize.files(project.manifests(), shown)
    files |= {f"config/samples/{name}": text for name, text in first.items()}
    todo = changes(project.root, files, folders=kustomize.FOLDERS)
    write(todo, check=check, verbose=verbose, output=output)
